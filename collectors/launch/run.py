"""Measure synthetic graphs in this process: ``python -m collectors.launch.run REQUEST.json``.

Exit codes: 0 done, or interrupted by SIGINT with partial results; 1 failed, cause in the last line
of stderr.
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
from collectors.launch.measure import MAX_QUEUED, LaunchBenchmark
from collectors.launch.requests import LaunchRequest, LaunchResult
from collectors.passes.gc_off import disable_gc
from collectors.process.lifeline import exit_with_parent
from graphviz_dash.model.launch import LaunchMeasure, LaunchSeries, Topology

_OVERHEAD_SAMPLES: Final = 400

_STREAM_MEASURES: Final = (
    LaunchMeasure.STREAM_CPU,
    LaunchMeasure.STREAM,
    LaunchMeasure.STREAM_DEVICE,
)

Row: TypeAlias = dict[LaunchMeasure, int]
"""Measures of one trial, in ns."""


def main(arguments: list[str]) -> int:
    """Run the measurements of the request file and write the result file."""
    exit_with_parent()
    interrupted = False

    def stop(*_: object) -> None:
        nonlocal interrupted
        interrupted = True

    # Do not raise: an interrupted trial would leave a kernel waiting.
    signal.signal(signal.SIGINT, stop)
    request = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=LaunchRequest)
    try:
        measured = measure_topologies(request.topologies, request.trials, lambda: interrupted)
    except DriverError as error:
        print(error, file=sys.stderr)
        return 1
    Path(request.out).write_bytes(msgspec.json.encode(measured))
    return 0


def measure_topologies(
    topologies: Sequence[Topology], trials: int, is_stopped: Callable[[], bool] = lambda: False
) -> LaunchResult:
    """Measure each topology ``trials`` times after one discarded trial.

    As in NVIDIA's sample, trials of one graph follow each other.

    Raises:
        DriverError: A driver call failed.
    """
    bench = LaunchBenchmark(max(topology.width for topology in topologies))
    call_ns, clock_ns = _measure_overheads()
    series: list[LaunchSeries] = []
    with disable_gc():
        for shape in topologies:
            nodes = bench.count_nodes(shape)
            topology = Topology(
                shape.width, shape.length, shape.single_root, shape.middle_node, nodes
            )
            # Not interleaved: thousands of stream launches before a trial would affect it.
            rows = _run_trials(bench.run_trial, topology, trials, is_stopped)
            streams = _run_trials(bench.run_stream_trial, topology, trials, is_stopped)
            if rows:
                series.append(_build_series(topology, rows, streams))
            if is_stopped():
                break
    complete = len(series) == len(topologies) and not is_stopped()
    return LaunchResult(complete, call_ns, clock_ns, tuple(series))


def _run_trials(
    measure: Callable[[Topology], Row],
    topology: Topology,
    trials: int,
    is_stopped: Callable[[], bool],
) -> list[Row]:
    rows: list[Row] = []
    measure(topology)
    while len(rows) < trials and not is_stopped():
        rows.append(measure(topology))
    return rows


def _build_series(topology: Topology, rows: Sequence[Row], streams: Sequence[Row]) -> LaunchSeries:
    samples: dict[LaunchMeasure, list[int]] = defaultdict(list)
    for row in (*rows, *streams):
        for kind, value in row.items():
            samples[kind].append(value)
    # All or none: samples are assigned to a process by position. An interrupted, shorter series is
    # the last.
    complete = {
        kind: tuple(values)
        for kind, values in samples.items()
        if len(values) == (len(streams) if kind in _STREAM_MEASURES else len(rows))
    }
    absent = {
        kind: _explain_absence(kind, topology) for kind in LaunchMeasure if kind not in complete
    }
    return LaunchSeries(topology, complete, absent)


def _explain_absence(measure: LaunchMeasure, topology: Topology) -> str:
    if measure is LaunchMeasure.STREAM_DEVICE and topology.nodes > MAX_QUEUED:
        return f"more than {MAX_QUEUED} launches may exceed the queue behind a waiting kernel"
    return "the launch waited for the GPU, so it could not be queued behind a waiting kernel"


def _measure_overheads() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Measure a no-op call and a clock reading, in ns."""
    clock, no_op = time.perf_counter_ns, runtime.cudaRuntimeGetVersion
    calls, clocks = [], []
    with disable_gc():
        for _ in range(_OVERHEAD_SAMPLES):
            begin = clock()
            no_op()
            calls.append(clock() - begin)
            begin = clock()
            clocks.append(clock() - begin)
    return tuple(calls), tuple(clocks)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
