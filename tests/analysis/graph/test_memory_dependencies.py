from __future__ import annotations

from itertools import combinations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.analysis.graph import memory_dependencies
from graphviz_dash.analysis.graph.memory_dependencies import (
    count_unknown_nodes,
    find_memory_edges,
    has_operands,
)
from graphviz_dash.model.graph import CapturedGraph, GraphNode, NodeKind, Operand
from tests.analysis.scenes import graph_of

Pair = tuple[int, int]


def touching(
    *reached: tuple[Operand, ...] | None, edges: list[Pair] | None = None
) -> CapturedGraph:
    """Kernels that reach so much, in a line unless ``edges`` say otherwise."""
    nodes = [GraphNode(at, NodeKind.KERNEL, operands=one) for at, one in enumerate(reached)]
    line = [(at, at + 1) for at in range(len(nodes) - 1)]
    return graph_of(nodes, line if edges is None else edges)


def at(offset: int, size: int = 8, allocation: int = 0) -> Operand:
    return Operand(allocation, offset, size)


def needed(graph: CapturedGraph, apart: dict[int, Pair] | None = None) -> set[Pair]:
    found = find_memory_edges(graph, apart or {})
    assert found is not None
    return {(source, target) for source, target in found.tolist()}


def test_nodes_that_share_no_memory_need_no_order() -> None:
    graph = touching((at(0),), (at(64),), (at(0), at(128)), (at(0, allocation=1),))
    assert needed(graph) == {(0, 2)}


def test_overlapping_by_a_byte_is_sharing() -> None:
    assert needed(touching((at(0, 8),), (at(7, 8),))) == {(0, 1)}
    assert needed(touching((at(0, 8),), (at(8, 8),))) == set()


def test_a_node_that_does_not_tell_keeps_its_place() -> None:
    graph = touching((at(0),), (at(64),), None, (at(0),), (at(64),), None)
    assert needed(graph) >= {(0, 2), (1, 2), (2, 3), (2, 4), (3, 5), (4, 5)}
    assert (0, 1) not in needed(graph)
    assert count_unknown_nodes(graph) == 2


def test_branches_stay_apart_and_what_was_before_a_fork_counts_for_both() -> None:
    # 0 forks into 1, 2 and 3; all reach what 0 wrote; 4 joins and reaches it too.
    shared = (at(0),)
    graph = touching(
        shared,
        shared,
        shared,
        (at(64),),
        shared,
        edges=[(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4)],
    )
    assert needed(graph) == {(0, 1), (0, 2), (1, 4), (2, 4)} | needed(graph) & {(0, 4)}


def test_parts_of_a_group_need_not_follow_each_other() -> None:
    shared = (at(0),)
    graph = touching(*[shared] * 5)
    parts = {1: (0, 0), 2: (0, 0), 3: (0, 1)}
    assert needed(graph, parts) == {(0, 1), (1, 2), (0, 3), (2, 4), (3, 4)}


def test_too_many_branches_around_the_same_memory_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = (at(0),)
    wide = touching(*[shared] * 40, edges=[])
    assert needed(wide) == set()
    monkeypatch.setattr(memory_dependencies, "_MAX_VISITS", 40 * 40 - 1)
    assert find_memory_edges(wide, {}) is None


def test_a_graph_whose_nodes_tell_nothing_is_known_not_to() -> None:
    assert not has_operands(touching(None, None))
    assert has_operands(touching(None, (at(0),)))


def _order(graph: CapturedGraph, edges: set[Pair]) -> list[int]:
    """For each node the nodes before it, as bits; nodes are in topological order."""
    before = [0] * len(graph.nodes)
    for target in range(len(graph.nodes)):
        for source, end in edges:
            if end == target:
                before[target] |= before[source] | 1 << source
    return before


@st.composite
def _graphs(draw: st.DrawFn) -> CapturedGraph:
    count = draw(st.integers(1, 9))
    reached = [
        draw(
            st.none()
            | st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5)), max_size=3, unique=True)
        )
        for _ in range(count)
    ]
    possible = list(combinations(range(count), 2))
    edges = draw(st.lists(st.sampled_from(possible), unique=True)) if possible else []
    operands = [
        None if one is None else tuple(at(4 * place, 6, allocation) for allocation, place in one)
        for one in reached
    ]
    return touching(*operands, edges=edges)


def _conflict(one: GraphNode, other: GraphNode) -> bool:
    if one.operands is None or other.operands is None:
        return True
    return any(
        a.allocation == b.allocation
        and a.offset < b.offset + b.bytes
        and b.offset < a.offset + a.bytes
        for a in one.operands
        for b in other.operands
    )


@settings(max_examples=120)
@given(_graphs())
def test_needed_edges_order_exactly_the_conflicting_pairs(graph: CapturedGraph) -> None:
    """Its closure is the closure of all pairs that are ordered and conflict."""
    ordered = _order(graph, {(edge.source, edge.target) for edge in graph.edges})
    conflicts = {
        (a, b)
        for a, b in combinations(range(len(graph.nodes)), 2)
        if ordered[b] >> a & 1 and _conflict(graph.nodes[a], graph.nodes[b])
    }
    found = needed(graph)
    assert found <= conflicts
    assert _order(graph, found) == _order(graph, conflicts)


def test_an_empty_node_orders_nothing_by_itself() -> None:
    graph = touching((at(0),), (at(0),), (at(64),))
    nodes = (graph.nodes[0], GraphNode(1, NodeKind.EMPTY), graph.nodes[2])
    assert needed(msgspec.structs.replace(graph, nodes=nodes)) == set()
