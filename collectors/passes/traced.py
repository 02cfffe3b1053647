"""Run the traced pass: synchronized iterations under torch.profiler, one range each."""

from __future__ import annotations

from pathlib import Path

import torch

from collectors.compiled.written_account import written_account
from collectors.driver.graph_ids import ids_from_torch
from collectors.passes.capture_listener import NullListener, recording
from collectors.passes.executor import prepare
from collectors.passes.modes import make_ready
from collectors.passes.traced_steps import trace_steps
from collectors.process.requests import TRACE_FILE, PassRequest
from collectors.process.results import write_result
from collectors.workloads import Step
from graphviz_dash.bundle import parts


def run(request: PassRequest) -> None:
    """Write the trace of ``request.traced_iterations`` iterations and any graph ids to
    ``request.out``."""
    out = Path(request.out)
    if request.mode.is_compiled:
        iterate = _compiled(request)
    elif hasattr(torch.cuda.CUDAGraph, "get_graph_data"):
        step, _ = prepare(request)
        with recording(NullListener()) as graphs:
            iterate = make_ready(request.mode, step, request.plan)
            ids = ids_from_torch(graphs)
        if ids:
            write_result(parts.REPLAY_IDS, ids, out)
    else:
        iterate = make_ready(request.mode, prepare(request)[0])
    trace_steps(iterate, request.traced_iterations, out / TRACE_FILE)


def _compiled(request: PassRequest) -> Step:
    out = Path(request.out)
    with written_account(out) as account:
        step, _ = prepare(request)
        with recording(NullListener()) as graphs:
            iterate = make_ready(request.mode, step, request.plan)
            names = {id(graph): name for name, graph in graphs.items()}
            account.read(lambda graph: names.get(id(graph)))
            ids = ids_from_torch(graphs) if hasattr(torch.cuda.CUDAGraph, "get_graph_data") else ()
    if ids:
        write_result(parts.REPLAY_IDS, ids, out)
    return iterate
