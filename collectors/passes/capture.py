"""The capture pass: one capture under torch.profiler, and the graph as the driver has it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from collectors.annotate import annotated
from collectors.passes.executor import prepare
from collectors.requests import GRAPH_ID, GRAPHS_FILE, TRACE_FILE, PassRequest
from collectors.topology import read_graph
from graphviz_dash.model.marks import CAPTURE


def run(request: PassRequest) -> None:
    """Writes graphs.json and the trace of the capture into ``request.out``."""
    step, _ = prepare(request)
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    out = Path(request.out)
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        record_shapes=True,
        with_stack=True,
    ) as profiler:
        # The sources of the ranges end before the capture does: leaving it is no launch.
        with record_function(CAPTURE + GRAPH_ID), torch.cuda.graph(graph), annotated():
            step()
        torch.cuda.synchronize()
    graphs = read_graph(graph.raw_cuda_graph(), GRAPH_ID)
    (out / GRAPHS_FILE).write_bytes(msgspec.json.encode(graphs))
    profiler.export_chrome_trace(str(out / TRACE_FILE))
