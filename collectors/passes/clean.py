"""Run a process of the clean pass, timed by wall clock and CUDA events without a profiler.

Also records the state of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from pathlib import Path

import msgspec
from cuda.bindings import driver

from collectors.allocator.statistics import memory_use
from collectors.driver.capabilities import ask_update
from collectors.driver.topology import read_graph_and_handles
from collectors.passes.capture_listener import recording
from collectors.passes.executor import LifeListener, absent_from, prepare
from collectors.passes.gc_off import no_collection
from collectors.passes.launches import with_launches, without_launches
from collectors.passes.modes import Replays, make_ready
from collectors.passes.step_timing import time_process
from collectors.process.requests import ABSENT_FILE, PassRequest
from collectors.process.results import write_result
from graphviz_dash.bundle import parts
from graphviz_dash.model.run import GraphUpdates

_UPDATES = 20
"""Repeats per timed update and per instantiation that it replaces."""


def run(request: PassRequest) -> None:
    """Write clean.json to ``request.out``; the first process also writes memory.json."""
    step, warmup_ns = prepare(request)
    listener = LifeListener()
    with recording(listener) as graphs:
        iterate = make_ready(request.mode, step, request.plan)
    timings = time_process(iterate, warmup_ns, request.iterations)
    if request.turn:
        write_result(parts.CLEAN, timings, Path(request.out))
        return
    memory = memory_use()
    if request.mode.has_graph_trees:
        lives, unmeasured = listener.lives(), without_launches(listener.lives())
    else:
        lives, unmeasured = with_launches(listener.lives(), graphs, listener.handles)
    out = Path(request.out)
    write_result(parts.CLEAN, msgspec.structs.replace(timings, graphs=lives), out)
    absent = (*absent_from(step), *listener.absent, *unmeasured)
    (out / ABSENT_FILE).write_bytes(msgspec.json.encode(absent))
    write_result(parts.MEMORY, memory, out)
    if isinstance(iterate, Replays):
        write_result(parts.UPDATES, _updates(listener.handles), out)


def _updates(handles: Mapping[str, int]) -> GraphUpdates:
    graphs = {name: driver.CUgraph(handle) for name, handle in handles.items()}
    positions = {name: read_graph_and_handles(handle, name)[1] for name, handle in handles.items()}
    with no_collection():
        return GraphUpdates(
            tuple(
                ask_update(
                    (source, graphs[source]), (target, graphs[target]), positions[target], _UPDATES
                )
                for source, target in permutations(graphs, 2)
            )
        )
