"""The warmed-up step of a pass, and the one-off costs of its graphs."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import torch
from cuda.bindings import runtime

from collectors.driver.calls import DriverError, call
from collectors.passes.modes import COMPILED, compile_modules
from collectors.passes.parameters import arguments_of, facts_of
from collectors.process.requests import WORKLOAD_FILE, PassRequest
from collectors.workloads import Step, load_factory
from graphviz_dash.errors import InputError
from graphviz_dash.model.absence import Fact, manifest_name
from graphviz_dash.model.run import Absent
from graphviz_dash.model.timings import GraphLife


def prepare(request: PassRequest) -> tuple[Step, int]:
    """The warmed-up step and the time of all warm-up iterations in ns.

    Raises:
        InputError: see :func:`build`.
    """
    step = build(request)
    return step, warm_up(step, request.warmup, compiled=COMPILED.get(request.mode))


def build(request: PassRequest) -> Step:
    """The step, its model and inputs on the device; writes workload.json into ``request.out``.

    Raises:
        InputError: the factory does not return a callable, or a setting is wrong.
    """
    torch.manual_seed(request.seed)
    factory = load_factory(request.factory)
    arguments = arguments_of(factory, request.factory, request.settings)
    facts = facts_of(arguments)
    (Path(request.out) / WORKLOAD_FILE).write_bytes(msgspec.json.encode(facts))
    step = factory(*arguments)
    if not callable(step):
        raise InputError(
            f"--workload {request.factory}",
            f"the factory returned {type(step).__name__}",
            "a function without arguments, the step",
        )
    return step


def warm_up(step: Step, iterations: int, *, compiled: str | None = None) -> int:
    """Runs the warm-up iterations and returns their time in ns.

    They run on a side stream, as capture asks for: libraries make their handles and the autograd
    engine its streams there. Within that time the step's modules are compiled, in the mode
    ``compiled`` of torch.compile, if there is one. What the allocator cached for that stream nobody
    takes up later, so it is given back: it would count as memory in use.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    torch.cuda.synchronize()
    begin = time.perf_counter_ns()
    with torch.cuda.stream(stream):
        for _ in range(iterations):
            step()
    if compiled is not None:
        compile_modules(step, compiled)
    torch.cuda.synchronize()
    took = time.perf_counter_ns() - begin
    torch.cuda.empty_cache()
    return took


def absent_from(step: Step) -> tuple[Absent, ...]:
    """What the workload says that it leaves out on this machine."""
    absent: tuple[Absent, ...] = getattr(step, "absent", ())
    return absent


class LifeListener:
    """Takes down what each graph of the process cost, as the recorder tells it. ``handles`` are the
    CUgraphs by id, each good for as long as its torch.cuda.CUDAGraph lives."""

    def __init__(self) -> None:
        self._costs: dict[str, dict[str, int]] = {}
        self.handles: dict[str, int] = {}
        self._uploads: dict[str, tuple[int, int] | None] = {}

    def begins(self, graph_id: str) -> None:
        """Nothing to do: the recorder has the time."""

    def captured(self, graph_id: str, handle: int, capture_ns: int) -> None:
        """Counts the nodes, and keeps the time of the capture."""
        nodes = call(runtime.cudaGraphGetNodes, handle, 0)[1]
        self._costs[graph_id] = {"nodes": nodes, "capture_ns": capture_ns}
        self.handles[graph_id] = handle

    def instantiated(self, graph_id: str, handle: int, instantiate_ns: int) -> None:
        """Keeps the time, and uploads a second executable to see what that takes."""
        self._costs[graph_id] |= {"instantiate_ns": instantiate_ns}
        self._uploads[graph_id] = _upload_ns(handle)

    def launched(self, graph_id: str, call_ns: int, complete_ns: int) -> None:
        """Keeps the times of the first launch."""
        self._costs[graph_id] |= {
            "first_launch_cpu_ns": call_ns,
            "first_launch_ns": complete_ns,
        }

    @property
    def absent(self) -> tuple[Absent, ...]:
        """What could not be measured."""
        reason = "it allocates memory, and of such a graph only one executable can exist"
        return tuple(
            Absent(manifest_name(Fact.UPLOAD, graph), reason)
            for graph, took in self._uploads.items()
            if took is None
        )

    def lives(self) -> tuple[GraphLife, ...]:
        """The costs of every launched graph, in the order of their captures."""
        return tuple(
            GraphLife(
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


def _upload_ns(graph: int) -> tuple[int, int] | None:
    """cudaGraphUpload to its return and to its completion, on an executable graph of its own; None
    where the driver allows no second one, as it does for graphs with memory nodes.

    Uploading the one that is replayed would change what its first launch costs.
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
