"""The capture pass: the captures of a mode under torch.profiler, and the graphs in the driver."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import msgspec
from torch.profiler import ProfilerActivity, profile, record_function

from collectors.annotate import annotated
from collectors.modes import make_ready
from collectors.passes.executor import prepare
from collectors.passes.trace_file import export_trace
from collectors.recorder import recording
from collectors.requests import ABSENT_FILE, GRAPHS_FILE, TRACE_FILE, PassRequest
from collectors.topology import read_graph
from graphviz_dash.model.graph import CapturedGraph, NodeKind
from graphviz_dash.model.marks import CAPTURE
from graphviz_dash.model.run import Absent, ExecutionMode


class _Topologies:
    """Marks each capture in the trace and reads its graph when it ends."""

    def __init__(self) -> None:
        self.graphs: list[CapturedGraph] = []
        self._span: record_function | None = None

    def begins(self, graph_id: str) -> None:
        self._span = record_function(CAPTURE + graph_id)
        self._span.__enter__()

    def captured(self, graph_id: str, handle: int, capture_ns: int) -> None:
        if self._span is not None:
            self._span.__exit__(None, None, None)
        graphs = read_graph(handle, graph_id)
        # The cudagraph trees capture nothing once, to make their memory pool.
        if graphs[0].nodes:
            self.graphs.extend(graphs)

    def instantiated(self, graph_id: str, handle: int, instantiate_ns: int) -> None:
        """Timed in the clean pass only."""

    def launched(self, graph_id: str, call_ns: int, complete_ns: int) -> None:
        """Timed in the clean pass only."""


def run(request: PassRequest) -> None:
    """Writes graphs.json and the trace of the captures into ``request.out``."""
    step, _ = prepare(request)
    topologies = _Topologies()
    with (
        profile(
            activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
            record_shapes=True,
            with_stack=True,
        ) as profiler,
        recording(topologies),
        # The compiler would trace the ranges too, and capture another program.
        nullcontext() if request.mode is ExecutionMode.COMPILE else annotated(),
    ):
        make_ready(request.mode, step)
    out = Path(request.out)
    (out / GRAPHS_FILE).write_bytes(msgspec.json.encode(topologies.graphs))
    (out / ABSENT_FILE).write_bytes(msgspec.json.encode(_unread_bodies(topologies.graphs)))
    export_trace(profiler, out / TRACE_FILE)


def _unread_bodies(graphs: list[CapturedGraph]) -> tuple[Absent, ...]:
    reason = "the driver's debug DOT of the graph is not in the form that is known"
    return tuple(
        Absent(f"bodies of node {node.index} of {graph.id}", reason)
        for graph in graphs
        for node in graph.nodes
        if node.kind is NodeKind.CONDITIONAL and not node.bodies
    )
