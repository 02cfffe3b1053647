"""Run the observers pass: time a step with one observer attached, in a separate process."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeAlias

import msgspec
import torch
from torch.profiler import ProfilerActivity, profile

from collectors.cupti.graph_records import GraphRecorder
from collectors.passes.executor import prepare_step
from collectors.passes.gc_off import disable_gc
from collectors.passes.modes import prepare_mode
from collectors.passes.spin_kernel import SpinKernel
from collectors.passes.step_timing import time_synchronized
from collectors.process.requests import SERIES_FILE, PassRequest
from collectors.workloads import Step
from graphviz_dash.model.observers import ObservedSeries, Observer
from graphviz_dash.model.timings import StepTiming

MAX_ITERATIONS: Final = 100
"""Maximum steps per series; a profiler records hundreds of events per step."""

_BUFFER: Final = 8 << 20

Interval: TypeAlias = tuple[int, int]
"""Start and end of GPU work, in ns."""


def run(request: PassRequest) -> None:
    """Write a list of Observed to ``request.out``."""
    graph_level = None
    if request.observer is Observer.GRAPH_LEVEL:
        # Enable it before any graph exists, see GraphLevel.
        graph_level = GraphRecorder(str(torch.version.cuda).partition(".")[0])
        graph_level.start()
    step, _ = prepare_step(request)
    iterate = prepare_mode(request.mode, step, request.plan)
    count = min(request.iterations, MAX_ITERATIONS)
    with disable_gc():
        series = _run_observer(request.observer, iterate, count, graph_level)
    (Path(request.out) / SERIES_FILE).write_bytes(msgspec.json.encode(series))


def _run_observer(
    observer: Observer | None, iterate: Step, count: int, watch: GraphRecorder | None
) -> list[ObservedSeries]:
    if watch is not None:
        return _time_with_cupti_graphs(iterate, count, watch)
    match observer:
        case Observer.EVENTS:
            return _time_with_events(iterate, count)
        case Observer.PROFILER:
            return _time_with_profiler(iterate, count)
        case Observer.NODE_LEVEL:
            return _time_with_cupti_nodes(iterate, count)
        case _:
            return _time_unobserved(iterate, count)


def _time_unobserved(iterate: Step, count: int) -> list[ObservedSeries]:
    steps = time_synchronized(iterate, count)
    interval = _measure_interval(iterate, count)
    return [ObservedSeries(Observer.NONE, 0, None, steps, interval, (), (), None)]


def _time_with_events(iterate: Step, count: int) -> list[ObservedSeries]:
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    reported: list[int] = []

    def between() -> None:
        before.record()
        iterate()
        after.record()

    def read() -> None:
        reported.append(round(before.elapsed_time(after) * 1e6))

    steps = time_synchronized(between, count, read)
    interval = _measure_interval(between, count)
    device = _measure_device_times(iterate, steps)
    source = f"CUDA events of torch {torch.__version__}"
    return [
        ObservedSeries(Observer.EVENTS, 0, source, steps, interval, device, tuple(reported), None)
    ]


def _time_with_profiler(iterate: Step, count: int) -> list[ObservedSeries]:
    # The records use wall-clock time, so take the step's start on the same clock.
    begins: list[int] = []
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        steps = time_synchronized(iterate, count, before=lambda: begins.append(time.time_ns()))
        end = time.time_ns()
        interval = _measure_interval(iterate, count)
        device = _measure_device_times(iterate, steps)
    work = [
        (event.start_ns(), event.start_ns() + event.duration_ns())
        for event in profiler.profiler.kineto_results.events()
        if event.device_type() == torch.autograd.DeviceType.CUDA
    ]
    source = f"torch.profiler of torch {torch.__version__}"
    reported, records = _summarize_work(work, begins, end)
    watched = ObservedSeries(
        Observer.PROFILER, 0, source, steps, interval, device, reported, records
    )
    steps = time_synchronized(iterate, count)
    interval = _measure_interval(iterate, count)
    stopped = ObservedSeries(
        Observer.STOPPED,
        0,
        source,
        steps,
        interval,
        _measure_device_times(iterate, steps),
        (),
        None,
    )
    return [watched, stopped]


def _time_with_cupti_graphs(
    iterate: Step, count: int, watch: GraphRecorder
) -> list[ObservedSeries]:
    begins: list[int] = []
    steps = time_synchronized(iterate, count, before=lambda: begins.append(watch.read_clock()))
    end = watch.read_clock()
    interval = _measure_interval(iterate, count)
    device = _measure_device_times(iterate, steps)
    watch.stop()
    reported, records = _summarize_work(watch.work, begins, end)
    source = f"CUPTI {watch.version}"
    return [
        ObservedSeries(Observer.GRAPH_LEVEL, 0, source, steps, interval, device, reported, records)
    ]


def _time_with_cupti_nodes(iterate: Step, count: int) -> list[ObservedSeries]:
    from cupti import cupti

    kind = cupti.ActivityKind
    work: list[Interval] = []

    def completed(activities: list[Any]) -> None:
        work.extend((kind.start, kind.end) for kind in activities)

    kinds = (kind.CONCURRENT_KERNEL, kind.MEMCPY, kind.MEMSET)
    cupti.activity_register_callbacks(lambda: (_BUFFER, 0), completed)
    for kind in kinds:
        cupti.activity_enable(kind)
    begins: list[int] = []
    steps = time_synchronized(
        iterate, count, before=lambda: begins.append(int(cupti.get_timestamp()))
    )
    end = int(cupti.get_timestamp())
    interval = _measure_interval(iterate, count)
    device = _measure_device_times(iterate, steps)
    cupti.activity_flush_all(1)
    for kind in kinds:
        cupti.activity_disable(kind)
    reported, records = _summarize_work(work, begins, end)
    source = f"cupti-python {version('cupti-python')}"
    return [
        ObservedSeries(Observer.NODE_LEVEL, 0, source, steps, interval, device, reported, records)
    ]


def _measure_interval(iterate: Callable[[], object], count: int) -> int:
    """Return the wall time per step over ``count`` steps synchronized only at the end."""
    torch.cuda.synchronize()
    begin = time.perf_counter_ns()
    for _ in range(count):
        iterate()
    torch.cuda.synchronize()
    return (time.perf_counter_ns() - begin) // count


def _measure_device_times(iterate: Step, steps: Sequence[StepTiming]) -> tuple[int, ...]:
    behind = SpinKernel()
    launch_ns = median(step.launch_cpu_ns for step in steps)
    times = (behind.measure_device_ns(iterate, launch_ns) for _ in range(len(steps)))
    return tuple(value for value in times if value is not None)


def _summarize_work(
    work: Iterable[Interval], step_starts: Sequence[int], end: int
) -> tuple[tuple[int, ...], int]:
    """Return each step's span of GPU work, and the number of work items."""
    spans: dict[int, Interval] = {}
    count = 0
    for first, last in work:
        step = bisect_right(step_starts, first) - 1
        # CUPTI reports 0 for untimed work.
        if step < 0 or not 0 < first <= last or first >= end:
            continue
        count += 1
        span = spans.get(step, (first, last))
        spans[step] = min(span[0], first), max(span[1], last)
    return tuple(spans[step][1] - spans[step][0] for step in sorted(spans)), count
