from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.graph.flatten import VISIBLE_KINDS
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph, expand_graph
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.graph import NodeKind
from graphviz_dash.model.run import Experiment
from graphviz_dash.narrative.low_confidence import describe_low_confidence


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return load_experiment(Path("sample_traces/all-nodes"))


@pytest.fixture(scope="module")
def whole(experiment: Experiment) -> ExpandedGraph:
    return expand_graph(experiment.runs[1], "graph-0")


@pytest.fixture(scope="module")
def compared(experiment: Experiment) -> Comparison:
    return compare_runs(experiment)


def test_every_kind_is_in_it(whole: ExpandedGraph) -> None:
    assert {row.node.kind for row in whole.table.rows} == set(NodeKind)


def test_every_row_of_every_replay_is_a_node(whole: ExpandedGraph) -> None:
    table = whole.table
    assert table.matched_kernels == table.replay_kernels > 0
    confidences = {row.times.confidence for row in table.rows if row.times.samples}
    assert confidences == {1.0}


def test_a_node_has_times_or_the_reason_why_not(whole: ExpandedGraph) -> None:
    for row in whole.table.rows:
        if row.node.kind in VISIBLE_KINDS:
            assert row.times.samples, row.node
        else:
            assert row.times.samples == 0
            assert row.times.note, row.node
        assert row.origin.op is None
        assert row.origin.reason


def test_bodies_ran_as_often_as_their_conditions_said(whole: ExpandedGraph) -> None:
    replays = whole.table.replays
    ran = Counter({row.node.label: row.times.samples for row in whole.table.rows})
    assert ran["lift"] + ran["lower"] == replays
    assert abs(ran["lift"] - ran["lower"]) <= 1
    assert ran["relax"] == ran["again"] == replays
    # Of four steps the Switch runs a case each in three.
    for case in ("square", "reflect"):
        assert replays // 4 <= ran[case] <= replays // 4 + 1


def test_a_while_loop_lowers_the_confidence(compared: Comparison) -> None:
    weak = {note.code: note for note in describe_low_confidence(compared["graph"].low_confidence)}
    assert "1 While node" in weak["loops"].text
    assert "gpu_busy" in weak["loops"].metrics
    eager = describe_low_confidence(compared["eager"].low_confidence)
    assert "loops" not in {note.code for note in eager}


def test_unmeasured_costs_have_a_reason(experiment: Experiment) -> None:
    absent = {one.fact: one.reason for one in experiment.runs[1].manifest.absent}
    assert set(absent) == {"upload_ns of graph-0", "first launch on the GPU of graph-0"}
    assert all("allocates memory" in reason for reason in absent.values())
