from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph, expand_graph
from graphviz_dash.analysis.step_comparison.eager_change import (
    EagerChange,
    EagerCounterpart,
    find_eager_changes,
)
from graphviz_dash.analysis.step_comparison.waterfall import Waterfall
from graphviz_dash.analysis.step_comparison.work_pairs import PairKind, WorkPairs
from graphviz_dash.ingest.load import load_experiment


def paired(name: str) -> tuple[WorkPairs, ExpandedGraph]:
    experiment = load_experiment(Path("sample_traces") / name)
    found = compare_runs(experiment)["graph"].waterfall
    assert isinstance(found, Waterfall)
    run = next(run for run in experiment.runs if run.name == "graph")
    return found.pairs, expand_graph(run, "graph-0")


@pytest.mark.parametrize("name", ["mlp-train", "transformer-train"])
def test_every_node_of_a_recorded_step_is_compared(name: str) -> None:
    pairs, whole = paired(name)
    found = find_eager_changes(pairs, whole)
    assert sorted(found) == list(range(len(whole.owners)))
    same = [row for row in pairs.rows if row.kind is PairKind.SAME and row.after]
    told = (EagerChange.FASTER, EagerChange.SIMILAR, EagerChange.SLOWER)
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
        case EagerChange.SIMILAR:
            assert one.eager_ns is not None
            assert 0.9 * one.eager_ns <= one.graph_ns <= 1.1 * one.eager_ns
        case EagerChange.ADDED:
            assert one.eager_ns is None
        case _:
            assert one.names
