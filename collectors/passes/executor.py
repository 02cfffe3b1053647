"""Prepare the warmed-up step of a pass and record its graphs' one-time costs."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec
import torch
from cuda.bindings import runtime

from collectors.driver.calls import DriverError, call
from collectors.passes.capture_listener import CaptureListener
from collectors.passes.modes import COMPILED, compile_modules
from collectors.passes.parameters import build_arguments, collect_facts
from collectors.process.requests import WORKLOAD_FILE, PassRequest
from collectors.workloads import Step, load_factory
from graphviz_dash.errors import InputError
from graphviz_dash.model.absence import Fact, format_manifest_name
from graphviz_dash.model.run import Absent
from graphviz_dash.model.timings import GraphLifecycle


def prepare_step(request: PassRequest) -> tuple[Step, int]:
    """Return the warmed-up step and the total warmup time in ns.

    Raises:
        InputError: See :func:`build_step`.
    """
    step = build_step(request)
    return step, warm_up(step, request.warmup, compiled=COMPILED.get(request.mode))


def build_step(request: PassRequest) -> Step:
    """Build the step with model and inputs on the device; write workload.json to ``request.out``.

    Raises:
        InputError: The factory does not return a callable, or a setting is invalid.
    """
    torch.manual_seed(request.seed)
    factory = load_factory(request.factory)
    arguments = build_arguments(factory, request.factory, request.settings)
    facts = collect_facts(arguments)
    (Path(request.out) / WORKLOAD_FILE).write_bytes(msgspec.json.encode(facts))
    step = factory(*arguments)
    if not callable(step):
        raise InputError(
            f"--workload {request.factory}",
            f"the factory returned {type(step).__name__}",
            "a function without arguments",
        )
    return step


def warm_up(
    step: Step,
    iterations: int,
    *,
    compiled: str | None = None,
    first: AbstractContextManager[object] | None = None,
) -> int:
    """Run the warmup iterations, the first of them within ``first``, and return their time in ns.

    They run on a side stream, as capture requires; its unused cache is released. ``compiled`` is
    the torch.compile mode of the step's modules, compiled within the same time.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    torch.cuda.synchronize()
    begin = time.perf_counter_ns()
    with torch.cuda.stream(stream):
        for number in range(iterations):
            with nullcontext() if number or first is None else first:
                step()
    if compiled is not None:
        compile_modules(step, compiled)
    torch.cuda.synchronize()
    duration_ns = time.perf_counter_ns() - begin
    torch.cuda.empty_cache()
    return duration_ns


class CostListener(CaptureListener):
    """Records the costs of each graph of the process.

    ``handles`` are the CUgraphs by id, valid while their torch.cuda.CUDAGraph lives.
    """

    def __init__(self) -> None:
        self._costs: dict[str, dict[str, int]] = {}
        self.handles: dict[str, int] = {}
        self._uploads: dict[str, tuple[int, int] | None] = {}

    def on_capture_end(self, graph_id: str, handle: int, capture_ns: int) -> None:
        """Count the nodes and store the capture time."""
        nodes = call(runtime.cudaGraphGetNodes, handle, 0)[1]
        self._costs[graph_id] = {"nodes": nodes, "capture_ns": capture_ns}
        self.handles[graph_id] = handle

    def on_instantiation(self, graph_id: str, handle: int, instantiate_ns: int) -> None:
        """Store the time and upload a second executable to measure the upload."""
        self._costs[graph_id] |= {"instantiate_ns": instantiate_ns}
        self._uploads[graph_id] = _measure_upload_ns(handle)

    def on_first_launch(self, graph_id: str, call_ns: int, complete_ns: int) -> None:
        """Store the times of the first launch."""
        self._costs[graph_id] |= {
            "first_launch_cpu_ns": call_ns,
            "first_launch_ns": complete_ns,
        }

    @property
    def absent(self) -> tuple[Absent, ...]:
        """Unmeasured facts."""
        reason = "a graph that allocates memory can have only one executable"
        return tuple(
            Absent(format_manifest_name(Fact.UPLOAD, graph), reason)
            for graph, duration in self._uploads.items()
            if duration is None
        )

    def get_costs(self) -> tuple[GraphLifecycle, ...]:
        """Return the costs of every launched graph in capture order."""
        return tuple(
            GraphLifecycle(
                graph=graph,
                nodes=costs["nodes"],
                capture_ns=costs["capture_ns"],
                instantiate_ns=costs["instantiate_ns"],
                upload_ns=(self._uploads[graph] or (None, None))[1],
                first_launch_cpu_ns=costs["first_launch_cpu_ns"],
                first_launch_ns=costs["first_launch_ns"],
                upload_cpu_ns=(self._uploads[graph] or (None, None))[0],
            )
            for graph, costs in self._costs.items()
            if "first_launch_ns" in costs
        )


def _measure_upload_ns(graph: int) -> tuple[int, int] | None:
    """Measure cudaGraphUpload to its return and to completion, in ns.

    Uses a second executable, since uploading the replayed one would change its first launch. None
    if the driver allows no second one, as for graphs with memory nodes.
    """
    try:
        executable = call(runtime.cudaGraphInstantiate, graph, 0)
    except DriverError as error:
        if error.status != runtime.cudaError_t.cudaErrorNotSupported.name:
            raise
        return None
    stream = torch.cuda.current_stream().cuda_stream
    try:
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        call(runtime.cudaGraphUpload, executable, stream)
        returned = time.perf_counter_ns()
        torch.cuda.synchronize()
        return returned - begin, time.perf_counter_ns() - begin
    finally:
        call(runtime.cudaGraphExecDestroy, executable)
