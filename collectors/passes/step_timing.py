"""Time the iterations of a step in both series of a process, and the machine's state."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import torch
from cuda.bindings import runtime

from collectors.driver.calls import call
from collectors.driver.nvml import read_gpu_clocks
from collectors.passes.cpu_loop import time_cpu_loop
from collectors.passes.gc_off import disable_gc
from graphviz_dash.model.timings import CleanProcess, CleanTimings, StepTiming

SETTLE_ITERATIONS = 3
"""Discarded iterations before each timed series, until clocks and caches settle."""

_BUSY_ITERATIONS = 20
"""Iterations while the GPU's clocks are read, fixed because ranks must launch collectives equally
often."""


def time_process(iterate: Callable[[], object], warmup_ns: int, iterations: int) -> CleanTimings:
    """Time both series and measure the machine before, between and after; without graph costs."""
    start_time = time.time_ns()
    with disable_gc():
        loop = time_cpu_loop()
        steps, intervals = (
            time_synchronized(iterate, iterations),
            _time_back_to_back(iterate, iterations),
        )
        for _ in range(_BUSY_ITERATIONS):
            iterate()
        clocks = read_gpu_clocks(_get_bus_id())
        torch.cuda.synchronize()
        loop += time_cpu_loop()
    process = CleanProcess(start_time, len(steps), len(intervals), loop, clocks)
    return CleanTimings(warmup_ns, steps, intervals, graphs=(), processes=(process,))


def _get_bus_id() -> str:
    """Return the current device's PCI address; NVML's indices ignore CUDA_VISIBLE_DEVICES."""
    name = call(runtime.cudaDeviceGetPCIBusId, 32, torch.cuda.current_device())
    return bytes(name).partition(b"\0")[0].decode("ascii")


def time_steps(
    iterate: Callable[[], object], iterations: int
) -> tuple[tuple[StepTiming, ...], tuple[int, ...]]:
    """Time both series of ``iterations``: synchronized, and back to back in ns by CUDA events."""
    with disable_gc():
        return time_synchronized(iterate, iterations), _time_back_to_back(iterate, iterations)


def time_synchronized(
    iterate: Callable[[], object],
    iterations: int,
    after: Callable[[], object] = lambda: None,
    before: Callable[[], object] = lambda: None,
) -> tuple[StepTiming, ...]:
    """Time iterations, each synchronized; ``before`` and ``after`` run outside the times."""
    for _ in range(SETTLE_ITERATIONS):
        iterate()
    rows = []
    for _ in range(iterations):
        torch.cuda.synchronize()
        before()
        begin = time.perf_counter_ns()
        iterate()
        returned = time.perf_counter_ns()
        torch.cuda.synchronize()
        rows.append(StepTiming(time.perf_counter_ns() - begin, returned - begin))
        after()
    return tuple(rows)


def _time_back_to_back(iterate: Callable[[], object], iterations: int) -> tuple[int, ...]:
    """Time iterations without synchronization, with an event before each, as in a training loop."""
    for _ in range(SETTLE_ITERATIONS):
        iterate()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(iterations + 1)]
    torch.cuda.synchronize()
    for event in events[:-1]:
        event.record()
        iterate()
    events[-1].record()
    torch.cuda.synchronize()
    return tuple(round(before.elapsed_time(after) * 1e6) for before, after in pairwise(events))
