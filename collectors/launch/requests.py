"""Request and result of a process that measures synthetic graphs. Imports no CUDA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from graphviz_dash.model.launch import LaunchSeries, Topology

LENGTHS: Final = (1, 2, 4, 8, 10, 16, 32, 64, 100, 128, 256, 512, 1000, 1024, 1025, 2000, 2048)
"""Powers of two, and the lengths of published measurements."""

CHAIN_LENGTHS: Final = (10, 50, 100, 256)
WIDTHS: Final = (1, 2, 4, 8, 16, 32)
OTHER_NODE_KINDS: Final[tuple[Literal["Memcpy", "Memset", "Host"], ...]] = (
    "Memcpy",
    "Memset",
    "Host",
)


class LaunchRequest(Struct, frozen=True):
    """Request for ``trials`` of each graph, written to the file ``out``."""

    topologies: tuple[Topology, ...]
    trials: int
    out: str


class LaunchResult(Struct, frozen=True):
    """Result of a process."""

    complete: bool
    """False after an interrupt: the last series may be short and later graphs missing."""
    call_ns: tuple[int, ...]
    """ns per no-op call through cuda-python."""
    clock_ns: tuple[int, ...]
    """ns between two consecutive clock readings."""
    series: tuple[LaunchSeries, ...]


def build_topologies(
    lengths: Sequence[int], width: int, chain_lengths: Sequence[int], widths: Sequence[int]
) -> tuple[Topology, ...]:
    """Return the graphs to measure, without duplicates.

    Linear chains of all ``lengths``; ``width`` parallel chains of ``chain_lengths``, with one or
    separate roots; ``widths`` chains of 10 nodes; chains of 100 nodes with a different node kind in
    the middle.
    """
    planned = [Topology(1, length, False, None, 0) for length in lengths]
    for length in chain_lengths:
        planned += [Topology(width, length, single, None, 0) for single in (False, True)]
    planned += [Topology(count, 10, False, None, 0) for count in widths]
    planned += [Topology(1, 100, False, other, 0) for other in OTHER_NODE_KINDS]
    return tuple(dict.fromkeys(planned))
