from __future__ import annotations

import pytest

from graphviz_dash.analysis.trace.kernel_categories import Category, categorise

NAMES = {
    Category.GEMM: (
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_tn_align1>(Params)",
        "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw",
        "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int, int)",
        "void cudnn::cnn::wgrad_alg1_engine<float, float, 128, 5, 5, 3, 3, 3, false, false>(int)",
        "void cudnn::winograd_nonfused::winogradWgradData4x4<float, float>(Params)",
        "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NNT",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1",
        "cudnn_infer_volta_scudnn_128x32_relu_medium_nn_v1",
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1_swiglu",
    ),
    Category.ATTENTION: (
        "fmha_cutlassB_f32_aligned_64x64_k32_sm80(PyTorchMemEffAttention::Params)",
        "void cudnn::fusion::compute_dot_do_o_specialized<true, 64>(void const*)",
        "void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits>(Params)",
        "_fwd_grouped_kernel_stage1",
        "_fwd_kernel_stage2",
    ),
    Category.REDUCTION: (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(float)",
        "void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>(Args)",
        "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 128, true, 1>(float)",
        "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<float>(int)",
        "void at::native::(anonymous namespace)::max_pool_backward_nchw<float, float, int>(float)",
        "triton_per_fused_sum_threshold_backward_1",
        "triton_red_fused_1",
        "void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)",
    ),
    Category.ELEMENTWISE: (
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)",
        "void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float, false>(int)",
        "void cudnn::engines_precompiled::scalePackedTensor_kernel<float, float>(long)",
        "triton_poi_fused_addmm_relu_0",
        "void (anonymous namespace)::store_kvcache<2048l, 4, true, long>(StoreKVCacheParams)",
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16>(void const*)",
        "void split_embedding_codegen_forward_unweighted_kernel<float>(at::PackedTensorAccessor<"
        "float, 1ul>, fbgemm_gpu::FixedDivisor)",
        "void fbgemm_gpu::permute_2D_lengths_kernel<int>(int, int, int const*, int const*, int*)",
    ),
    Category.COMMUNICATION: (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)",
        "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(__nv_bfloat16*)",
        "void dpsk::ep::internode::dispatch<false, 8, true, 8>(int4*, float*)",
    ),
    Category.MEMORY: ("memcpy32_post",),
    Category.OTHER: ("busy", "my_own_kernel(float*)"),
}


@pytest.mark.parametrize(
    ("name", "category"), [(name, one) for one, names in NAMES.items() for name in names]
)
def test_kernels(name: str, category: Category) -> None:
    assert categorise("kernel", name) is category


@pytest.mark.parametrize("kind", ["memcpy", "memset", "Memcpy"])
def test_copies_and_sets_are_memory_whatever_their_name(kind: str) -> None:
    assert categorise(kind, "gemm") is Category.MEMORY


def test_work_other_than_kernels_is_in_category_other() -> None:
    assert categorise("host", "gemm") is Category.OTHER
