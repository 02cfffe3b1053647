"""What part of a GPU a kernel keeps busy: told from its launch, for a kernel by itself."""

from __future__ import annotations

import re
from typing import Final

_PRODUCT: Final = re.compile(r"gemm|xmma|cutlass|nvjet|conv|wgrad|dgrad|flash|fmha", re.I)
"""Kernels whose every warp has something to compute at each instant."""

_WARP: Final = 32

_PRODUCT_WARPS: Final = 5.0
"""Warps of products that fill a multiprocessor: each of its four schedulers issues for one warp at
a time, and a warp stalls now and then."""


def kernel_share(
    name: str, blocks: int, threads: int, multiprocessors: int, filling_warps: float
) -> float:
    """The part of the multiprocessors that a kernel asks for, 0 to 1: the warps of its ``blocks``
    of ``threads`` over the ``filling_warps`` that fill one, of which products need fewer."""
    filling = min(_PRODUCT_WARPS, filling_warps) if _PRODUCT.search(name) else filling_warps
    # A block runs on one multiprocessor, whatever it asks of it.
    block = min(-(-threads // _WARP) / filling, 1.0)
    return min(block * blocks / max(multiprocessors, 1), 1.0)
