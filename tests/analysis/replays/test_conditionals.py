from __future__ import annotations

from itertools import pairwise

import pytest

from graphviz_dash.analysis.attribution.attribution import attribute_graph
from graphviz_dash.analysis.graph.flatten import list_flat_variants
from graphviz_dash.analysis.nodes.node_table import NodeTable, build_node_table
from graphviz_dash.analysis.replays.replays import ReplayMatch, match_replays
from graphviz_dash.analysis.replays.visibility import LAST_ITERATION_ONLY
from graphviz_dash.model.graph import (
    CapturedGraph,
    ConditionalParams,
    ConditionalType,
    GraphEdge,
    GraphNode,
    NodeKind,
)
from tests.analysis.scenes import Scene, graph_of, kernel


def body(holder: str, index: int, place: int, names: list[str]) -> CapturedGraph:
    nodes = tuple(kernel(number, name) for number, name in enumerate(names))
    edges = tuple(GraphEdge(a, b) for a, b in pairwise(range(len(nodes))))
    return CapturedGraph(f"{holder}.{index}.{place}", nodes, edges, "a test", (holder, index))


def conditional(index: int, kind: ConditionalType, size: int, graph: str = "graph-0") -> GraphNode:
    bodies = tuple(f"{graph}.{index}.{place}" for place in range(size))
    return GraphNode(index, NodeKind.CONDITIONAL, ConditionalParams(kind, size), bodies)


def scene_of(launches: list[list[str]]) -> Scene:
    """Build one launch per list of kernel names; bodies run on separate streams."""
    scene = Scene()
    for number, names in enumerate(launches):
        correlation = scene.call("cudaGraphLaunch", 1000 * number + 100)
        for place, name in enumerate(names):
            stream = 7 if name.startswith("m") else 70 + place
            scene.work(
                kernel(0, name), 1000 * number + 110 + 10 * place, correlation, stream=stream
            )
    return scene


IF = ConditionalType.IF
WHILE = ConditionalType.WHILE
SWITCH = ConditionalType.SWITCH

GRAPHS = (
    graph_of(
        [
            kernel(0, "m0"),
            conditional(1, IF, 2),
            conditional(2, WHILE, 1),
            conditional(3, SWITCH, 3),
            kernel(4, "m4"),
            GraphNode(5, NodeKind.HOST),
        ]
    ),
    body("graph-0", 1, 0, ["yes", "shared"]),
    body("graph-0", 1, 1, ["no"]),
    body("graph-0", 2, 0, ["turn", "shared"]),
    body("graph-0", 3, 0, ["zero"]),
    body("graph-0", 3, 1, ["one"]),
    body("graph-0", 3, 2, ["two", "shared"]),
)


def owners(found: ReplayMatch, replay: int) -> list[tuple[str, int]]:
    return [
        (found.graphs[graph], node)
        for number, graph, node in zip(
            found.replay.tolist(), found.graph.tolist(), found.node.tolist(), strict=True
        )
        if number == replay
    ]


@pytest.fixture(scope="module")
def found() -> ReplayMatch:
    scene = scene_of(
        [
            ["m0", "yes", "shared", "turn", "shared", "one", "m4"],
            ["m0", "no", "turn", "shared", "two", "shared", "m4"],
            ["m0", "no", "turn", "shared", "m4"],
            ["m0", "yes", "shared", "m4"],
        ]
    )
    return match_replays(GRAPHS, scene.trace())


def test_each_row_is_the_node_of_the_body_that_ran(found: ReplayMatch) -> None:
    assert owners(found, 0) == [
        ("graph-0", 0),
        ("graph-0.1.0", 0),
        ("graph-0.1.0", 1),
        ("graph-0.2.0", 0),
        ("graph-0.2.0", 1),
        ("graph-0.3.1", 0),
        ("graph-0", 4),
    ]
    assert owners(found, 1)[1:-1] == [
        ("graph-0.1.1", 0),
        ("graph-0.2.0", 0),
        ("graph-0.2.0", 1),
        ("graph-0.3.2", 0),
        ("graph-0.3.2", 1),
    ]
    assert owners(found, 2)[1:-1] == [("graph-0.1.1", 0), ("graph-0.2.0", 0), ("graph-0.2.0", 1)]
    assert owners(found, 3)[1:-1] == [("graph-0.1.0", 0), ("graph-0.1.0", 1)]
    assert found.confidence.tolist() == [1.0] * len(found.confidence)


def test_a_body_counts_the_launches_of_its_graph(found: ReplayMatch) -> None:
    assert found.count_replays("graph-0") == found.count_replays("graph-0.3.1") == 4
    assert len(found.get_node_rows("graph-0.3.1", 0)) == 1
    assert found.count_replays("graph-9") == 0


def table(found: ReplayMatch, graph_id: str) -> NodeTable:
    graph = next(graph for graph in GRAPHS if graph.id == graph_id)
    return build_node_table(graph, attribute_graph(graph), found, GRAPHS)


def test_unobserved_nodes_have_a_reason(found: ReplayMatch) -> None:
    root = table(found, "graph-0")
    assert root.rows[0].times.note is None
    assert "in its bodies" in (root.rows[1].times.note or "")
    assert "on the CPU" in (root.rows[5].times.note or "")
    never = table(found, "graph-0.3.0").rows[0].times
    assert never.samples == 0
    assert "only if its condition holds" in (never.note or "")


def test_a_while_shows_one_turn(found: ReplayMatch) -> None:
    turn, again = table(found, "graph-0.2.0").rows
    assert turn.times.samples == again.times.samples == 3
    assert turn.times.note == again.times.note == LAST_ITERATION_ONLY
    assert table(found, "graph-0.1.0").rows[0].times.note is None


def test_bodies_that_look_alike_are_told_with_less_confidence() -> None:
    graphs = (
        graph_of([kernel(0, "m0"), conditional(1, IF, 2)]),
        body("graph-0", 1, 0, ["same"]),
        body("graph-0", 1, 1, ["same"]),
    )
    found = match_replays(graphs, scene_of([["m0", "same"]] * 4).trace())
    assert found.confidence.tolist() == [0.5] * 8


def test_conditionals_inside_bodies_and_child_graphs() -> None:
    child = CapturedGraph(
        "graph-0.0", (conditional(0, WHILE, 1, "graph-0.0"),), (), "a test", ("graph-0", 0)
    )
    inner = CapturedGraph(
        "graph-0.0.0.0",
        (kernel(0, "outer"), conditional(1, IF, 1, "graph-0.0.0.0")),
        (GraphEdge(0, 1),),
        "a test",
        ("graph-0.0", 0),
    )
    deepest = body("graph-0.0.0.0", 1, 0, ["deep"])
    holder = GraphNode(0, NodeKind.CHILD_GRAPH, None, ("graph-0.0",))
    graphs = (graph_of([holder, kernel(1, "m1")]), child, inner, deepest)
    found = match_replays(graphs, scene_of([["outer", "deep", "m1"], ["outer", "m1"]]).trace())
    assert owners(found, 0) == [("graph-0.0.0.0", 0), (deepest.id, 0), ("graph-0", 1)]
    assert owners(found, 1) == [("graph-0.0.0.0", 0), ("graph-0", 1)]
    assert len(list_flat_variants(graphs[0], {graph.id: graph for graph in graphs})) == 3


def test_too_many_choices_leave_bodies_out() -> None:
    many = 9
    graphs = (
        graph_of([kernel(0, "m0"), *(conditional(1 + n, IF, 1) for n in range(many))]),
        *(body("graph-0", 1 + n, 0, [f"b{n}"]) for n in range(many)),
    )
    assert len(list_flat_variants(graphs[0], {graph.id: graph for graph in graphs})) == 1
    found = match_replays(graphs, scene_of([["m0"]]).trace())
    assert found.node.tolist() == [0]


def test_a_graph_without_conditionals_is_one() -> None:
    plain = graph_of([kernel(0, "m0"), kernel(1, "m1")])
    (flat,) = list_flat_variants(plain, {plain.id: plain})
    assert flat.graph is plain
