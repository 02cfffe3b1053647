"""Run a process of the clean pass, timed by wall clock and CUDA events without a profiler.

Also records the state of the machine.

Measures match those of the synthetic graphs (:mod:`collectors.launch.measure`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import msgspec
import torch
from cuda.bindings import driver, runtime
from msgspec.structs import replace

from collectors.allocator.statistics import read_memory_use
from collectors.driver.calls import DriverError, call
from collectors.driver.capabilities import try_update
from collectors.driver.topology import read_graph_with_positions
from collectors.passes.capture_listener import get_executable, record_captures
from collectors.passes.executor import CostListener, get_absent_facts, prepare_step
from collectors.passes.gc_off import disable_gc
from collectors.passes.modes import VariantReplays, prepare_mode
from collectors.passes.spin_kernel import SpinKernel
from collectors.passes.step_timing import time_process
from collectors.process.requests import ABSENT_FILE, PassRequest
from collectors.process.results import write_result
from graphviz_dash.bundle import parts
from graphviz_dash.model.absence import Fact, format_manifest_name
from graphviz_dash.model.run import Absent, GraphUpdates
from graphviz_dash.model.timings import GraphLifecycle, StepTiming

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
    absent = (*get_absent_facts(step), *listener.absent, *unmeasured)
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


REPEATS: Final = 40
"""Launches per series, fixed because ranks must launch collectives equally often."""

_SETTLE_LAUNCHES: Final = 3


def measure_repeat_launches(
    lives: Sequence[GraphLifecycle], graphs: Mapping[str, Any], handles: Mapping[str, int]
) -> tuple[tuple[GraphLifecycle, ...], tuple[Absent, ...]]:
    """Add repeated launch costs to ``lives``, and return facts that could not be measured.

    The launches change the step's data.
    """
    if not lives:
        return (), ()
    timed: list[GraphLifecycle] = []
    absent: list[Absent] = []
    behind = SpinKernel()
    with disable_gc():
        for life in lives:
            name = life.graph
            executable = get_executable(graphs[name]) if name in graphs else None
            if executable is None:
                reason = "the program freed the graph, or this torch version does not expose it"
                absent.append(Absent(format_manifest_name(Fact.REPEAT_LAUNCHES, name), reason))
                timed.append(life)
                continue
            extended = life
            try:
                extended = _time_repeats(life, runtime.cudaGraphExec_t(executable), behind)
                extended = _time_new_executable(
                    extended, runtime.cudaGraph_t(handles[name]), behind
                )
            except DriverError as error:
                missing_fact = (
                    Fact.REPEAT_LAUNCHES if extended is life else Fact.FIRST_LAUNCH_ON_GPU
                )
                absent.append(
                    Absent(format_manifest_name(missing_fact, name), _describe_error(error))
                )
            timed.append(extended)
    return tuple(timed), tuple(absent)


def explain_missing_launches(lives: Sequence[GraphLifecycle]) -> tuple[Absent, ...]:
    """Return why graphs of torch.compile are not launched separately."""
    reason = "graphs of torch.compile share memory and are valid only in the order of their tree"
    return tuple(
        Absent(format_manifest_name(Fact.REPEAT_LAUNCHES, life.graph), reason) for life in lives
    )


def _describe_error(error: DriverError) -> str:
    if error.status == runtime.cudaError_t.cudaErrorNotSupported.name:
        return "a graph that allocates memory can have only one executable"
    return str(error)


def _time_repeats(life: GraphLifecycle, executable: Any, behind: SpinKernel) -> GraphLifecycle:
    stream = runtime.cudaStream_t(torch.cuda.current_stream().cuda_stream)
    launch, wait, clock = (
        runtime.cudaGraphLaunch,
        runtime.cudaStreamSynchronize,
        time.perf_counter_ns,
    )
    for _ in range(_SETTLE_LAUNCHES):
        call(launch, executable, stream)
    rows = []
    for _ in range(REPEATS):
        call(wait, stream)
        begin = clock()
        launch_status = launch(executable, stream)
        returned = clock()
        wait_status = wait(stream)
        done = clock()
        for status in (launch_status, wait_status):
            call(lambda status=status: status)
        rows.append(StepTiming(done - begin, returned - begin))
    median_ns = sorted(row.launch_cpu_ns for row in rows)[REPEATS // 2]
    device = (
        behind.measure_device_ns(lambda: call(launch, executable, stream), median_ns)
        for _ in range(REPEATS)
    )
    return replace(
        life,
        repeat_launches=tuple(rows),
        repeat_launch_device_ns=tuple(value for value in device if value is not None),
    )


def _time_new_executable(life: GraphLifecycle, graph: Any, spin: SpinKernel) -> GraphLifecycle:
    stream = runtime.cudaStream_t(torch.cuda.current_stream().cuda_stream)
    times: dict[str, int | None] = {}
    for measure, work in (
        ("first_launch_device_ns", runtime.cudaGraphLaunch),
        ("upload_device_ns", runtime.cudaGraphUpload),
    ):
        executable = call(runtime.cudaGraphInstantiate, graph, 0)
        try:
            times[measure] = spin.measure_device_ns(
                lambda work=work, executable=executable: call(work, executable, stream),  # type: ignore[misc]
                life.first_launch_cpu_ns,
            )
        finally:
            call(runtime.cudaGraphExecDestroy, executable)
    return replace(life, **times)
