"""A workload made ready in an execution mode: what is called again and again, and what it cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from cuda.bindings import runtime

from collectors.requests import GRAPH_ID, PassRequest
from collectors.topology import call
from collectors.workloads import Step, load_factory
from graphviz_dash.errors import InputError
from graphviz_dash.model.run import ExecutionMode, GraphLife


@dataclass(frozen=True)
class Captured:
    """A captured, not yet instantiated graph, and the time its capture took in ns."""

    graph: torch.cuda.CUDAGraph
    capture_ns: int


def prepare(request: PassRequest) -> tuple[Step, int]:
    """The warmed-up step and the time of all warm-up iterations in ns.

    Warm-up runs on a side stream, as capture asks for: libraries make their handles and the
    autograd engine its streams there.

    Raises:
        InputError: the factory does not return a callable.
    """
    torch.manual_seed(request.seed)
    step = load_factory(request.factory)()
    if not callable(step):
        raise InputError(
            f"--workload {request.factory}",
            f"the factory returned {type(step).__name__}",
            "a function without arguments, the step",
        )
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    torch.cuda.synchronize()
    begin = time.perf_counter_ns()
    with torch.cuda.stream(stream):
        for _ in range(request.warmup):
            step()
    torch.cuda.synchronize()
    return step, time.perf_counter_ns() - begin


def capture(step: Step) -> Captured:
    """Captures one call of ``step``; the graph is kept for reading and not yet instantiated."""
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    context = torch.cuda.graph(graph)
    torch.cuda.synchronize()
    begin = time.perf_counter_ns()
    with context:
        step()
    return Captured(graph, time.perf_counter_ns() - begin)


def ready(request: PassRequest, step: Step) -> Callable[[], object]:
    """The callable that runs one iteration in the requested mode."""
    if request.mode is ExecutionMode.EAGER:
        return step
    captured = capture(step)
    captured.graph.instantiate()
    captured.graph.replay()
    torch.cuda.synchronize()
    return captured.graph.replay


def measured_graph(step: Step) -> tuple[Callable[[], object], GraphLife]:
    """Captures, instantiates and launches once, timing each by the wall clock."""
    captured = capture(step)
    graph = captured.graph
    _, nodes = call(runtime.cudaGraphGetNodes, graph.raw_cuda_graph(), 0)
    instantiate_ns = _timed(graph.instantiate)
    begin = time.perf_counter_ns()
    graph.replay()
    returned = time.perf_counter_ns()
    torch.cuda.synchronize()
    done = time.perf_counter_ns()
    life = GraphLife(
        graph=GRAPH_ID,
        nodes=nodes,
        capture_ns=captured.capture_ns,
        instantiate_ns=instantiate_ns,
        upload_ns=_upload_ns(graph.raw_cuda_graph()),
        first_launch_cpu_ns=returned - begin,
        first_launch_ns=done - begin,
    )
    return graph.replay, life


def _upload_ns(graph: int) -> int:
    """cudaGraphUpload to its completion, on an executable graph of its own.

    Uploading the one that is replayed would change what its first launch costs.
    """
    executable = call(runtime.cudaGraphInstantiate, graph, 0)
    stream = torch.cuda.current_stream().cuda_stream
    try:
        return _timed(lambda: call(runtime.cudaGraphUpload, executable, stream))
    finally:
        call(runtime.cudaGraphExecDestroy, executable)


def _timed(action: Callable[[], object]) -> int:
    torch.cuda.synchronize()
    begin = time.perf_counter_ns()
    action()
    torch.cuda.synchronize()
    return time.perf_counter_ns() - begin
