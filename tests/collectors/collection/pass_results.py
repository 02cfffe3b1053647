"""Results that a pass of a collection writes, without a GPU.

Processes of tests import this module, so it imports no pytest and no dataframe engine.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import msgspec

from collectors.passes.parameters import WorkloadFacts
from collectors.process.requests import GRAPHS_FILE, TRACE_FILE, WORKLOAD_FILE, PassRequest
from collectors.process.results import write_result
from graphviz_dash.bundle import parts
from graphviz_dash.model.gpu import Gpu
from graphviz_dash.model.graph import CapturedGraph, GraphNode, NodeKind
from graphviz_dash.model.run import Environment, MemoryUse, Pass, StepWork
from graphviz_dash.model.timings import CleanProcess, CleanTimings, StepTiming
from tests.bundle.examples import MEMORY_PASS
from tests.parallel_runs import PLAN

WORK = StepWork(12, 4, "bf16", "counted")

ENVIRONMENT = Environment(
    gpu=Gpu("Test GPU", (9, 0), 1 << 30, 4),
    gpu_count=1,
    driver=None,
    cuda_driver="13.0",
    cuda_runtime="13.0",
    cupti=None,
    torch="2.11",
    cuda_bindings="13.0",
    python="3.12",
    cpu="Test CPU",
    cpu_count=2,
    os="Linux",
)


def write_results(request: PassRequest, *, in_processes: bool = False) -> None:
    """Write the results of a successful pass.

    ``in_processes``: clean timings name their process.
    """
    out = Path(request.out)
    facts = WorkloadFacts({"layers": 3}, WORK) if request.settings else WorkloadFacts({}, None)
    (out / WORKLOAD_FILE).write_bytes(msgspec.json.encode(facts))
    if request.kind is Pass.PLAN:
        write_result(parts.PARALLEL, PLAN, out)
        return
    if request.kind is Pass.MEMORY:
        write_result(parts.MEMORY_PASS, MEMORY_PASS, out)
        return
    if request.kind is Pass.CLEAN:
        clean = CleanTimings(
            1, tuple(StepTiming(9, 3) for _ in range(request.iterations)), (8,), ()
        )
        if in_processes:
            steps = tuple(StepTiming(100 + request.turn, 3) for _ in clean.steps)
            process = CleanProcess(request.turn, len(steps), 1, (5,), None)
            clean = msgspec.structs.replace(clean, steps=steps, processes=(process,))
        write_result(parts.CLEAN, clean, out)
        if request.turn:
            return
        write_result(parts.MEMORY, MemoryUse(4, 4, 2, 4, ()), out)
        return
    if request.kind is Pass.CAPTURE:
        graph = CapturedGraph("graph-0", (GraphNode(0, NodeKind.EMPTY),), (), "test")
        (out / GRAPHS_FILE).write_bytes(msgspec.json.encode((graph,)))
    with gzip.open(out / TRACE_FILE, "wt") as file:
        json.dump({"traceEvents": []}, file)
