from __future__ import annotations

import gzip
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.nodes.replay_faults import (
    FaultState,
    GraphFaults,
    find_dependents,
    find_graph_faults,
    is_same_step,
)
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph, expand_graph
from graphviz_dash.analysis.replay_check import list_replay_diagnoses, number_checked_nodes
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.replay_check import (
    CheckedOperator,
    FactKind,
    ForeignNodes,
    ReplayCheck,
    ValueCheck,
)
from graphviz_dash.model.run import Run
from tests.analysis.test_replay_check import (
    FATE,
    make_check,
    make_difference,
    make_fact,
    make_node,
    make_operator,
    make_replay_check,
    make_stop,
)
from tests.builders import captured_graph, fork_join
from tests.samples import compared_sample

CASES = Path(__file__).parents[2] / "cases"


@pytest.fixture(scope="module")
def run() -> Run:
    return compared_sample("mlp-train")["graph"].run


@pytest.fixture(scope="module")
def graph(run: Run) -> ExpandedGraph:
    return expand_graph(run, "graph-0")


def find(runs: list[Run], run: Run, graph: ExpandedGraph) -> GraphFaults | None:
    return find_graph_faults(list_replay_diagnoses(runs), run.name, graph)


def make_values(graph: ExpandedGraph, *differences: object, **parts: object) -> ValueCheck:
    """Operators that launch two nodes each, with one hash behind each operator."""
    operators: list[CheckedOperator] = []
    nodes = len(graph.table.rows)
    for number in range(nodes // 2):
        path = graph.table.rows[2 * number].origin.op_path
        operators.append(
            make_operator(path[0] if path else "aten::any", first_node=3 * number, nodes=2)
        )
    foreign = (ForeignNodes(0, 3 * len(operators), nodes % 2, ("tail",)),) if nodes % 2 else ()
    check = make_check(operators=tuple(operators), foreign=foreign, **parts)
    return replace(check, differences=differences, nodes=nodes)


def test_hashes_are_not_counted_as_nodes() -> None:
    operators = tuple(
        make_operator(first_node=first, nodes=count) for first, count in ((0, 2), (3, 1), (8, 4))
    )
    values = replace(
        make_check(operators=operators, foreign=(ForeignNodes(2, 5, 2, ("triton",)),)), nodes=9
    )
    assert number_checked_nodes(values) == {0: 0, 3: 2, 5: 3, 8: 5}
    assert number_checked_nodes(replace(values, nodes=10)) is None


def test_a_wrong_operator_of_another_run_is_found_in_the_graph(
    run: Run, graph: ExpandedGraph
) -> None:
    values = make_values(graph, make_difference(operator=5))
    assert is_same_step(values, graph)
    check = ReplayCheck("workload", (values,), (), (), 1, ())
    other = replace(run, path=run.path.with_name("doctor"), replay_check=check)
    faults = find([run, other], run, graph)
    assert faults is not None
    assert [item.nodes for item in faults.faults] == [(10, 11)]
    assert faults.states[9] is FaultState.INDEPENDENT
    assert faults.states[10] is FaultState.FAULT
    assert faults.states[12] is FaultState.AFTER
    assert faults.find_cause(12) == faults.faults[0]
    assert faults.diagnosis.wrong[0].node == 10


def test_a_step_of_other_operators_or_size_is_not_the_same(run: Run, graph: ExpandedGraph) -> None:
    values = make_values(graph, make_difference(operator=5))
    renamed = tuple(replace(item, name="aten::conv2d") for item in values.operators)
    assert not is_same_step(replace(values, operators=renamed), graph)
    assert not is_same_step(replace(values, nodes=values.nodes + 1), graph)
    check = ReplayCheck("workload", (replace(values, operators=renamed),), (), (), 1, ())
    assert find([replace(run, replay_check=check)], run, graph) is None


def test_a_check_on_another_gpu_belongs_to_the_sample_of_the_same_workload(
    run: Run, graph: ExpandedGraph
) -> None:
    """A real check of mlp-train on an H100; the sample's graph is from an H200."""
    content = gzip.decompress((CASES / "replay-check-mlp-train.json.gz").read_bytes())
    check = msgspec.json.decode(content, type=ReplayCheck)
    (values,) = check.values
    assert (values.nodes, values.hash_count) == (69, 214)
    assert is_same_step(values, graph)
    relu = next(index for index, item in enumerate(values.operators) if item.name == "aten::relu")
    wrong = replace(values, differences=(make_difference(operator=relu),), difference_count=1)
    other = replace(run, replay_check=replace(check, values=(wrong,)))
    faults = find([other], other, graph)
    assert faults is not None
    (located,) = faults.faults
    # The first linear layer is before it, with four nodes.
    assert located.nodes == (4,)
    assert "aten::relu" in graph.table.rows[4].origin.op_path


def test_right_replays_have_no_states(run: Run, graph: ExpandedGraph) -> None:
    check = ReplayCheck("workload", (make_values(graph),), (), (), 1, ())
    faults = find([replace(run, replay_check=check)], run, graph)
    assert faults is not None
    assert (faults.faults, faults.states) == ((), {})


def test_a_crash_and_freed_memory_are_those_of_the_program(run: Run, graph: ExpandedGraph) -> None:
    fate = replace(FATE, node=make_node(7))
    check = make_replay_check(make_stop(), memory=(fate,))
    marked = replace(run, replay_check=check)
    faults = find([marked], marked, graph)
    assert faults is not None
    assert [item.nodes for item in faults.faults] == [(5,), (7,)]
    # The check of a program says nothing about the graphs of other runs.
    assert (
        find_graph_faults(
            list_replay_diagnoses([replace(marked, path=run.path.with_name("marked"))]),
            run.name,
            graph,
        )
        is None
    )
    # A graph that the check does not name is right.
    elsewhere = replace(
        run,
        replay_check=make_replay_check(
            make_stop(suspects=(replace(make_node(5), graph="graph-9"),))
        ),
    )
    other = find([elsewhere], elsewhere, graph)
    assert other is not None
    assert other.faults == ()


def test_only_dependent_nodes_follow_a_fault() -> None:
    captured: CapturedGraph = captured_graph(fork_join(2, 3))
    branch = next(
        node
        for node in range(len(captured.nodes))
        if 0 < len(find_dependents(captured, [node])) < len(captured.nodes) - 2
    )
    after = find_dependents(captured, [branch])
    assert branch not in after
    assert all(edge.target in after for edge in captured.edges if edge.source in after | {branch})
    assert all(
        any(edge.source in after | {branch} for edge in captured.edges if edge.target == node)
        for node in after
    )


def test_a_scalar_names_the_node_without_hashes(graph: ExpandedGraph) -> None:
    from graphviz_dash.analysis.replay_check import find_wrong_operator
    from graphviz_dash.narrative.replay_check import list_fault_facts

    values = make_values(graph, make_difference(operator=5), facts=(make_fact(FactKind.SCALAR, 5),))
    wrong = find_wrong_operator(values)
    assert wrong is not None
    assert ("Graph node", "10") in list_fault_facts(wrong)
