from __future__ import annotations

import random

from graphviz_dash.analysis.replays.replays import (
    ReplayMatch,
    match_replays,
)
from graphviz_dash.model.graph import (
    CapturedGraph,
)
from tests.analysis.scenes import Scene, graph_of, kernel

Line = list[tuple[int, int, int]]


def line_rows(nodes: list[int]) -> Line:
    return [(node, 10 * place, 7) for place, node in enumerate(nodes)]


def match_one(graph: CapturedGraph, rows: Line) -> ReplayMatch:
    scene = Scene()
    scene.replay(graph, 100, rows)
    return match_replays((graph,), scene.trace())


def fork_join(branches: list[list[str]]) -> CapturedGraph:
    nodes = [kernel(0, "fork")]
    edges, ends = [], []
    for names in branches:
        before = 0
        for name in names:
            nodes.append(kernel(len(nodes), name))
            edges.append((before, len(nodes) - 1))
            before = len(nodes) - 1
        ends.append(before)
    nodes.append(kernel(len(nodes), "join"))
    edges += [(end, len(nodes) - 1) for end in ends]
    return graph_of(nodes, edges)


def replay_rows(graph: CapturedGraph, stream_of: list[int], rng: random.Random) -> Line:
    """Each node starts some time after its dependencies and the previous node of its stream."""
    before: list[list[int]] = [[] for _ in graph.nodes]
    for edge in graph.edges:
        before[edge.target].append(edge.source)
    start: list[int] = []
    free: dict[int, int] = {}
    for node, stream in enumerate(stream_of):
        at = max([*(start[one] + 6 for one in before[node]), free.get(stream, 0)])
        start.append(at + rng.randrange(20))
        free[stream] = start[-1] + 6
    return sorted(zip(range(len(start)), start, stream_of, strict=True), key=lambda row: row[1])


def check_invariants(graph: CapturedGraph, found: ReplayMatch, truth: list[int]) -> None:
    labels = [node.label for node in graph.nodes]
    begun: dict[int, int] = {}
    for place, (node, shown) in enumerate(zip(found.node.tolist(), truth, strict=True)):
        if node < 0:
            assert found.confidence[place] == 0.0
            continue
        assert labels[node] == labels[shown]
        assert 0.0 < found.confidence[place] <= 1.0
        assert node not in begun
        begun[node] = int(found.start[place])
    for edge in graph.edges:
        if edge.source in begun and edge.target in begun:
            assert begun[edge.source] <= begun[edge.target]
