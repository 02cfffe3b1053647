from __future__ import annotations

import pytest

from graphviz_dash.analysis.trace.collectives import (
    Collective,
    compute_message_bytes,
    get_collective_kind,
)
from tests.ranks import ALL_REDUCE


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (ALL_REDUCE, Collective.ALL_REDUCE),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", Collective.ALL_REDUCE),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all-gather"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)", Collective.REDUCE_SCATTER),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", Collective.SEND_RECEIVE),
        ("ncclDevKernel_Broadcast_RING_LL(x)", Collective.BROADCAST),
        ("ncclDevKernel_Reduce_Sum_f32_RING_LL(x)", Collective.REDUCE),
        ("ncclDevKernel_Generic(x)", Collective.UNKNOWN),
        ("void vllm::cross_device_reduce_1stage<float, 2>(x)", Collective.ALL_REDUCE),
        ("multimem_all_reduce_kernel<float>", Collective.ALL_REDUCE),
        ("void deep_ep::intranode::combine<__nv_bfloat16, 8>(x)", Collective.ALL_TO_ALL),
        ("void deep_ep::internode_ll::dispatch<true, 7168>(x)", Collective.ALL_TO_ALL),
        ("void deep_ep::internode::cached_notify<false>(x)", Collective.UNKNOWN),
        ("void at::native::reduce_kernel<512, 1>(x)", None),
        ("void at::native::vectorized_gather_kernel<16>(x)", None),
        ("sm90_xmma_gemm_f32f32", None),
    ],
)
def test_kinds_are_told_by_name(name: str, kind: Collective | str | None) -> None:
    assert get_collective_kind(name) == kind


@pytest.mark.parametrize(
    ("name", "dims", "size"),
    [
        (ALL_REDUCE, "[[[4,128,512]],[],[]]", 4 * 128 * 512 * 4),
        (ALL_REDUCE, "[[[4,8],[2]],[]]", 34 * 4),
        (ALL_REDUCE, "[[4,8],[]]", 32 * 4),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)", "[[[10]]]", 20),
        ("ncclDevKernel_AllReduce_Sum_f8e4m3_RING_LL(x)", "[[[10]]]", 10),
        ("ncclDevKernel_AllGather_RING_LL(x)", "[[[10]]]", None),
        (ALL_REDUCE, None, None),
        (ALL_REDUCE, "[]", None),
        (ALL_REDUCE, "[[]]", None),
        (ALL_REDUCE, "nonsense", None),
        (ALL_REDUCE, '[["x"]]', None),
        (ALL_REDUCE, "[[[-4,8]]]", None),
    ],
)
def test_a_message_is_as_large_as_its_tensors(
    name: str, dims: str | None, size: int | None
) -> None:
    assert compute_message_bytes(name, dims) == size
