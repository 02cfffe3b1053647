from __future__ import annotations

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.replays.visibility import (
    LAST_ITERATION_ONLY,
    describe_hidden_work,
    explain_missing_times,
    find_enclosing_conditionals,
)
from graphviz_dash.model.graph import (
    CapturedGraph,
    ConditionalParams,
    ConditionalType,
    GraphNode,
    NodeKind,
)
from tests.analysis.scenes import graph_of, kernel


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (NodeKind.HOST, "runs on the CPU"),
        (NodeKind.CHILD_GRAPH, "of the nodes inside it"),
        (NodeKind.EMPTY, "does no work"),
        (NodeKind.EVENT_RECORD, "no row for this kind of node"),
    ],
)
def test_a_kind_that_the_profiler_does_not_show(kind: NodeKind, reason: str) -> None:
    assert reason in explain_missing_times(GraphNode(0, kind), (), 3)


def test_a_kernel_that_was_not_seen() -> None:
    assert explain_missing_times(kernel(0), (), 0) == "the trace shows no replay of its graph"
    assert (
        explain_missing_times(kernel(0), (), 1200)
        == "no row in the 1,200 replays was matched to it"
    )
    inside = explain_missing_times(kernel(0), (ConditionalType.IF,), 2)
    assert inside.endswith("; it runs only if its condition holds")


def nested() -> dict[str, CapturedGraph]:
    """A While that holds a conditional whose type was not read, which holds a kernel."""
    params = ConditionalParams(ConditionalType.WHILE, 1)
    root = graph_of([GraphNode(0, NodeKind.CONDITIONAL, params, ("b",))], name="a")
    middle = graph_of([GraphNode(0, NodeKind.CONDITIONAL, None, ("c",))], name="b")
    inner = graph_of([kernel(0)], name="c")
    graphs = (root, replace(middle, parent=("a", 0)), replace(inner, parent=("b", 0)))
    return {graph.id: graph for graph in graphs}


def test_conditionals_are_told_from_inside_out() -> None:
    by_id = nested()
    assert find_enclosing_conditionals(by_id["a"], by_id) == ()
    assert find_enclosing_conditionals(by_id["c"], by_id) == (None, ConditionalType.WHILE)


def test_of_a_while_the_last_turn_alone_is_seen() -> None:
    assert describe_hidden_work((None, ConditionalType.WHILE)) == LAST_ITERATION_ONLY
    assert describe_hidden_work((ConditionalType.IF,)) is None
