"""Run a process of the clean pass, timed by wall clock and CUDA events without a profiler."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from pathlib import Path

import msgspec
from cuda.bindings import driver

from collectors.allocator.statistics import read_memory_use
from collectors.driver.capabilities import try_update
from collectors.driver.topology import read_graph_with_positions
from collectors.passes.capture_listener import record_captures
from collectors.passes.executor import CostListener, prepare_step
from collectors.passes.gc_off import disable_gc
from collectors.passes.launches import explain_missing_launches, measure_repeat_launches
from collectors.passes.modes import VariantReplays, prepare_mode
from collectors.passes.step_timing import time_process
from collectors.process.requests import ABSENT_FILE, PassRequest
from collectors.process.results import write_result
from graphviz_dash.bundle import parts
from graphviz_dash.model.run import GraphUpdates

_UPDATES = 20
"""Repeats per timed update and per instantiation that it replaces."""


def run(request: PassRequest) -> None:
    """Write clean.json to ``request.out``; the first process also writes memory.json."""
    step, warmup_ns = prepare_step(request)
    listener = CostListener()
    with record_captures(listener) as graphs:
        iterate = prepare_mode(request.mode, step, request.plan)
    timings = time_process(iterate, warmup_ns, request.iterations)
    if request.turn:
        write_result(parts.CLEAN, timings, Path(request.out))
        return
    memory = read_memory_use()
    if request.mode.has_graph_trees:
        lives, unmeasured = listener.get_costs(), explain_missing_launches(listener.get_costs())
    else:
        lives, unmeasured = measure_repeat_launches(listener.get_costs(), graphs, listener.handles)
    out = Path(request.out)
    write_result(parts.CLEAN, msgspec.structs.replace(timings, graphs=lives), out)
    # Facts that the workload declares absent on this machine.
    absent = (*getattr(step, "absent", ()), *listener.absent, *unmeasured)
    (out / ABSENT_FILE).write_bytes(msgspec.json.encode(absent))
    write_result(parts.MEMORY, memory, out)
    if isinstance(iterate, VariantReplays):
        write_result(parts.UPDATES, _measure_updates(listener.handles), out)


def _measure_updates(handles: Mapping[str, int]) -> GraphUpdates:
    graphs = {name: driver.CUgraph(handle) for name, handle in handles.items()}
    positions = {
        name: read_graph_with_positions(handle, name)[1] for name, handle in handles.items()
    }
    with disable_gc():
        return GraphUpdates(
            tuple(
                try_update(
                    (source, graphs[source]), (target, graphs[target]), positions[target], _UPDATES
                )
                for source, target in permutations(graphs, 2)
            )
        )
