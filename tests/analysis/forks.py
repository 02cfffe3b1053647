"""A fork of two branches and a join, replayed at known times."""

from __future__ import annotations

from graphviz_dash.analysis.nodes.measured_graph import MeasuredGraph, measure_graph
from graphviz_dash.analysis.replays.replays import match_replays
from graphviz_dash.model.graph import CapturedGraph, GraphNode, NodeKind
from tests.analysis.scenes import Scene, graph_of, kernel

# A fork into two branches and a join, with an event between.
FORK = graph_of(
    [kernel(0, "a"), kernel(1, "b"), kernel(2, "c"), GraphNode(3, NodeKind.EMPTY), kernel(4, "d")],
    [(0, 1), (0, 2), (1, 3), (3, 4), (2, 4)],
)


def measured_over(graph: CapturedGraph, scene: Scene) -> MeasuredGraph:
    found = measure_graph(graph, (graph,), match_replays((graph,), scene.trace()))
    assert isinstance(found, MeasuredGraph)
    return found


def add_replay(scene: Scene, start: int, times: dict[int, tuple[int, int, int]]) -> None:
    """One launch; by node its start, duration and stream."""
    correlation = scene.call("cudaGraphLaunch", start)
    for node, (begin, took, stream) in times.items():
        scene.work(FORK.nodes[node], start + begin, correlation, dur=took, stream=stream)


def measured_fork() -> MeasuredGraph:
    scene = Scene()
    for place, late in enumerate((0, 2, 4)):
        begin = 1000 * (place + 1)
        add_replay(
            scene,
            begin,
            {0: (10, 10, 7), 1: (25, 40, 7), 2: (22, 20, 9), 4: (70 + late, 10, 7)},
        )
    return measured_over(FORK, scene)
