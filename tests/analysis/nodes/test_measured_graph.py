from __future__ import annotations

import pytest

from graphviz_dash.analysis.nodes.measured_graph import UNTRACED, measure_graph
from graphviz_dash.analysis.replays.replays import match_replays
from graphviz_dash.model.absence import Fact, Missing
from tests.analysis.forks import FORK, add_replay, measured_fork, measured_over
from tests.analysis.scenes import Scene


def test_times_path_and_slack() -> None:
    found = measured_fork()
    assert found.replays == 3
    assert found.p50.tolist() == [10, 40, 20, UNTRACED, 10]
    assert found.path.nodes == (0, 1, 4)
    assert found.path.length == 60
    assert found.slack.tolist() == [0, 0, 20, UNTRACED, 0]
    assert found.work_ns == 80
    assert found.span_ns == 72
    assert found.available_concurrency == pytest.approx(80 / 60)
    assert found.streams == 2
    assert [(one.streams, one.length) for one in found.schedules] == [(1, 80), (2, 60)]


def test_gaps_and_what_is_lost() -> None:
    found = measured_fork()
    gaps = {(edge.source, edge.target): (edge.gap_ns, edge.lost_ns) for edge in found.edges}
    # The join waits for the longer branch: what lies between it and the shorter one is not lost.
    assert gaps == {(0, 1): (5, 5), (0, 2): (2, 2), (1, 4): (7, 7), (2, 4): (30, 0)}
    assert found.lost_ns == 12


def test_busy_time_counts_overlaps_once() -> None:
    found = measured_fork()
    # 10 for the first, 43 from 22 to 65, 10 for the last.
    assert found.busy_ns == 63
    assert found.achieved_concurrency == pytest.approx(80 / 63)


def test_a_replay_that_lacks_a_node_is_left_out() -> None:
    scene = Scene()
    whole = {0: (10, 10, 7), 1: (25, 40, 7), 2: (22, 20, 9), 4: (70, 10, 7)}
    for start in (1000, 2000, 3000):
        add_replay(scene, start, whole)
    add_replay(scene, 4000, {node: one for node, one in whole.items() if node != 2})
    found = measured_over(FORK, scene)
    assert found.replays == 3


def test_without_replays_it_says_so() -> None:
    said = measure_graph(FORK, (FORK,), None)
    assert said == Missing(Fact.NODE_TIMES, "there is no trace of replays")
    found = measure_graph(FORK, (FORK,), match_replays((FORK,), Scene().trace()))
    assert found == Missing(Fact.NODE_TIMES, "the trace has no replay of this graph")
