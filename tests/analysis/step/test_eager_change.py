"""Each node of a graph beside the eager work in its place, and by the line that launched it."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.analysis.comparison.compare import compare
from graphviz_dash.analysis.nodes.source_lines import source_lines
from graphviz_dash.analysis.nodes.whole_graph import WholeGraph, whole_graph
from graphviz_dash.analysis.step.eager_change import EagerChange, EagerCounterpart, eager_changes
from graphviz_dash.analysis.step.work_pairs import PairKind, WorkPairs
from graphviz_dash.ingest.load import load_experiment, load_run


def paired(name: str) -> tuple[WorkPairs, WholeGraph]:
    experiment = load_experiment(Path("sample_traces") / name)
    found = compare(experiment)["graph"].waterfall
    assert found is not None
    run = next(run for run in experiment.runs if run.name == "graph")
    return found.pairs, whole_graph(run, "graph-0")


@pytest.mark.parametrize("name", ["mlp-train", "transformer-train"])
def test_every_node_of_a_recorded_step_is_compared(name: str) -> None:
    pairs, whole = paired(name)
    found = eager_changes(pairs, whole)
    assert sorted(found) == list(range(len(whole.owner)))
    same = [row for row in pairs.rows if row.kind is PairKind.SAME and row.after]
    told = (EagerChange.FASTER, EagerChange.ALIKE, EagerChange.SLOWER)
    assert sum(one.change in told for one in found.values()) == sum(len(row.after) for row in same)
    for one in found.values():
        check(one)


def check(one: EagerCounterpart) -> None:
    match one.change:
        case EagerChange.FASTER:
            assert one.eager_ns is not None
            assert one.graph_ns < 0.9 * one.eager_ns
        case EagerChange.SLOWER:
            assert one.eager_ns is not None
            assert one.graph_ns > 1.1 * one.eager_ns
        case EagerChange.ALIKE:
            assert one.eager_ns is not None
            assert 0.9 * one.eager_ns <= one.graph_ns <= 1.1 * one.eager_ns
        case EagerChange.ADDED:
            assert one.eager_ns is None
        case _:
            assert one.names


def test_source_lines_hold_every_attributed_node_once() -> None:
    whole = whole_graph(load_run(Path("sample_traces/fork-join/graph")), "graph-0")
    lines = source_lines(whole)
    assert sum(line.nodes for line in lines) == sum(
        row.origin.source is not None for row in whole.table.rows
    )
    assert [line.work_ns for line in lines] == sorted(
        (line.work_ns for line in lines), reverse=True
    )
    (tanh,) = [line for line in lines if line.source.endswith("fork_join.py:26")]
    rows = [row for row in whole.table.rows if row.origin.source == tanh.source]
    assert tanh.work_ns == sum(row.times.median_ns or 0 for row in rows)
    assert 0 < sum(line.share for line in lines) <= 1 + 1e-9
