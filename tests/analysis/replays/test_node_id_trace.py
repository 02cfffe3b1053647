from __future__ import annotations

import msgspec

from graphviz_dash.analysis.replays.matching import GraphIdentities
from graphviz_dash.analysis.replays.node_id_trace import build_node_id_trace
from graphviz_dash.analysis.replays.replays import (
    BY_ID,
    BY_ORDER,
    METHODS,
    match_replays,
)
from graphviz_dash.model.marks import STEP
from graphviz_dash.model.node_ids import NodeIdPass
from tests.analysis.replays.layers import layers, node_id_pass


class TestThePassAsATrace:
    def test_with_ids_every_row_is_named(self) -> None:
        found = node_id_pass([2, 0], [1, 0])
        matched = match_replays(layers(), build_node_id_trace(found), GraphIdentities(found.graphs))
        assert matched.graph.tolist() == [2, 2, 0, 0, 1, 1, 0, 0]
        assert matched.node.tolist() == [0, 1] * 4
        assert {METHODS[m] for m in matched.method} == {BY_ID}

    def test_hidden_ids_leave_it_to_the_alignment(self) -> None:
        trace = build_node_id_trace(node_id_pass([0, 1, 2], [0, 1, 2]), with_ids=False)
        assert trace.gpu["graph_id"].null_count() == len(trace.gpu)
        matched = match_replays(layers(), trace)
        assert {METHODS[m] for m in matched.method} == {BY_ORDER}
        assert matched.graph.tolist() == [0, 0, 1, 1, 2, 2] * 2

    def test_steps_and_launches_are_in_the_order_of_the_calls(self) -> None:
        found = node_id_pass([0, 1], [2])
        late = msgspec.structs.replace(found.rows[0], start_ns=15)
        found = msgspec.structs.replace(found, rows=(late, *found.rows[1:]))
        trace = build_node_id_trace(found)
        assert trace.runtime["ts"].is_sorted()
        assert trace.runtime["correlation"].to_list() == [0, 1, 2]
        assert trace.annotations["name"].to_list() == [f"{STEP}0", f"{STEP}1"]

    def test_a_pass_without_rows(self) -> None:
        trace = build_node_id_trace(NodeIdPass("a test", 3, 0, 7, (), (), (), ()))
        assert len(trace.gpu) == len(trace.runtime) == len(trace.annotations) == 0
        assert match_replays(layers(), trace).matched_count == 0
