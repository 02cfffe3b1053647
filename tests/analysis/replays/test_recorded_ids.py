"""What cupti-python recorded on an H200 (driver 580): ids against alignment, and against the graph.

The bundles in tests/cases/node-ids are of ``collect --node-ids``; they hold the graphs and the
node-id pass only.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphviz_dash.analysis.replays.alignment_accuracy import (
    GOAL_FORK_JOIN,
    GOAL_LINE,
    measure_agreement,
)
from graphviz_dash.analysis.replays.matching import TURN_CONFIDENCE
from graphviz_dash.analysis.replays.replays import BY_ID, METHODS, find_launch_order, match_node_ids
from graphviz_dash.ingest.load import load_run

CASES = Path(__file__).parents[2] / "cases" / "node-ids"
NAMES = sorted(path.name for path in CASES.iterdir())


def test_there_are_cases() -> None:
    assert {"fork-join-graph", "fork-join-partial"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_record_names_a_node_that_it_looks_like(name: str) -> None:
    run = load_run(CASES / name)
    found = match_node_ids(run)
    assert found is not None
    assert run.node_ids is not None
    assert found.matched_count == len(run.node_ids.rows)
    assert {METHODS[code] for code in found.method} == {BY_ID}
    assert set(found.confidence.tolist()) == {1.0}
    for one in run.node_ids.graphs:
        assert one.nodes == tuple(range(len(one.nodes)))


@pytest.mark.parametrize("name", NAMES)
def test_alignment_without_ids_reaches_its_goal(name: str) -> None:
    found = measure_agreement(load_run(CASES / name))
    assert found is not None
    assert found.unnamed == 0
    assert found.share is not None
    assert found.share >= (GOAL_FORK_JOIN if found.fork_join else GOAL_LINE)


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("partial")])
def test_a_step_launches_graphs_in_the_order_of_their_captures(name: str) -> None:
    run = load_run(CASES / name)
    order = find_launch_order(run.node_ids)
    assert order == tuple(graph.id for graph in run.graphs if graph.parent is None)
    found = measure_agreement(run)
    assert found is not None
    assert min(found.by_confidence) == TURN_CONFIDENCE


def test_branches_run_on_streams_that_rise_with_their_creation() -> None:
    run = load_run(CASES / "fork-join-graph")
    found = match_node_ids(run)
    assert found is not None
    first = {}
    for node, stream in zip(found.node.tolist(), found.stream.tolist(), strict=True):
        first[stream] = min(node, first.get(stream, node))
    assert len(first) == 3
    assert [first[stream] for stream in sorted(first)] == sorted(first.values())
    # The streams are the same in every replay.
    for node in np.unique(found.node).tolist():
        assert len(set(found.stream[found.get_node_rows("graph-0", node)].tolist())) == 1
