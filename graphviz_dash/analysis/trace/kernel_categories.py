"""Classification of GPU work into seven categories by name.

The categories are an interpretation of names, not a fact of the trace.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache


class Category(StrEnum):
    """Category, in legend order."""

    GEMM = "gemm"
    ATTENTION = "attention"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    COMMUNICATION = "communication"
    MEMORY = "memory"
    OTHER = "other"


# First match wins, so specific words come before general ones. The driver runs some copies and sets
# of a graph as kernels ("memcpy32_post").
_PATTERNS = (
    (Category.MEMORY, r"^(memcpy|memset)\d"),
    (
        Category.COMMUNICATION,
        r"nccl|rccl|nvshmem|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|"
        # DeepEP sends tokens to experts and back: deep_ep::internode::dispatch, ::combine.
        r"cross_device_reduce|multimem|deep_ep::|(inter|intra)node(_ll)?::",
    ),
    # vLLM and SGLang copy keys and values into their caches.
    (Category.ELEMENTWISE, r"reshape_and_cache|store_kv_?cache"),
    (
        Category.ATTENTION,
        # FlashInfer has kernels of all kinds. Triton's attention in SGLang: _fwd_kernel_stage2.
        r"flash(?!infer)|fmha|attention|attn|softmax_warp_(forward|backward)_masked|"
        r"compute_dot_do_o|(paged|ragged)_?kv|^_fwd_(grouped_)?kernel",
    ),
    (
        # Convolutions are matrix products to the hardware: cuDNN's fprop, dgrad and wgrad engines.
        # Kernels of rocBLAS and hipBLASLt are named after their indices: Cijk_Ailk_Bljk.
        Category.GEMM,
        # FBGEMM is a library that mostly runs embedding look-ups. Before cuDNN 8, convolutions are
        # named only after their tiles: volta_scudnn_128x64_relu.
        r"(?<!fb)gemm|gemv|matmul|^cijk_|cublas|cutlass|wgmma|xmma|splitk|conv|_mm_|nvjet|fprop|dgrad"
        r"|wgrad|winograd|cudnn_\w*\d+x\d+",
    ),
    (
        Category.REDUCTION,
        r"reduce|softmax|norm|bn_[fb]w|gammabeta|pool|sum|mean|argmax|scan|sort|triton_(red|per)_",
    ),
    (
        Category.ELEMENTWISE,
        r"elementwise|vectorized|multi_tensor|foreach|dropout|triton_poi|index|gather|scatter|"
        r"cat|copy_kernel|fill|embedding|rope|rotary|activation|gelu|silu|nchwtonhwc|nhwctonchw|"
        r"transpose|permute|scalepackedtensor",
    ),
)
_COMPILED = tuple((category, re.compile(pattern, re.IGNORECASE)) for category, pattern in _PATTERNS)


@lru_cache(maxsize=65536)
def categorise(kind: str, name: str) -> Category:
    """Return the category of GPU work of ``kind`` (kernel, memcpy, memset; case ignored)."""
    if kind.lower() in ("memcpy", "memset", "memalloc", "memfree"):
        return Category.MEMORY
    if kind.lower() != "kernel":
        return Category.OTHER
    return next((c for c, pattern in _COMPILED if pattern.search(name)), Category.OTHER)
