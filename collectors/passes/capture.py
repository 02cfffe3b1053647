"""The capture pass: the captures of a mode under torch.profiler, and the graphs in the driver."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
from cuda.bindings import driver
from msgspec.structs import replace
from torch.profiler import ProfilerActivity, profile, record_function

from collectors.allocator.extents import Segment
from collectors.allocator.history import end_recording, segments, start_recording
from collectors.driver.capabilities import SWITCHABLE, ask_device_launch, enabled
from collectors.driver.node_operands import extent_of
from collectors.driver.operands import Reach, lived
from collectors.driver.topology import read_graph_and_handles
from collectors.passes.annotate import annotated
from collectors.passes.capture_listener import executable_of, recording
from collectors.passes.executor import prepare
from collectors.passes.modes import Replays, make_ready
from collectors.passes.trace_file import export_trace
from collectors.process.requests import ABSENT_FILE, GRAPHS_FILE, TRACE_FILE, PassRequest
from collectors.workloads import Step
from graphviz_dash.model.absence import Fact, manifest_name
from graphviz_dash.model.graph import CapturedGraph, NodeKind
from graphviz_dash.model.marks import CAPTURE
from graphviz_dash.model.run import Absent


class _Topologies:
    """Marks each capture in the trace and reads its graph when it ends.

    The trace begins with the first capture: the warm-up iterations that make_graphed_callables does
    before would be most of it, and tell nothing of a graph.
    """

    def __init__(self, profiler: profile) -> None:
        self.graphs: list[CapturedGraph] = []
        self._profiler = profiler
        self._started = False
        self._span: record_function | None = None
        self._handles: dict[str, dict[int, int]] = {}
        self._before: list[Segment] = []

    def begins(self, graph_id: str) -> None:
        self.start()
        self._before = segments()
        start_recording()
        self._span = record_function(CAPTURE + graph_id)
        self._span.__enter__()

    def stop(self) -> None:
        """Ends the trace, which is empty where nothing was captured."""
        self.start()
        self._profiler.stop()

    def start(self) -> None:
        """Begins the trace, if it has not begun."""
        if not self._started:
            self._profiler.start()
            self._started = True

    def captured(self, graph_id: str, handle: int, capture_ns: int) -> None:
        if self._span is not None:
            self._span.__exit__(None, None, None)
        blocks = lived(self._before, end_recording())
        graphs, places = read_graph_and_handles(
            handle, graph_id, Reach(segments(), blocks, extent_of)
        )
        # The cudagraph trees capture nothing once, to make their memory pool.
        if graphs[0].nodes:
            answer = ask_device_launch(driver.CUgraph(handle), places)
            self.graphs += (replace(graphs[0], device_launch=answer), *graphs[1:])
            self._handles[graph_id] = {
                index: node for node, (holder, index) in places.items() if holder == graph_id
            }

    def instantiated(self, graph_id: str, handle: int, instantiate_ns: int) -> None:
        """Timed in the clean pass only."""

    def launched(self, graph_id: str, call_ns: int, complete_ns: int) -> None:
        """Timed in the clean pass only."""

    def ask_executables(self, alive: Mapping[str, Any]) -> None:
        """Asks which nodes each executable runs. Bodies have none that could be asked."""
        for index, graph in enumerate(self.graphs):
            if graph.id not in alive or graph.id not in self._handles:
                continue
            executable = executable_of(alive[graph.id])
            if executable is None:
                return
            handles = self._handles[graph.id]
            nodes = tuple(
                replace(node, enabled=enabled(executable, handles[node.index]))
                if node.kind in SWITCHABLE
                else node
                for node in graph.nodes
            )
            self.graphs[index] = replace(graph, nodes=nodes)


def run(request: PassRequest) -> None:
    """Writes graphs.json and the trace of the captures into ``request.out``."""
    step, _ = prepare(request)
    profiler = profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        record_shapes=True,
        with_stack=True,
    )
    topologies = _Topologies(profiler)
    if request.mode.is_compiled:
        # Its captures begin inside operators, whose ranges tell a node's phase.
        topologies.start()
    with (
        recording(topologies) as alive,
        # The compiler would trace the ranges too, and capture another program.
        nullcontext() if request.mode.is_compiled else annotated(),
    ):
        ready = make_ready(request.mode, step)
        topologies.ask_executables(alive)
    topologies.stop()
    out = Path(request.out)
    graphs = _named(topologies.graphs, ready)
    (out / GRAPHS_FILE).write_bytes(msgspec.json.encode(graphs))
    (out / ABSENT_FILE).write_bytes(msgspec.json.encode(_unread_bodies(graphs)))
    export_trace(profiler, out / TRACE_FILE)


def _named(graphs: list[CapturedGraph], ready: Step) -> list[CapturedGraph]:
    """The graphs with the names that a workload of several variants has for them."""
    if not isinstance(ready, Replays):
        return graphs
    whole = [graph.id for graph in graphs if graph.parent is None]
    names = dict(zip(whole, ready.names, strict=True))
    return [replace(graph, name=names.get(graph.id)) for graph in graphs]


def _unread_bodies(graphs: list[CapturedGraph]) -> tuple[Absent, ...]:
    reason = "the driver's debug DOT of the graph is not in the form that is known"
    return tuple(
        Absent(manifest_name(Fact.NODE_BODIES, f"node {node.index} of {graph.id}"), reason)
        for graph in graphs
        for node in graph.nodes
        if node.kind is NodeKind.CONDITIONAL and not node.bodies
    )
