"""Run the capture pass: profile captures and read their graphs from the driver."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import msgspec
import torch
from msgspec.structs import replace
from torch.profiler import ProfilerActivity, profile

from collectors.cupti.code_files import find_unread_kernels, list_code_files
from collectors.cupti.code_reader import read_launch_control
from collectors.cupti.cubin import add_launch_control
from collectors.cupti.modules import watch_modules
from collectors.passes.annotate import annotate_captures
from collectors.passes.capture_events import reduce_capture_trace
from collectors.passes.capture_listener import record_captures
from collectors.passes.executor import prepare_step
from collectors.passes.modes import VariantReplays, prepare_mode
from collectors.passes.topology_reader import TopologyReader
from collectors.passes.trace_file import export_trace
from collectors.process.requests import ABSENT_FILE, GRAPHS_FILE, TRACE_FILE, PassRequest
from collectors.workloads import Step
from graphviz_dash.model.absence import Fact, format_manifest_name
from graphviz_dash.model.graph import CapturedGraph, NodeKind
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
