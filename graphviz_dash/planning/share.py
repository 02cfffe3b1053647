"""GPU share of a kernel, estimated from its launch parameters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from graphviz_dash.planning.operations import Piece

_PRODUCT: Final = re.compile(r"gemm|xmma|cutlass|nvjet|conv|wgrad|dgrad|flash|fmha", re.I)
"""Kernels in which every warp computes continuously."""

_WARP: Final = 32

_PRODUCT_WARPS: Final = 5.0
"""Warps that saturate a multiprocessor: four schedulers issue for one warp each, and warps
occasionally stall."""


def estimate_kernel_share(
    name: str, blocks: int, threads: int, multiprocessors: int, filling_warps: float
) -> float:
    """Estimate a kernel's share of the multiprocessors, 0 to 1.

    The share is the number of warps divided by the ``filling_warps`` of each multiprocessor. Matrix
    products need fewer.
    """
    saturation_warps = (
        min(_PRODUCT_WARPS, filling_warps) if _PRODUCT.search(name) else filling_warps
    )
    # A block runs on one multiprocessor, regardless of its demand.
    block_share = min(-(-threads // _WARP) / saturation_warps, 1.0)
    return min(block_share * blocks / max(multiprocessors, 1), 1.0)


class KernelLaunch(Struct, frozen=True):
    """Launch parameters that determine the use of multiprocessors."""

    name: str
    blocks: int
    threads: int
    registers: int
    """Registers per thread. 0 if unknown."""
    shared_bytes: int
    """Shared memory per block, in bytes."""


_LATENCY_NS: Final = 1_000.0
"""Duration of the smallest kernel. Meanwhile a kernel occupies resources without using them."""
_SATURATION_WARPS: Final = 14.0
_PRODUCT_SATURATION_WARPS: Final = 8.0
_FEW_ROWS: Final = re.compile(r"gemmSN|gemv", re.I)
"""Matrix products with few rows, which read more than they compute."""

_SERIAL_SUMS: Final = re.compile(r"xmma_gemm", re.I)
"""Products that split sums over blocks, which may accumulate serially."""

_MIN_BLOCKS: Final = 3
_MAX_BLOCKS: Final = 32
_REGISTERS: Final = 65_536
_DRIVER_SHARED: Final = 1_024
"""Reserved by the driver per block, in bytes."""

_LIMITS: Final = {
    (7, 5): (1024, 64),
    (8, 0): (2048, 164),
    (8, 6): (1536, 100),
    (8, 9): (1536, 100),
    (12, 0): (1536, 100),
}
_DEFAULT_LIMITS: Final = (2048, 228)
"""Threads and KiB of shared memory of a multiprocessor (CUDA C++ Programming Guide, "Technical
Specifications per Compute Capability"). The default holds for 9.0 and 10.0."""


def estimate_lasting_share(
    kernel: KernelLaunch,
    duration_ns: float,
    multiprocessors: int,
    compute_capability: tuple[int, int],
    *,
    after_memset: bool = False,
) -> float:
    """Estimate the share of the multiprocessors that ``kernel`` denies to others, 0 to 1.

    The share is the larger of the occupancy of its blocks and the load of its warps, without the
    latency. If shared memory limits the blocks, occupancy counts for the full time. A matrix
    product after a memset node (``after_memset``) accumulates partial sums serially; only its
    occupancy counts, because most blocks wait.

    Fitted to 28 kinds of kernels on an H200, up to eight simultaneous copies of each
    (evaluation/reports/2026-11-24-parallel.md).
    """
    if not kernel.blocks or duration_ns <= 0:
        return 0.0
    threads, shared_kib = _LIMITS.get(compute_capability, _DEFAULT_LIMITS)
    warps = max(-(-kernel.threads // _WARP), 1)
    resident = min(
        threads // (warps * _WARP),
        _REGISTERS // max(kernel.registers * warps * _WARP, 1),
        shared_kib * 1024 // (kernel.shared_bytes + _DRIVER_SHARED),
        _MAX_BLOCKS,
    )
    is_product = _PRODUCT.search(kernel.name) and not _FEW_ROWS.search(kernel.name)
    saturation_warps = _PRODUCT_SATURATION_WARPS if is_product else _SATURATION_WARPS
    occupied = min(kernel.blocks / (multiprocessors * max(resident, 1)), 1.0)
    filled = min(min(warps / saturation_warps, 1.0) * kernel.blocks / multiprocessors, 1.0)
    if after_memset and _SERIAL_SUMS.search(kernel.name):
        return occupied
    busy = max(duration_ns - _LATENCY_NS, 0.0) / duration_ns
    if shared_kib * 1024 < _MIN_BLOCKS * (kernel.shared_bytes + _DRIVER_SHARED):
        return max(occupied, filled * busy)
    return max(occupied, filled) * busy


def split_into_pieces(
    launches: Sequence[KernelLaunch | None],
    duration_ns: float,
    multiprocessors: int,
    compute_capability: tuple[int, int],
) -> tuple[Piece, ...]:
    """Split an operator of ``duration_ns`` into its nodes; None marks nodes that are not kernels.

    Individual durations are unknown. Each node has weight 1, plus 1 for each time that its threads
    fill the GPU.
    """
    threads, _ = _LIMITS.get(compute_capability, _DEFAULT_LIMITS)
    gpu_threads = max(multiprocessors, 1) * threads
    weights = [
        1.0 if launch is None else 1.0 + launch.blocks * launch.threads / gpu_threads
        for launch in launches
    ]
    unit_ns = duration_ns / max(1.0, sum(weights))
    return tuple(
        Piece(
            weight,
            0.0
            if launch is None
            else estimate_lasting_share(
                launch,
                unit_ns * weight,
                multiprocessors,
                compute_capability,
                after_memset=previous is None,
            ),
        )
        for launch, weight, previous in zip(
            launches, weights, [*launches[:1], *launches[:-1]], strict=True
        )
    )
