"""What part of a GPU a kernel keeps busy: told from its launch, for a kernel by itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from graphviz_dash.planning.operations import Piece

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


class KernelLaunch(Struct, frozen=True):
    """What a launch asks of the multiprocessors."""

    name: str
    """The kernel's name."""
    blocks: int
    """Of the grid."""
    threads: int
    """Of a block."""
    registers: int
    """Of a thread; 0: not known."""
    shared_bytes: int
    """Of a block."""


_LATENCY_NS: Final = 1_000.0
"""What the smallest kernel takes: of that time a kernel needs nothing but its place."""
_FILLING_WARPS: Final = 14.0
_FILLING_PRODUCT_WARPS: Final = 8.0
_ROWS: Final = re.compile(r"gemmSN|gemv", re.I)
"""Products with a few rows, which read more than they compute."""

_TURNS: Final = re.compile(r"xmma_gemm", re.I)
"""Products that split their sums over blocks, which may add up in turns."""

_FEW_BLOCKS: Final = 3
_MOST_BLOCKS: Final = 32
_REGISTERS: Final = 65_536
_DRIVER_SHARED: Final = 1_024
"""Shared memory of each block that the driver keeps, in bytes."""

_LIMITS: Final = {
    (7, 5): (1024, 64),
    (8, 0): (2048, 164),
    (8, 6): (1536, 100),
    (8, 9): (1536, 100),
    (12, 0): (1536, 100),
}
_USUAL_LIMITS: Final = (2048, 228)
"""Threads and KiB of shared memory of a multiprocessor (CUDA C++ Programming Guide, "Technical
Specifications per Compute Capability"); the usual ones are of 9.0 and 10.0."""


def lasting_share(
    kernel: KernelLaunch,
    duration_ns: float,
    multiprocessors: int,
    compute_capability: tuple[int, int],
    *,
    behind_set: bool = False,
) -> float:
    """The part of the multiprocessors that ``kernel`` takes from others while it runs, 0 to 1: the
    place that its blocks occupy, or what its warps fill, whichever is more; over the time without
    its latency, unless so few blocks fit for their shared memory that others must wait for their
    place meanwhile. A product behind a node that sets memory (``behind_set``) has counters
    there, by which its blocks add up parts of a sum in turns: they fill nothing, for most wait.

    Fitted to 28 kinds of kernels on an H200, up to eight of each at a time
    (evaluation/reports/2026-11-24-parallel.md).
    """
    if not kernel.blocks or duration_ns <= 0:
        return 0.0
    threads, shared_kib = _LIMITS.get(compute_capability, _USUAL_LIMITS)
    warps = max(-(-kernel.threads // _WARP), 1)
    resident = min(
        threads // (warps * _WARP),
        _REGISTERS // max(kernel.registers * warps * _WARP, 1),
        shared_kib * 1024 // (kernel.shared_bytes + _DRIVER_SHARED),
        _MOST_BLOCKS,
    )
    is_product = _PRODUCT.search(kernel.name) and not _ROWS.search(kernel.name)
    filling = _FILLING_PRODUCT_WARPS if is_product else _FILLING_WARPS
    occupied = min(kernel.blocks / (multiprocessors * max(resident, 1)), 1.0)
    filled = min(min(warps / filling, 1.0) * kernel.blocks / multiprocessors, 1.0)
    if behind_set and _TURNS.search(kernel.name):
        return occupied
    busy = max(duration_ns - _LATENCY_NS, 0.0) / duration_ns
    if shared_kib * 1024 < _FEW_BLOCKS * (kernel.shared_bytes + _DRIVER_SHARED):
        return max(occupied, filled * busy)
    return max(occupied, filled) * busy


def kernel_pieces(
    launches: Sequence[KernelLaunch | None],
    duration_ns: float,
    multiprocessors: int,
    compute_capability: tuple[int, int],
) -> tuple[Piece, ...]:
    """The nodes of an operator that takes ``duration_ns`` in all, None being what is no kernel.
    Which takes how much is not known: each counts as one, and once more for each time that its
    threads fill the GPU."""
    threads, _ = _LIMITS.get(compute_capability, _USUAL_LIMITS)
    whole = max(multiprocessors, 1) * threads
    weights = [
        1.0 if launch is None else 1.0 + launch.blocks * launch.threads / whole
        for launch in launches
    ]
    unit_ns = duration_ns / max(1.0, sum(weights))
    return tuple(
        Piece(
            weight,
            0.0
            if launch is None
            else lasting_share(
                launch,
                unit_ns * weight,
                multiprocessors,
                compute_capability,
                behind_set=ahead is None,
            ),
        )
        for launch, weight, ahead in zip(
            launches, weights, [*launches[:1], *launches[:-1]], strict=True
        )
    )
