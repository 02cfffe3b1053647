"""Launch every captured graph separately, after the timed series of the clean pass.

Measures match those of the synthetic graphs (:mod:`collectors.launch.measure`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from cuda.bindings import runtime
from msgspec.structs import replace

from collectors.driver.calls import DriverError, call
from collectors.passes.capture_listener import get_executable
from collectors.passes.gc_off import disable_gc
from collectors.passes.spin_kernel import SpinKernel
from graphviz_dash.model.absence import Fact, format_manifest_name
from graphviz_dash.model.run import Absent
from graphviz_dash.model.timings import GraphLifecycle, StepTiming

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
        finish = clock()
        for status in (launch_status, wait_status):
            call(lambda status=status: status)
        rows.append(StepTiming(finish - begin, returned - begin))
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
