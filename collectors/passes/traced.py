"""Run the traced pass: synchronized iterations under torch.profiler, one range each."""

from __future__ import annotations

from pathlib import Path

import torch

from collectors.compiled.account import save_compilation
from collectors.driver.graph_ids import get_torch_ids
from collectors.passes.capture_listener import CaptureListener, record_captures
from collectors.passes.executor import prepare_step
from collectors.passes.modes import prepare_mode
from collectors.passes.traced_steps import trace_steps
from collectors.process.requests import TRACE_FILE, PassRequest
from collectors.process.results import write_result
from collectors.workloads import Step
from graphviz_dash.bundle import parts


def run(request: PassRequest) -> None:
    """Write the trace of the iterations and any graph ids to ``request.out``."""
    out = Path(request.out)
    if request.mode.is_compiled:
        iterate = _prepare_compiled_step(request)
    elif hasattr(torch.cuda.CUDAGraph, "get_graph_data"):
        step, _ = prepare_step(request)
        with record_captures(CaptureListener()) as graphs:
            iterate = prepare_mode(request.mode, step, request.plan)
            ids = get_torch_ids(graphs)
        if ids:
            write_result(parts.REPLAY_IDS, ids, out)
    else:
        iterate = prepare_mode(request.mode, prepare_step(request)[0], request.plan)
    trace_steps(iterate, request.traced_iterations, out / TRACE_FILE)


def _prepare_compiled_step(request: PassRequest) -> Step:
    out = Path(request.out)
    with save_compilation(out) as account:
        step, _ = prepare_step(request)
        with record_captures(CaptureListener()) as graphs:
            iterate = prepare_mode(request.mode, step, request.plan)
            names = {id(graph): name for name, graph in graphs.items()}
            account.read_trees(lambda graph: names.get(id(graph)))
            ids = get_torch_ids(graphs) if hasattr(torch.cuda.CUDAGraph, "get_graph_data") else ()
    if ids:
        write_result(parts.REPLAY_IDS, ids, out)
    return iterate
