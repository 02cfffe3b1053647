from __future__ import annotations

import itertools

import numpy as np
import pytest

from graphviz_dash.features.ladder.analysis import budget_search
from graphviz_dash.features.ladder.analysis.ladder_problem import (
    Budget,
    LadderCost,
    LadderProblem,
    compute_ladder_cost,
)
from graphviz_dash.features.ladder.analysis.ladder_search import (
    find_best_ladder,
    find_ladders_by_count,
)

CASES = 300


def problem(
    sizes: list[int], replay: list[float], requests: dict[int, float], fallback: float = np.inf
) -> LadderProblem:
    """Sizes that take ``replay`` each, and how often each request comes."""
    count = len(sizes)
    return LadderProblem(
        np.array(sizes),
        np.array(replay),
        np.ones(count),
        np.arange(count, dtype=float),
        np.full(count, 5.0),
        np.array(list(requests)),
        np.array(list(requests.values())),
        np.full(len(requests), fallback),
    )


def random_case(draw: np.random.Generator) -> tuple[LadderProblem, Budget]:
    """A small problem, and a budget on some of count, memory and start-up."""
    count, asked = draw.integers(1, 9, size=2)
    replay = draw.integers(1, 50, count).astype(float)
    unknown = draw.random() < 0.3
    case = LadderProblem(
        sizes=np.sort(draw.choice(np.arange(1, 30), count, replace=False)),
        replay_ns=np.sort(replay) if draw.random() < 0.5 else replay,
        exclusive_bytes=draw.integers(0, 20, count).astype(float),
        pool_bytes=np.maximum.accumulate(draw.integers(0, 40, count)).astype(float),
        startup_ns=draw.integers(0, 20, count).astype(float),
        requests=np.sort(draw.choice(np.arange(1, 36), asked, replace=False)),
        counts=draw.integers(0, 20, asked).astype(float),
        fallback_ns=np.full(asked, np.inf)
        if unknown
        else draw.integers(1, 200, asked).astype(float),
    )
    graphs, memory, startup = (
        None if draw.random() < 0.4 else int(draw.integers(0, most)) for most in (6, 90, 60)
    )
    return case, Budget(graphs, memory, startup)


def within(use: LadderCost, count: int, budget: Budget) -> bool:
    return (
        (budget.graphs is None or count <= budget.graphs)
        and (budget.memory_bytes is None or use.memory_bytes <= budget.memory_bytes)
        and (budget.startup_ns is None or use.startup_ns <= budget.startup_ns)
    )


def test_no_ladder_is_better() -> None:
    draw = np.random.default_rng(20_261_123)
    unreachable = 0
    for _ in range(CASES):
        case, budget = random_case(draw)
        sizes = case.sizes.tolist()
        uses = [
            use.total_ns
            for count in range(len(sizes) + 1)
            for chosen in itertools.combinations(sizes, count)
            if within(use := compute_ladder_cost(case, chosen), count, budget)
        ]
        least = min(uses, default=np.inf)
        ladder = find_best_ladder(case, budget)
        if ladder is None:
            unreachable += 1
            assert least == np.inf
            continue
        use = compute_ladder_cost(case, ladder.sizes)
        assert within(use, len(ladder.sizes), budget)
        assert ladder.is_best
        assert ladder.total_ns == pytest.approx(least)
        assert use.total_ns == pytest.approx(least)
    assert 0 < unreachable < CASES / 2


def test_the_bound_holds_where_the_search_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(7)
    count = 60
    case = LadderProblem(
        sizes=np.arange(1, count + 1),
        replay_ns=100 + np.arange(count) + draw.normal(0, 3, count),
        exclusive_bytes=draw.uniform(1, 10, count),
        pool_bytes=np.zeros(count),
        startup_ns=draw.uniform(1, 10, count),
        requests=np.arange(1, count + 1),
        counts=draw.uniform(1, 5, count),
        fallback_ns=np.full(count, 1_000.0),
    )
    budget = Budget(None, 40, 40)
    best = find_best_ladder(case, budget)
    monkeypatch.setattr(budget_search, "_MAX_LABELS", 20)
    early = find_best_ladder(case, budget)
    assert best is not None
    assert early is not None
    assert best.is_best
    assert early.bound_ns <= best.total_ns <= early.total_ns


def test_each_request_is_padded_to_the_next_size() -> None:
    use = compute_ladder_cost(
        problem([2, 4], [20, 40], {1: 3, 2: 1, 3: 2, 5: 1}, fallback=900), (2, 4)
    )
    assert use.total_ns == 4 * 20 + 2 * 40 + 900
    # A graph for 1 would take as long as that of the smallest size; one for 3 is halfway.
    assert use.padding_ns == 2 * (40 - 30)
    assert (use.fallbacks, use.fallback_ns) == (1, 900)
    assert (use.memory_bytes, use.startup_ns) == (1 + 1 + 1, 10)


def test_a_slow_size_is_passed_over() -> None:
    ladder = find_best_ladder(problem([1, 2, 3], [10, 90, 30], {1: 1, 2: 1, 3: 1}), Budget())
    assert ladder is not None
    assert ladder.sizes == (1, 3)


def test_by_count() -> None:
    case = problem([1, 2, 3], [10, 20, 30], {1: 1, 2: 1, 3: 1}, fallback=100)
    counted = find_ladders_by_count(case, 9)
    assert [len(places) for places in counted.places] == [0, 1, 2, 3]
    assert counted.totals_ns == (300, 90, 70, 60)
    # Those of fewer graphs are the same as if only these had been searched for.
    fewer = counted.select_up_to(1)
    assert (fewer.max_count, fewer.totals_ns) == (1, find_ladders_by_count(case, 1).totals_ns)
    assert find_best_ladder(case, Budget(graphs=2), counted) == find_best_ladder(
        case, Budget(graphs=2)
    )


def test_no_ladder_reaches_what_cannot_fall_back() -> None:
    case = problem([1, 2], [10, 20], {1: 1, 2: 1})
    assert find_best_ladder(case, Budget(graphs=0)) is None
    assert find_best_ladder(case, Budget(memory_bytes=1)) is None
    assert find_best_ladder(problem([1, 2], [10, 20], {3: 1}), Budget()) is None
