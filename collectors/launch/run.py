"""A recording of launch costs: which graphs, how often, in which order."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from cuda.bindings import runtime

from collectors.launch.measure import MOST_QUEUED, Bench
from collectors.quiet import no_collection
from graphviz_dash.model.launch import LaunchMeasure, LaunchSeries, Topology

LENGTHS: Final = (1, 2, 4, 8, 10, 16, 32, 64, 100, 128, 256, 512, 1000, 1024, 1025, 2000, 2048)
"""Powers of two, and the lengths for which figures have been published."""

CHAIN_LENGTHS: Final = (10, 100, 256)
WIDTHS: Final = (1, 2, 4, 8, 16, 32)
OTHERS: Final[tuple[Literal["Memcpy", "Memset", "Host"], ...]] = ("Memcpy", "Memset", "Host")

_OVERHEAD_SAMPLES: Final = 2_000


@dataclass(frozen=True)
class Measured:
    """What was measured; ``trials`` were taken of every series."""

    trials: int
    call_ns: tuple[int, ...]
    clock_ns: tuple[int, ...]
    series: tuple[LaunchSeries, ...]


def topologies(
    lengths: Sequence[int], width: int, chain_lengths: Sequence[int], widths: Sequence[int]
) -> tuple[Topology, ...]:
    """The graphs to measure, each once.

    Straight lines of all ``lengths``; ``width`` parallel chains of ``chain_lengths``, with a root
    each and with a single one; ``widths`` chains of 10, for the cost of a root; a line of 100 with
    another kind of node in its middle. ``nodes`` is left at 0: the driver counts them.
    """
    wanted = [Topology(1, length, False, None, 0) for length in lengths]
    for length in chain_lengths:
        wanted += [Topology(width, length, single, None, 0) for single in (False, True)]
    wanted += [Topology(count, 10, False, None, 0) for count in widths]
    wanted += [Topology(1, 100, False, other, 0) for other in OTHERS]
    return tuple(dict.fromkeys(wanted))


def measure(wanted: Sequence[Topology], trials: int, report: Callable[[int], None]) -> Measured:
    """Measures ``wanted``, a trial of each in turn, so that what changes over time changes all.

    ``report`` gets the number of finished rounds. An interrupt ends it early with what it has.

    Raises:
        DriverError: a call of the driver failed.
    """
    bench = Bench(max(topology.width for topology in wanted))
    counted = [
        Topology(one.width, one.length, one.single_root, one.other, bench.count_nodes(one))
        for one in wanted
    ]
    call_ns, clock_ns = _overheads()
    rounds: list[list[dict[LaunchMeasure, int]]] = []
    with no_collection():
        try:
            for topology in counted:
                bench.measure(topology)
            for number in range(trials):
                rounds.append([bench.measure(topology) for topology in counted])
                report(number + 1)
        except KeyboardInterrupt:
            # An unfinished round is not in ``rounds``: each series has as many samples.
            pass
    series = tuple(
        _series(topology, [one[place] for one in rounds]) for place, topology in enumerate(counted)
    )
    return Measured(len(rounds), call_ns, clock_ns, series)


def _series(topology: Topology, rows: Sequence[dict[LaunchMeasure, int]]) -> LaunchSeries:
    samples: dict[LaunchMeasure, list[int]] = defaultdict(list)
    for row in rows:
        for measure, value in row.items():
            samples[measure].append(value)
    absent = {
        measure: _why_absent(measure, topology)
        for measure in LaunchMeasure
        if rows and measure not in samples
    }
    return LaunchSeries(
        topology, {measure: tuple(values) for measure, values in samples.items()}, absent
    )


def _why_absent(measure: LaunchMeasure, topology: Topology) -> str:
    if measure is LaunchMeasure.STREAM_DEVICE and topology.nodes > MOST_QUEUED:
        return f"more than {MOST_QUEUED} launches need not fit the queue behind a waiting kernel"
    return "its launch waited for the GPU, so it could not be queued behind a waiting kernel"


def _overheads() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What a call through cuda-python takes that does nothing, and what reading the clock takes."""
    clock, nothing = time.perf_counter_ns, runtime.cudaRuntimeGetVersion
    calls, clocks = [], []
    with no_collection():
        for _ in range(_OVERHEAD_SAMPLES):
            begin = clock()
            nothing()
            calls.append(clock() - begin)
            begin = clock()
            clocks.append(clock() - begin)
    return tuple(calls), tuple(clocks)
