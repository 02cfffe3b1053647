"""What one process measures of synthetic graphs: ``python -m collectors.launch.run REQUEST.json``.

Exit codes: 0 done, or ended early by SIGINT with what there was; 1 failed, the last line of stderr
says why.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from cuda.bindings import runtime

from collectors.driver.calls import DriverError
from collectors.launch.measure import MOST_QUEUED, Bench
from collectors.launch.requests import Measured, Request
from collectors.passes.gc_off import no_collection
from collectors.process.lifeline import die_with_parent
from graphviz_dash.model.launch import LaunchMeasure, LaunchSeries, Topology

_OVERHEAD_SAMPLES: Final = 400

_OF_STREAMS: Final = (
    LaunchMeasure.STREAM_CPU,
    LaunchMeasure.STREAM,
    LaunchMeasure.STREAM_DEVICE,
)

Row: TypeAlias = dict[LaunchMeasure, int]
"""The measures of one trial, in ns."""


def main(arguments: list[str]) -> int:
    """Measures what the request file asks for and writes it beside."""
    die_with_parent()
    interrupted = False

    def stop(*_: object) -> None:
        nonlocal interrupted
        interrupted = True

    # Not an exception: a trial that is interrupted in its middle would leave a kernel waiting.
    signal.signal(signal.SIGINT, stop)
    request = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=Request)
    try:
        measured = measure(request.wanted, request.trials, lambda: interrupted)
    except DriverError as error:
        print(error, file=sys.stderr)
        return 1
    Path(request.out).write_bytes(msgspec.json.encode(measured))
    return 0


def measure(
    wanted: Sequence[Topology], trials: int, stopped: Callable[[], bool] = lambda: False
) -> Measured:
    """Measures ``wanted`` one after the other, ``trials`` times each after one that is not kept.

    As NVIDIA's sample does: trials of one graph follow each other, so that the driver has seen its
    like. ``stopped`` is asked before each trial; what was measured by then is kept.

    Raises:
        DriverError: a call of the driver failed.
    """
    bench = Bench(max(topology.width for topology in wanted))
    call_ns, clock_ns = _overheads()
    series: list[LaunchSeries] = []
    with no_collection():
        for shape in wanted:
            nodes = bench.count_nodes(shape)
            topology = Topology(shape.width, shape.length, shape.single_root, shape.other, nodes)
            # Not in turns: thousands of launches into streams before a trial would be felt in it.
            rows = _trials(bench.measure, topology, trials, stopped)
            streams = _trials(bench.measure_streams, topology, trials, stopped)
            if rows:
                series.append(_series(topology, rows, streams))
            if stopped():
                break
    whole = len(series) == len(wanted) and not stopped()
    return Measured(whole, call_ns, clock_ns, tuple(series))


def _trials(
    measure: Callable[[Topology], Row],
    topology: Topology,
    trials: int,
    stopped: Callable[[], bool],
) -> list[Row]:
    """What ``trials`` trials gave after one that is not kept; fewer once ``stopped``."""
    rows: list[Row] = []
    measure(topology)
    while len(rows) < trials and not stopped():
        rows.append(measure(topology))
    return rows


def _series(topology: Topology, rows: Sequence[Row], streams: Sequence[Row]) -> LaunchSeries:
    samples: dict[LaunchMeasure, list[int]] = defaultdict(list)
    for row in (*rows, *streams):
        for kind, value in row.items():
            samples[kind].append(value)
    # All or none: samples are told apart by their number of a process. What an interrupt cut short
    # is shorter than that, and the last.
    kept = {
        kind: tuple(values)
        for kind, values in samples.items()
        if len(values) == (len(streams) if kind in _OF_STREAMS else len(rows))
    }
    absent = {kind: _why_absent(kind, topology) for kind in LaunchMeasure if kind not in kept}
    return LaunchSeries(topology, kept, absent)


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
