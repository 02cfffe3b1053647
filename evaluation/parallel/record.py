"""Record steps of the zoo in mode ``parallel``, for :mod:`evaluation.parallel.score`.

On a GPU, with torchvision, timm and transformers::

    python -m evaluation.parallel.record OUT [NAME ...]

plans each step, times the chosen plan interleaved with the capture on one stream, and writes a file
for each to OUT. A step needs about 8 s.
"""

from __future__ import annotations

import gc
import gzip
import sys
from collections.abc import Callable
from math import prod
from pathlib import Path
from statistics import median

import msgspec
import torch

from collectors.parallel.capture import StepGraph, time_replays
from collectors.parallel.graph import ParallelGraph
from collectors.parallel.streams import get_streams
from evaluation.zoo.library_models import Step
from evaluation.zoo.workloads import SUITE
from graphviz_dash.errors import GraphvizDashError
from graphviz_dash.model.graph import GraphNode, KernelParams
from graphviz_dash.planning.proof import compute_node_ranges
from tests.recorded_plans import Launch, RecordedPlan, Split


def record_step(factory: Callable[[], Step]) -> RecordedPlan:
    """Plan a step and time its replays, interleaved with those on one stream."""
    import collectors

    torch.manual_seed(0)
    step = factory()
    graph = collectors.parallel_graph(step)
    line = StepGraph(step, get_streams([True])[0])
    line_replays, replays = time_replays([line, graph.captured])
    device = torch.cuda.get_device_properties(torch.cuda.current_device())
    return RecordedPlan(
        name=(factory.__doc__ or factory.__name__).splitlines()[0].rstrip("."),
        split=Split.UNSEEN,
        gpu=device.name,
        multiprocessors=device.multi_processor_count,
        compute_capability=(device.major, device.minor),
        plan=graph.plan,
        nodes=_nodes(graph),
        line_ns=round(median(line_replays)),
        measured_ns=round(median(replays)),
    )


def _nodes(graph: ParallelGraph) -> tuple[tuple[Launch, ...], ...] | None:
    nodes, operators = graph.captured.read_graph().nodes, graph.plan.operators
    if sum(operator.nodes for operator in operators) != len(nodes):
        return None
    return tuple(
        tuple(_launch(node) for node in nodes[node_range.start : node_range.stop])
        for node_range in compute_node_ranges(operators)
    )


def _launch(node: GraphNode) -> Launch:
    kernel = node.params
    if not isinstance(kernel, KernelParams) or kernel.grid is None or kernel.block is None:
        return Launch("", 0, 0, 0, 0)
    shared = (kernel.static_shared or 0) + (kernel.dynamic_shared or 0)
    blocks, threads = prod(kernel.grid), prod(kernel.block)
    return Launch(kernel.demangled[:60], blocks, threads, kernel.registers or 0, shared)


def main() -> None:
    """Record the named workloads, or all; report those that cannot be planned."""
    output_path, *names = sys.argv[1:]
    Path(output_path).mkdir(parents=True, exist_ok=True)
    for name in names or SUITE:
        try:
            plan = record_step(SUITE[name])
        except (GraphvizDashError, RuntimeError) as error:
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
            continue
        gain = plan.line_ns / plan.measured_ns
        print(f"{name}: {gain:.2f}x on {plan.plan.selected_streams} streams", flush=True)
        content = gzip.compress(msgspec.json.encode(plan), 9, mtime=0)
        (Path(output_path) / f"{name}.json.gz").write_bytes(content)
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
