"""Graphs that look the same, and launches of them told apart by nothing else."""

from __future__ import annotations

from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.marks import STEP
from graphviz_dash.model.node_ids import GraphIds, NodeIdPass, NodeIdRow, NodeSignature
from tests.analysis.scenes import Scene, graph_of, kernel

LINE = [(0, 0, 5), (1, 10, 5)]


KERNEL = NodeSignature("kernel", "k", (1, 1, 1), (128, 1, 1), 16, 32, None)


def layers(count: int = 3) -> tuple[CapturedGraph, ...]:
    return tuple(graph_of([kernel(0), kernel(1)], name=f"graph-{i}") for i in range(count))


def in_steps(launched: list[list[int]], exec_ids: dict[int, int] | None = None) -> Scene:
    """Steps with launches of :func:`layers`."""
    scene = Scene()
    graph = layers(1)[0]
    now = 100
    for step, numbers in enumerate(launched):
        begin = now
        for number in numbers:
            correlation = scene.call("cudaGraphLaunch", now)
            for node, start, duration in LINE:
                ids = {} if exec_ids is None else {"graph_id": exec_ids[number]}
                if exec_ids is not None:
                    ids["graph_node_id"] = node
                scene.work(graph.nodes[node], now + 5 + start, correlation, dur=duration, **ids)
            now += 100
        scene.mark(f"{STEP}{step}", begin, now - 1)
    return scene


def node_id_pass(*steps: list[int]) -> NodeIdPass:
    """Steps that launch :func:`layers` by number; their executables are 10, 11, ..."""
    rows: list[NodeIdRow] = []
    launch_steps: list[int] = []
    now = 0
    for step, numbers in enumerate(steps):
        for number in numbers:
            for node in (0, 1):
                rows.append(NodeIdRow(len(launch_steps), 10 + number, node, 0, 0, 7, now, 5))
                now += 10
            launch_steps.append(step)
    ids = tuple(GraphIds(graph.id, (10 + i,), (0, 1)) for i, graph in enumerate(layers()))
    return NodeIdPass("a test", len(steps), 0, 0, ids, (KERNEL,), tuple(launch_steps), tuple(rows))
