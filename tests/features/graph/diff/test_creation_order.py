from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from graphviz_dash.features.graph.diff.creation_order import (
    compute_hidden_copy_share,
    find_order_effects,
)
from graphviz_dash.features.graph.diff_narrative import describe_order_effect
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.graph import CapturedGraph, GraphEdge
from graphviz_dash.model.run import Experiment

SAMPLE = Path("sample_traces/creation-order")


@pytest.fixture(scope="module")
def recorded() -> Experiment:
    return load_experiment(SAMPLE)


def test_the_sample_shows_the_effect(recorded: Experiment) -> None:
    (effect,) = find_order_effects(recorded)
    assert (effect.slower, effect.faster) == ("longest-copy-first", "shortest-copy-first")
    before, after = effect.step_ns
    assert after < 0.75 * before
    assert effect.hidden_copy_shares is not None
    least, most = effect.hidden_copy_shares
    assert least < 0.5 < most
    assert "same graph, created in a different order" in describe_order_effect(effect)


def test_hidden_time_is_what_copies_and_kernels_share(recorded: Experiment) -> None:
    # Between the sum of all work and the time in which anything ran lies what ran at once.
    for run in recorded.runs:
        share = compute_hidden_copy_share(run)
        assert share is not None
        assert 0 <= share <= 1
        assert compute_hidden_copy_share(replace(run, replay_trace=None)) is None


def _with(recorded: Experiment, graph: CapturedGraph) -> Experiment:
    eager, first, second = recorded.runs
    return replace(recorded, runs=(eager, first, replace(second, graphs=(graph,))))


def test_a_graph_that_differs_in_more_is_not_one_created_otherwise(recorded: Experiment) -> None:
    graph = recorded.runs[2].graphs[0]
    other = msgspec.structs.replace(graph, edges=(*graph.edges[1:], GraphEdge(0, 2)))
    assert find_order_effects(_with(recorded, other)) == ()


def test_the_same_order_has_no_effect(recorded: Experiment) -> None:
    same = _with(recorded, recorded.runs[1].graphs[0])
    assert find_order_effects(same) == ()
