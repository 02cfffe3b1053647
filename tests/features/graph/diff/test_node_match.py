from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from graphviz_dash.features.graph.diff.node_match import (
    UNMATCHED,
    GraphSide,
    find_longest_ascending,
    match_nodes,
)
from tests.analysis.scenes import graph_of, kernel


def side(exact: str, edges: list[tuple[int, int]], loose: str | None = None) -> GraphSide:
    """Build a graph with letters as nodes: equal ones and similar ones."""
    graph = graph_of([kernel(index) for index in range(len(exact))], edges)
    return GraphSide.from_graph(graph, (list(exact), list(loose or exact.lower())))


def line(count: int) -> list[tuple[int, int]]:
    return [(index, index + 1) for index in range(count - 1)]


def test_equal_graphs_match_node_by_node() -> None:
    assert match_nodes(side("ABC", line(3)), side("ABC", line(3))) == [0, 1, 2]


def test_the_order_of_creation_does_not_count() -> None:
    # A leads to B and to C, and the second graph created C first.
    first = side("ABC", [(0, 1), (0, 2)])
    second = side("ACB", [(0, 1), (0, 2)])
    assert match_nodes(first, second) == [0, 2, 1]


def test_a_changed_node_matches_what_is_in_its_place() -> None:
    first, second = side("AXC", line(3), "axc"), side("AYC", line(3), "axc")
    assert match_nodes(first, second) == [0, 1, 2]


def test_a_node_of_another_kind_has_no_partner() -> None:
    assert match_nodes(side("AB", line(2)), side("AZ", line(2))) == [0, UNMATCHED]


@given(st.lists(st.integers(0, 20), unique=True, max_size=8))
def test_no_ascending_subsequence_is_longer(values: list[int]) -> None:
    chosen = find_longest_ascending(values)
    picked = [values[index] for index in chosen]
    assert chosen == sorted(chosen)
    assert picked == sorted(picked)
    longer = combinations(values, len(chosen) + 1)
    assert not any(list(candidate) == sorted(candidate) for candidate in longer)
