from __future__ import annotations

import msgspec
import pytest

from graphviz_dash.analysis.attribution.graph_identity import GraphIdentity
from graphviz_dash.features.graph.diff.graph_diff import diff_graphs
from graphviz_dash.features.graph.diff_narrative import (
    describe_uncompared_properties,
    format_graph_title,
)
from graphviz_dash.model.graph import Operand
from tests.analysis.scenes import graph_of, kernel


@pytest.mark.parametrize(
    ("identity", "title"),
    [
        (GraphIdentity("graph-3", "bs 64", (64, 256), 15), "bs 64 · 15 replays · graph-3"),
        (GraphIdentity("graph-3", None, (64, 256), 1), "input 64×256 · 1 replay · graph-3"),
        (GraphIdentity("graph-3", None, None, 0), "0 replays · graph-3"),
        (GraphIdentity("graph-3", None, None, None), "graph-3"),
    ],
)
def test_a_graph_is_called_by_what_it_is(identity: GraphIdentity, title: str) -> None:
    assert format_graph_title(identity) == title


def test_addresses_are_not_said_to_be_in_no_bundle_where_some_are() -> None:
    plain = graph_of([kernel(0)])
    node = msgspec.structs.replace(kernel(0), operands=(Operand(0, 0, 64),))
    with_operands = graph_of([node])
    assert "which bundles do not contain" in describe_uncompared_properties(
        diff_graphs((plain,), (plain,))
    )
    sentence = describe_uncompared_properties(diff_graphs((with_operands,), (with_operands,)))
    assert "and addresses, which" not in sentence
    assert "addresses within allocations" in sentence
