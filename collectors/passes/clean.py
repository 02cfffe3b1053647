"""The clean pass: timed by the wall clock and CUDA events, with no profiler ever attached."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import pairwise, permutations
from pathlib import Path

import msgspec
import torch
from cuda.bindings import driver

from collectors.allocator.statistics import memory_use
from collectors.driver.capabilities import ask_update
from collectors.driver.topology import read_graph_and_handles
from collectors.passes.capture_listener import recording
from collectors.passes.executor import LifeListener, absent_from, prepare
from collectors.passes.gc_off import no_collection
from collectors.passes.launches import with_launches, without_launches
from collectors.passes.modes import Replays, make_ready
from collectors.process.requests import ABSENT_FILE, PassRequest
from collectors.process.results import write_result
from graphviz_dash.bundle import parts
from graphviz_dash.model.run import GraphUpdates
from graphviz_dash.model.timings import CleanTimings, StepTiming

_SETTLE = 3
"""Iterations before each timed series, not counted: clocks and caches settle."""

_UPDATES = 20
"""How often each update, and the instantiation that it saves, is timed."""


def run(request: PassRequest) -> None:
    """Writes clean.json and memory.json into ``request.out``."""
    step, warmup_ns = prepare(request)
    listener = LifeListener()
    with recording(listener) as graphs:
        iterate = make_ready(request.mode, step)
    steps, intervals = time_steps(iterate, request.iterations)
    memory = memory_use()
    if request.mode.is_compiled:
        lives, unmeasured = listener.lives(), without_launches(listener.lives())
    else:
        lives, unmeasured = with_launches(listener.lives(), graphs, listener.handles)
    clean = CleanTimings(warmup_ns=warmup_ns, steps=steps, back_to_back_ns=intervals, graphs=lives)
    out = Path(request.out)
    write_result(parts.CLEAN, clean, out)
    absent = (*absent_from(step), *listener.absent, *unmeasured)
    (out / ABSENT_FILE).write_bytes(msgspec.json.encode(absent))
    write_result(parts.MEMORY, memory, out)
    if isinstance(iterate, Replays):
        write_result(parts.UPDATES, _updates(listener.handles), out)


def time_steps(
    iterate: Callable[[], object], iterations: int
) -> tuple[tuple[StepTiming, ...], tuple[int, ...]]:
    """Both series of ``iterations``: synchronised, and back to back in ns by CUDA events."""
    with no_collection():
        return _synchronised(iterate, iterations), _back_to_back(iterate, iterations)


def _updates(handles: Mapping[str, int]) -> GraphUpdates:
    """What the driver answers to updating each graph to each other one, and how long it takes."""
    graphs = {name: driver.CUgraph(handle) for name, handle in handles.items()}
    places = {name: read_graph_and_handles(handle, name)[1] for name, handle in handles.items()}
    with no_collection():
        return GraphUpdates(
            tuple(
                ask_update((of, graphs[of]), (by, graphs[by]), places[by], _UPDATES)
                for of, by in permutations(graphs, 2)
            )
        )


def _synchronised(iterate: Callable[[], object], iterations: int) -> tuple[StepTiming, ...]:
    for _ in range(_SETTLE):
        iterate()
    rows = []
    for _ in range(iterations):
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        iterate()
        returned = time.perf_counter_ns()
        torch.cuda.synchronize()
        rows.append(StepTiming(time.perf_counter_ns() - begin, returned - begin))
    return tuple(rows)


def _back_to_back(iterate: Callable[[], object], iterations: int) -> tuple[int, ...]:
    """Iterations without a wait between them, an event before each: what a training loop sees."""
    for _ in range(_SETTLE):
        iterate()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(iterations + 1)]
    torch.cuda.synchronize()
    for event in events[:-1]:
        event.record()
        iterate()
    events[-1].record()
    torch.cuda.synchronize()
    return tuple(round(before.elapsed_time(after) * 1e6) for before, after in pairwise(events))
