from __future__ import annotations

import pytest

from graphviz_dash.analysis.attribution.attribution import attribute_graph
from graphviz_dash.analysis.nodes.node_table import NodeTable, build_node_table
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph, combine_tables
from graphviz_dash.analysis.replays.replays import match_replays
from graphviz_dash.features.graph.folding.fold import fold_graph
from graphviz_dash.features.graph.folding.tree import (
    FoldGroup,
    FoldKind,
    Leaf,
    index_groups,
    list_ancestors,
)
from graphviz_dash.model.graph import CapturedGraph, GraphNode, NodeKind
from tests.analysis.replays.test_conditionals import GRAPHS, IF, SWITCH, body, conditional, scene_of
from tests.analysis.scenes import graph_of, kernel


def whole_of(graphs: tuple[CapturedGraph, ...], launches: list[list[str]]) -> ExpandedGraph:
    found = match_replays(graphs, scene_of(launches).trace())

    def table(graph_id: str) -> NodeTable:
        graph = next(graph for graph in graphs if graph.id == graph_id)
        return build_node_table(graph, attribute_graph(graph), found, graphs)

    return combine_tables("graph-0", graphs, table)


@pytest.fixture(scope="module")
def whole() -> ExpandedGraph:
    # The If takes each body once, the Switch its case 1 once: durations are 5 ns each.
    return whole_of(
        GRAPHS,
        [
            ["m0", "yes", "shared", "turn", "shared", "one", "m4"],
            ["m0", "no", "turn", "shared", "m4"],
        ],
    )


def test_every_node_has_its_place(whole: ExpandedGraph) -> None:
    expected = [(graph.id, node.index) for graph in GRAPHS for node in graph.nodes]
    assert sorted(whole.owners) == sorted(expected)
    assert whole.root_nodes == (0, 1, 2, 3, 4, 5)
    assert [row.node.index for row in whole.table.rows] == list(range(len(expected)))
    for place, (graph, index) in enumerate(whole.owners):
        assert whole.find_place(graph, index) == place
    assert whole.find_place("graph-9", 0) is None
    assert whole.find_place("graph-0", 99) is None


def test_edges_stay_within_their_graph(whole: ExpandedGraph) -> None:
    assert len(whole.table.graph.edges) == sum(len(graph.edges) for graph in GRAPHS)
    for edge in whole.table.graph.edges:
        assert whole.owners[edge.source][0] == whole.owners[edge.target][0]


def test_bodies_are_named_by_when_they_run(whole: ExpandedGraph) -> None:
    titles = {holder: [body.title for body in bodies] for holder, bodies in whole.bodies.items()}
    assert titles == {
        1: ["then", "else"],
        2: ["each iteration"],
        3: ["case 0", "case 1", "case 2"],
    }


def test_the_work_of_a_replay_counts_a_body_as_often_as_it_ran(whole: ExpandedGraph) -> None:
    # 12 rows of 5 ns in 2 replays.
    assert whole.work_ns == pytest.approx(12 * 5 / 2)
    assert whole.table.matched_kernels == whole.table.replay_kernels == 12
    assert len(whole.optional_nodes) == sum(len(graph.nodes) for graph in GRAPHS[1:])


def test_a_graph_without_bodies_is_its_table() -> None:
    plain = graph_of([kernel(0, "m0"), kernel(1, "m1")])
    whole = whole_of((plain,), [["m0", "m1"]])
    assert whole.table.graph is plain
    assert whole.bodies == {}
    assert whole.optional_nodes == frozenset()


def leaves(group: FoldGroup) -> list[int]:
    found = []
    for child in group.children:
        found += [child.node] if isinstance(child, Leaf) else leaves(child)
    return found


def test_a_node_that_holds_graphs_is_a_group_with_their_bodies(whole: ExpandedGraph) -> None:
    root = fold_graph(whole)
    assert sorted(leaves(root)) == list(range(len(whole.owners)))
    holders = [group for group in index_groups(root).values() if group.kind is FoldKind.HOLDER]
    assert {group.title for group in holders} == {"If, 2 bodies", "While", "Switch, 3 bodies"}
    for holder in holders:
        first, *bodies = holder.children
        assert isinstance(first, Leaf)
        assert all(isinstance(one, FoldGroup) and one.kind is FoldKind.BODY for one in bodies)
    inner = whole.find_place("graph-0.3.2", 1)
    assert inner is not None
    around = list_ancestors(root, inner)
    assert [index_groups(root)[name].kind for name in around][-2:] == [
        FoldKind.HOLDER,
        FoldKind.BODY,
    ]


def test_a_body_without_nodes_is_no_group() -> None:
    empty = CapturedGraph("graph-0.0.1", (), (), "a test", ("graph-0", 0))
    graphs = (graph_of([conditional(0, IF, 2)]), body("graph-0", 0, 0, ["yes"]), empty)
    whole = whole_of(graphs, [["yes"]])
    assert [body.nodes for body in whole.bodies[0]] == [(1,), ()]
    kinds = [group.kind for group in index_groups(fold_graph(whole)).values()]
    assert kinds.count(FoldKind.BODY) == 1


def test_bodies_that_were_not_read_leave_a_plain_node() -> None:
    graphs = (graph_of([kernel(0, "m0"), GraphNode(1, NodeKind.CONDITIONAL)]),)
    whole = whole_of(graphs, [["m0"]])
    assert whole.bodies == {}
    assert [type(child) for child in fold_graph(whole).children] == [Leaf, Leaf]


def test_deep_bodies() -> None:
    inner = CapturedGraph(
        "graph-0.0.0",
        (kernel(0, "outer"), conditional(1, SWITCH, 1, "graph-0.0.0")),
        (),
        "a test",
        ("graph-0", 0),
    )
    deepest = body("graph-0.0.0", 1, 0, ["deep"])
    graphs = (graph_of([conditional(0, IF, 1)]), inner, deepest)
    whole = whole_of(graphs, [["outer", "deep"]])
    assert whole.owners == (
        ("graph-0", 0),
        ("graph-0.0.0", 0),
        ("graph-0.0.0", 1),
        ("graph-0.0.0.1.0", 0),
    )
    assert whole.optional_nodes == {1, 2, 3}
    assert sorted(leaves(fold_graph(whole))) == [0, 1, 2, 3]
