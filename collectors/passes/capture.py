"""Run the capture pass: profile captures and read their graphs from the driver."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import torch
from cuda.bindings import driver
from msgspec.structs import replace
from torch.profiler import ProfilerActivity, profile, record_function

from collectors.allocator.extents import Segment
from collectors.allocator.history import end_recording, read_segments, start_recording
from collectors.cupti.code_files import find_unread_kernels, list_code_files
from collectors.cupti.code_reader import read_launch_control
from collectors.cupti.cubin import add_launch_control
from collectors.cupti.modules import watch_modules
from collectors.driver.capabilities import SWITCHABLE, is_node_enabled, try_device_launch
from collectors.driver.node_operands import find_extent
from collectors.driver.operands import AllocationResolver, list_live_extents
from collectors.driver.topology import read_graph_with_positions
from collectors.passes.annotate import annotate_captures
from collectors.passes.capture_events import reduce_capture_trace
from collectors.passes.capture_listener import CaptureListener, get_executable, record_captures
from collectors.passes.executor import prepare_step
from collectors.passes.modes import VariantReplays, prepare_mode
from collectors.passes.trace_file import export_trace
from collectors.process.requests import ABSENT_FILE, GRAPHS_FILE, TRACE_FILE, PassRequest
from collectors.workloads import Step
from graphviz_dash.model.absence import Fact, format_manifest_name
from graphviz_dash.model.graph import CapturedGraph, NodeKind
from graphviz_dash.model.marks import CAPTURE
from graphviz_dash.model.run import Absent


def run(request: PassRequest) -> None:
    """Write graphs.json and the trace of the captures to ``request.out``."""
    with watch_modules() as launch_controls:
        step, _ = prepare_step(request)
    profiler = profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        record_shapes=True,
        with_stack=True,
    )
    reader = TopologyReader(profiler)
    if request.mode.is_compiled:
        # Compiled captures start inside operators, whose ranges give a node's phase.
        reader.start()
    with (
        record_captures(reader) as alive,
        # The compiler would trace the ranges and capture a different program.
        nullcontext() if request.mode.is_compiled else annotate_captures(),
    ):
        ready = prepare_mode(request.mode, step, request.plan)
        reader.read_enabled_nodes(alive)
    reader.stop()
    out = Path(request.out)
    graphs = _add_names(reader.graphs, ready)
    graphs = [add_launch_control(graph, launch_controls) for graph in graphs]
    if unread := find_unread_kernels(graphs):
        # A compiler or a library loaded them in the capture.
        capability = torch.cuda.get_device_capability()
        controls = read_launch_control(list_code_files(), unread, capability)
        graphs = [add_launch_control(graph, controls) for graph in graphs]
    (out / GRAPHS_FILE).write_bytes(msgspec.json.encode(graphs))
    (out / ABSENT_FILE).write_bytes(msgspec.json.encode(_list_unread_bodies(graphs)))
    export_trace(profiler, out / TRACE_FILE, reduce_capture_trace)


def _add_names(graphs: list[CapturedGraph], ready: Step) -> list[CapturedGraph]:
    if not isinstance(ready, VariantReplays):
        return graphs
    outer_ids = [graph.id for graph in graphs if graph.parent is None]
    names = dict(zip(outer_ids, ready.names, strict=True))
    return [replace(graph, name=names.get(graph.id)) for graph in graphs]


def _list_unread_bodies(graphs: list[CapturedGraph]) -> tuple[Absent, ...]:
    reason = "the format of the driver's debug DOT is unknown"
    return tuple(
        Absent(format_manifest_name(Fact.NODE_BODIES, f"node {node.index} of {graph.id}"), reason)
        for graph in graphs
        for node in graph.nodes
        if node.kind is NodeKind.CONDITIONAL and not node.bodies
    )


class TopologyReader(CaptureListener):
    """Marks each capture in the trace and reads its graph afterwards.

    The trace starts with the first capture to exclude warmup.
    """

    def __init__(self, profiler: profile) -> None:
        self.graphs: list[CapturedGraph] = []
        self._profiler = profiler
        self._started = False
        self._span: record_function | None = None
        self._handles: dict[str, dict[int, int]] = {}
        self._before: list[Segment] = []

    def on_capture_start(self, graph_id: str) -> None:
        """Mark the start of a capture in the trace."""
        self.start()
        self._before = read_segments()
        start_recording()
        self._span = record_function(CAPTURE + graph_id)
        self._span.__enter__()

    def stop(self) -> None:
        """Stop the trace, which is empty if nothing was captured."""
        self.start()
        self._profiler.stop()

    def start(self) -> None:
        """Start the trace unless it is running."""
        if not self._started:
            self._profiler.start()
            self._started = True

    def on_capture_end(self, graph_id: str, handle: int, capture_ns: int) -> None:
        """Read the graph of a capture."""
        if self._span is not None:
            self._span.__exit__(None, None, None)
        blocks = list_live_extents(self._before, end_recording())
        graphs, nodes_of_handles = read_graph_with_positions(
            handle, graph_id, AllocationResolver(read_segments(), blocks, find_extent)
        )
        # torch.compile's CUDA graph trees make an empty capture once to create their memory pool.
        if graphs[0].nodes:
            device_launch = try_device_launch(driver.CUgraph(handle), nodes_of_handles)
            self.graphs += (replace(graphs[0], device_launch=device_launch), *graphs[1:])
            self._handles[graph_id] = {
                index: node
                for node, (holder, index) in nodes_of_handles.items()
                if holder == graph_id
            }

    def read_enabled_nodes(self, alive: Mapping[str, Any]) -> None:
        """Read which nodes each executable runs. Nodes in bodies cannot be queried."""
        for index, graph in enumerate(self.graphs):
            if graph.id not in alive or graph.id not in self._handles:
                continue
            executable = get_executable(alive[graph.id])
            if executable is None:
                return
            handles = self._handles[graph.id]
            nodes = tuple(
                replace(node, enabled=is_node_enabled(executable, handles[node.index]))
                if node.kind in SWITCHABLE
                else node
                for node in graph.nodes
            )
            self.graphs[index] = replace(graph, nodes=nodes)
