from __future__ import annotations

import time

import pytest

from graphviz_dash.analysis.trace.kernel_names import shorten_name


@pytest.mark.parametrize(
    ("full", "short"),
    [
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
            "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>)",
            "elementwise add",
        ),
        (
            "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<"
            "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}> >(int)",
            "elementwise direct_copy",
        ),
        (
            "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<"
            "at::native::BinaryFunctor<float, float, float, "
            "at::native::binary_internal::DivFunctor<float> > >(int)",
            "elementwise Div",
        ),
        (
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
            "at::native::func_wrapper_t<float, at::native::sum_functor<float, float> > > >()",
            "reduce sum",
        ),
        (
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<"
            "at::native::(anonymous namespace)::BinaryOpScalarFunctor<float>, "
            "std::multiplies<float>, float>(int)",
            "multi_tensor multiplies",
        ),
        (
            "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(int)",
            "cutlass_80_simt_sgemm_128x32_8x5_nn_align1",
        ),
        (
            "void cutlass::device_kernel<flash::enable_sm80_to_sm89<flash::FlashAttnFwdSm80<"
            "flash::CollectiveMainloopFwdSm80<8> > > >(Params)",
            "FlashAttnFwdSm80",
        ),
        (
            "void cutlass::device_kernel<grouped_gemm::cuda::fp8_ptp128c::GemmKernel>"
            "(grouped_gemm::cuda::fp8_ptp128c::GemmKernel::Params)",
            "fp8_ptp128c",
        ),
        (
            "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>(int)",
            "vectorized_layer_norm_kernel",
        ),
        (
            "void cutlass_cudnn_train::Kernel<cutlass_tensorop_s1688wgrad_optimized_tf32_64x64>"
            "(cutlass_tensorop_s1688wgrad_optimized_tf32_64x64::Params)",
            "cutlass_tensorop_s1688wgrad_optimized_tf32_64x64",
        ),
        (
            "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float, "
            "cublasGemvParamsEx<int, float> >(cublasGemvParamsEx<int, float>)",
            "gemvx::kernel",
        ),
        ("fmha_cutlassF_f32_sm80(Attention<float>::Params)", "fmha_cutlassF_f32_sm80"),
        ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"),
        ("triton_poi_fused_0", "triton_poi_fused_0"),
        ("Memcpy DtoH (Device -> Pinned)", "Memcpy DtoH (Device -> Pinned)"),
        ("void at::native::vectorized_elementwise_kernel<4>(int)", "vectorized_elementwise_kernel"),
        ("", ""),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    ],
)
def test_short_names(full: str, short: str) -> None:
    assert shorten_name(full) == short


@pytest.mark.parametrize("part", ["a", "a::", "elementwise_kernel<", "(", "Functor<", "_kernel_"])
def test_absurd_names_take_no_time(part: str) -> None:
    begun = time.process_time()
    shorten_name("void at::native::reduce_kernel<" + part * 200_000)
    assert time.process_time() - begun < 1
