from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphviz_dash.planning.operations import Operation
from graphviz_dash.planning.simulation import Wait, simulate


def run(
    duration: list[float],
    cost: list[float],
    before: list[list[int]],
    demand: list[float],
    engines: list[int] | None = None,
) -> tuple[float, list[int], float]:
    engine = [0] * len(duration) if engines is None else engines
    operations = [
        Operation(takes, share, engine=which)
        for takes, share, which in zip(duration, demand, engine, strict=True)
    ]
    waits: list[list[Wait]] = [
        [(source, delay) for source in sources] for sources, delay in zip(before, cost, strict=True)
    ]
    schedule = simulate(operations, waits)
    return schedule.total_ns, list(schedule.critical_path), schedule.slowed_ns


def test_a_line_is_its_work_and_what_passes_between() -> None:
    before: list[list[int]] = [[], [0], [1]]
    assert run([10, 20, 30], [5, 1, 2], before, [1, 1, 1]) == (63, [0, 1, 2], 0)


def test_branches_that_fit_run_at_once() -> None:
    before: list[list[int]] = [[], [0], [0], [1, 2]]
    total, path, slowed = run([10, 20, 50, 10], [0, 1, 1, 2], before, [1, 0.4, 0.5, 1])
    assert (total, path, slowed) == (73, [0, 2, 3], 0)


def test_branches_that_want_too_much_slow_each_other_down() -> None:
    # Each wants all of the GPU: 20 and 50 take turns, 40 until the first is done, and 30 more.
    before: list[list[int]] = [[], []]
    total, path, slowed = run([20, 50], [0, 0], before, [1, 1])
    assert (total, path, slowed) == (70, [1], 20)


def test_a_small_kernel_beside_large_ones_is_not_slowed() -> None:
    # Of what the small one leaves, 0.8, each of the large ones has half.
    total, path, slowed = run([20, 40, 40], [0, 0, 0], [[], [], []], [0.2, 1, 1])
    # In the first 20 each large one does 8; then they have all: 64 left to share.
    assert (total, slowed) == (84, 44)
    assert run([20, 1000], [0, 0], [[], []], [0.2, 1])[0] == pytest.approx(1004)
    assert 0 not in path


def test_copies_ask_for_nothing() -> None:
    assert run([20, 50], [0, 0], [[], []], [1, 0])[0] == 50


def test_work_on_different_engines_shares_nothing() -> None:
    assert run([20, 50], [0, 0], [[], []], [1, 1], [1, 0])[0] == 50
    assert run([20, 50], [0, 0], [[], []], [1, 1], [1, 1])[0] == 70


def test_nothing_takes_nothing() -> None:
    assert run([], [], [], []) == (0, [], 0)


def test_launches_come_one_after_another() -> None:
    operations = [Operation(10, 0.1), Operation(10, 0.1, nodes=3), Operation(10, 0.1)]
    schedule = simulate(operations, [[], [], []], issue_ns=4)
    assert schedule.start == (0, 4, 16)
    assert schedule.total_ns == 26


def test_kernels_beside_each_other_take_longer() -> None:
    # The first begins alone, the copy is of no concern to it, and the last begins when all is done.
    operations = [Operation(10, 0.1), Operation(10, 0.1), Operation(20, 1, engine=1)]
    operations.append(Operation(10, 0.1, dependencies=(0, 1, 2)))
    waits: list[list[Wait]] = [[], [], [], [(0, 0), (1, 0), (2, 0)]]
    begins_later = simulate(operations, waits, start_ns=3)
    assert begins_later.end == (10, 13, 20, 30)
    slower = simulate(operations, waits, contention=0.5)
    assert slower.end == (15, 15, 20, 30)


def test_an_operation_without_nodes_costs_no_time() -> None:
    operations = [Operation(10, 1), Operation(99, 1, nodes=0), Operation(10, 1)]
    schedule = simulate(operations, [[], [], [(0, 2)]])
    assert (schedule.total_ns, schedule.critical_path) == (22, (0, 2))


@st.composite
def dags(draw: st.DrawFn) -> tuple[list[float], list[float], list[list[int]]]:
    count = draw(st.integers(1, 9))
    times = st.lists(st.integers(1, 50), min_size=count, max_size=count)
    duration, cost = draw(times), draw(times)
    before = [
        sorted(draw(st.sets(st.integers(0, index - 1), max_size=3))) if index else []
        for index in range(count)
    ]
    roots = [float(value) if sources else 0.0 for sources, value in zip(before, cost, strict=True)]
    return [float(value) for value in duration], roots, before


@given(dags())
def test_without_sharing_it_is_the_longest_way(
    dag: tuple[list[float], list[float], list[list[int]]],
) -> None:
    duration, cost, before = dag
    ends: list[float] = []
    for index, sources in enumerate(before):
        ends.append(
            max((ends[source] for source in sources), default=0.0) + cost[index] + duration[index]
        )
    total, path, slowed = run(duration, cost, before, [0.0] * len(duration))
    assert total == pytest.approx(max(ends))
    assert slowed == pytest.approx(0)
    assert sum(duration[index] + cost[index] for index in path) == pytest.approx(total)


@given(dags(), st.lists(st.floats(0.1, 1.0), min_size=9, max_size=9))
def test_sharing_lies_between_all_at_once_and_one_by_one(
    dag: tuple[list[float], list[float], list[list[int]]], shares: list[float]
) -> None:
    duration, cost, before = dag
    demand = shares[: len(duration)]
    total, path, slowed = run(duration, cost, before, demand)
    free, _, _ = run(duration, cost, before, [0.0] * len(duration))
    assert total >= free - 1e-6
    assert total <= sum(duration) + sum(cost) + 1e-6
    parts = sum(duration[index] + cost[index] for index in path) + slowed
    assert parts == pytest.approx(total)
