"""Comparing two captured graphs: time and found edits over the size of the graph.

    python benchmarks/graph_diff.py [--nodes 1000 10000 100000] [--edits 100]

Each graph is a line of repeated layers; the other lacks some of its nodes and has others changed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from graphviz_dash.features.graph.diff.graph_diff import diff_graphs  # noqa: E402
from graphviz_dash.features.graph.diff.update_prediction import predict_update  # noqa: E402
from graphviz_dash.model.graph import (  # noqa: E402
    CapturedGraph,
    GraphEdge,
    GraphNode,
    KernelParams,
    NodeKind,
)

_LAYER = ("norm", "qkv", "attention", "project", "add", "norm", "up", "gelu", "down", "add")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--edits", type=int, default=100)
    options = parser.parse_args()
    print("nodes    compare  update    added removed changed moved")
    for count in options.nodes:
        before, after = _pair(count, options.edits)
        begin = time.perf_counter()
        diff_counts = diff_graphs([before], [after]).count_nodes()
        compare_time = time.perf_counter()
        predict_update([before], [before])
        finish_time = time.perf_counter()
        counts = " ".join(f"{number:7,}" for number in list(diff_counts.values())[:4])
        print(
            f"{count:7,} {compare_time - begin:7.2f} s {finish_time - compare_time:6.2f} s {counts}"
        )


def _pair(count: int, edits: int) -> tuple[CapturedGraph, CapturedGraph]:
    dice = random.Random(count)
    params = [_kernel(_LAYER[position % len(_LAYER)]) for position in range(count)]
    edited_nodes = set(dice.sample(range(count), edits))
    deleted_nodes = {position for position in edited_nodes if dice.random() < 0.5}
    other = [
        msgspec.structs.replace(one, grid=(99, 1, 1)) if position in edited_nodes else one
        for position, one in enumerate(params)
        if position not in deleted_nodes
    ]
    return _line(params), _line(other)


def _kernel(name: str) -> KernelParams:
    return KernelParams(name, name, (8, 1, 1), (128, 1, 1), 0, 0, 32)


def _line(params: list[KernelParams]) -> CapturedGraph:
    nodes = tuple(GraphNode(position, NodeKind.KERNEL, one) for position, one in enumerate(params))
    edges = tuple(GraphEdge(position, position + 1) for position in range(len(params) - 1))
    return CapturedGraph("graph-0", nodes, edges, "made")


if __name__ == "__main__":
    main()
