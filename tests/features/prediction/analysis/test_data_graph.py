from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.features.prediction.analysis.data_graph import (
    DataGraph,
    build_data_graph,
    reduce_dependencies,
)
from graphviz_dash.features.prediction.analysis.needs import find_node_needs
from graphviz_dash.features.prediction.analysis.stream_prediction import (
    ParallelPrediction,
    predict_parallel,
)
from graphviz_dash.features.prediction.analysis.work import get_issued_streams
from graphviz_dash.features.prediction.stream_narrative import format_need
from graphviz_dash.planning.operators import DependencyKind
from tests.analysis.parallel.training import NODES, chain_plan, training


def _prediction(count: int) -> ParallelPrediction:
    run, table, concurrency = training()
    operators = chain_plan(count).operators
    prediction = predict_parallel(run, concurrency, {"graph-0": table}, operators)
    assert isinstance(prediction, ParallelPrediction)
    return prediction


def test_chains_are_drawn_as_chains() -> None:
    _, table, concurrency = training()
    data = build_data_graph(
        ExpandedGraph.from_table(table), concurrency.measured, _prediction(4).work
    )
    assert isinstance(data, DataGraph)
    edges = {(edge.source, edge.target) for edge in data.full_graph.table.graph.edges}
    assert edges == {(node, node + 4) for node in range(NODES - 4)}
    assert len({node % 4 for node in data.measured.path.nodes}) == 1
    assert all(later == earlier + 4 for earlier, later in pairwise(data.measured.path.nodes))
    # Only the longest chain has no slack.
    assert {int(node) % 4 for node in (data.measured.slack == 0).nonzero()[0]} == {
        data.measured.path.nodes[0] % 4
    }


def test_a_need_says_which_tensor_it_is_for() -> None:
    _, table, concurrency = training()
    plan = chain_plan(4)
    tables = {"graph-0": table}
    needs = find_node_needs(_prediction(4).work, concurrency.measured, tables, plan)
    assert needs[0] == ()
    (need,) = needs[9]
    assert (need.source, need.need, need.storage) == (
        5,
        DependencyKind.WRITE_AFTER_WRITE,
        plan.storages[1],
    )
    assert format_need(need) == "overwrites its output: float32 [16], 64 B"


def test_memory_says_how_much_both_can_reach() -> None:
    run, table, concurrency = training()
    tables = {"graph-0": table}
    prediction = predict_parallel(run, concurrency, tables)
    assert isinstance(prediction, ParallelPrediction)
    needs = find_node_needs(prediction.work, concurrency.measured, tables, None)
    every = [need for of_node in needs.values() for need in of_node]
    assert {need.need for need in every} == {None}
    assert any(need.shared_bytes for need in every)
    assert format_need(every[0]).startswith("both can reach ")


def test_the_streams_of_a_plan_are_those_of_its_nodes() -> None:
    assert get_issued_streams(chain_plan(3)) == tuple(node % 3 for node in range(NODES))


@st.composite
def dags(draw: st.DrawFn) -> list[list[int]]:
    count = draw(st.integers(1, 10))
    return [
        sorted(draw(st.sets(st.integers(0, index - 1), max_size=4))) if index else []
        for index in range(count)
    ]


@given(dags())
def test_reduced_edges_imply_all_edges_and_none_is_redundant(after: list[list[int]]) -> None:
    pairs = set(reduce_dependencies(after))

    def reach(edges: set[tuple[int, int]]) -> set[tuple[int, int]]:
        closure = set(edges)
        for middle in range(len(after)):
            closure |= {
                (a, d) for a, b in closure if b == middle for c, d in closure if c == middle
            }
        return closure

    every = {(source, target) for target, sources in enumerate(after) for source in sources}
    assert pairs <= every
    assert reach(pairs) == reach(every)
    assert all(reach(pairs - {pair}) != reach(pairs) for pair in pairs)
