"""A process of the clean pass: timed by the wall clock and CUDA events, with no profiler ever
attached, and with the state of the machine beside."""

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
"""How often each update, and the instantiation that it saves, is timed."""


def run(request: PassRequest) -> None:
    """Writes clean.json into ``request.out``; the first of the processes, which measures what does
    not change from one to the next, memory.json too."""
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
