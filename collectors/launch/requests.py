"""What is asked of a process that measures synthetic graphs, and what it gives; imports no CUDA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from graphviz_dash.model.launch import LaunchSeries, Topology

LENGTHS: Final = (1, 2, 4, 8, 10, 16, 32, 64, 100, 128, 256, 512, 1000, 1024, 1025, 2000, 2048)
"""Powers of two, and the lengths for which figures have been published."""

CHAIN_LENGTHS: Final = (10, 50, 100, 256)
WIDTHS: Final = (1, 2, 4, 8, 16, 32)
OTHERS: Final[tuple[Literal["Memcpy", "Memset", "Host"], ...]] = ("Memcpy", "Memset", "Host")


class Request(Struct, frozen=True):
    """``trials`` of each graph of ``wanted``; the result goes into the file ``out``."""

    wanted: tuple[Topology, ...]
    trials: int
    out: str


class Measured(Struct, frozen=True):
    """What was measured."""

    whole: bool
    """All that was asked for; else the last series may be shorter than the others, and graphs that
    were not reached have none."""
    call_ns: tuple[int, ...]
    """Times of a call that does nothing, through cuda-python."""
    clock_ns: tuple[int, ...]
    """Times between two readings of the clock in a row."""
    series: tuple[LaunchSeries, ...]
    """The samples, a series for each topology."""


def topologies(
    lengths: Sequence[int], width: int, chain_lengths: Sequence[int], widths: Sequence[int]
) -> tuple[Topology, ...]:
    """The graphs to measure, each once.

    Linear chains of all ``lengths``; ``width`` parallel chains of ``chain_lengths``, with a root
    each and with a single one; ``widths`` chains of 10, for the cost of a root; a line of 100 with
    another kind of node in its middle. ``nodes`` is left at 0: the driver counts them.
    """
    wanted = [Topology(1, length, False, None, 0) for length in lengths]
    for length in chain_lengths:
        wanted += [Topology(width, length, single, None, 0) for single in (False, True)]
    wanted += [Topology(count, 10, False, None, 0) for count in widths]
    wanted += [Topology(1, 100, False, other, 0) for other in OTHERS]
    return tuple(dict.fromkeys(wanted))
