from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.analysis.graph.critical_path import (
    CriticalPath,
    Dependencies,
    compute_stream_schedules,
    find_critical_path,
    simulate_schedule,
)


def _edges(*pairs: tuple[int, int]) -> np.ndarray:  # type: ignore[type-arg]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _found(duration: list[int], *pairs: tuple[int, int]) -> tuple[Dependencies, CriticalPath]:
    depend = Dependencies.from_edges(len(duration), _edges(*pairs))
    return depend, find_critical_path(depend, np.array(duration, dtype=np.int64))


DIAMOND = ((0, 1), (0, 2), (1, 3), (2, 3))


def test_the_path_goes_through_the_longer_branch() -> None:
    _, found = _found([5, 10, 3, 2], *DIAMOND)
    assert found.nodes == (0, 1, 3)
    assert found.length == 17
    assert found.slack.tolist() == [0, 0, 7, 0]
    assert found.earliest.tolist() == [0, 5, 5, 15]


def test_a_node_that_takes_no_time_is_passed_through() -> None:
    _, found = _found([5, 0, 3], (0, 1), (1, 2))
    assert found.length == 8
    assert found.nodes == (0, 1, 2)


def test_edges_may_lead_to_lower_numbers() -> None:
    _, found = _found([2, 10, 5], (2, 1), (1, 0))
    assert found.nodes == (2, 1, 0)
    assert found.slack.tolist() == [0, 0, 0]


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="cycle"):
        Dependencies.from_edges(2, _edges((0, 1), (1, 0)))


def test_nothing_has_no_path() -> None:
    _, found = _found([])
    assert found.nodes == ()
    assert found.length == 0


def test_two_streams_are_enough_for_a_diamond() -> None:
    depend, found = _found([5, 10, 3, 2], *DIAMOND)
    duration = np.array([5, 10, 3, 2])
    lengths = [
        (one.streams, one.length) for one in compute_stream_schedules(depend, duration, found)
    ]
    assert lengths == [(1, 20), (2, 17)]


def test_a_line_needs_one() -> None:
    depend, found = _found([5, 10], (0, 1))
    assert [one.streams for one in compute_stream_schedules(depend, np.array([5, 10]), found)] == [
        1
    ]


def test_independent_nodes_need_as_many_streams_as_they_are() -> None:
    depend, found = _found([7] * 9)
    shown = compute_stream_schedules(depend, np.full(9, 7), found)
    assert (shown[-1].streams, shown[-1].length) == (9, 7)
    assert shown[0].length == 63


@st.composite
def _graphs(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]]]:
    count = draw(st.integers(1, 9))
    duration = draw(st.lists(st.integers(0, 50), min_size=count, max_size=count))
    possible = list(itertools.combinations(range(count), 2))
    chosen = draw(st.lists(st.sampled_from(possible), unique=True)) if possible else []
    return duration, chosen


@settings(max_examples=100, deadline=None)
@given(_graphs())
def test_it_is_the_longest_of_all_paths(made: tuple[list[int], list[tuple[int, int]]]) -> None:
    duration, pairs = made
    _, found = _found(duration, *pairs)
    after = {node: [b for a, b in pairs if a == node] for node in range(len(duration))}

    def longest(node: int) -> int:
        return duration[node] + max((longest(one) for one in after[node]), default=0)

    assert found.length == max(longest(node) for node in range(len(duration)))
    assert sum(duration[node] for node in found.nodes) == found.length
    assert all(pair in pairs for pair in itertools.pairwise(found.nodes))
    assert all(found.slack[node] == 0 for node in found.nodes)


@settings(max_examples=60, deadline=None)
@given(_graphs())
def test_slack_is_what_a_node_can_grow_by(made: tuple[list[int], list[tuple[int, int]]]) -> None:
    duration, pairs = made
    _, found = _found(duration, *pairs)
    for node in range(len(duration)):
        slack = int(found.slack[node])
        grown = duration.copy()
        grown[node] += slack
        assert _found(grown, *pairs)[1].length == found.length
        grown[node] += 1
        assert _found(grown, *pairs)[1].length == found.length + 1


@settings(max_examples=60, deadline=None)
@given(_graphs(), st.integers(1, 4))
def test_a_schedule_keeps_its_bounds(
    made: tuple[list[int], list[tuple[int, int]]], streams: int
) -> None:
    duration, pairs = made
    depend, found = _found(duration, *pairs)
    length = simulate_schedule(depend, np.array(duration), found, streams).length
    work = sum(duration)
    assert max(found.length, -(-work // streams)) <= length
    # Graham (1969).
    assert length <= found.length + (work - found.length) * (streams - 1) / streams + work / streams
    assert compute_stream_schedules(depend, np.array(duration), found)[-1].length == found.length
