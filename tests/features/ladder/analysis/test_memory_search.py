"""Searches by simulated memory agree with a comparison of all sets."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from itertools import chain, combinations
from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.memory.captured_pools import FamilyPool, build_family_pool
from graphviz_dash.features.ladder.analysis import memory_search
from graphviz_dash.features.ladder.analysis.ladder_data import LadderData, SizeCosts
from graphviz_dash.features.ladder.analysis.ladder_problem import (
    Budget,
    LadderProblem,
    compute_ladder_cost,
    find_padded_places,
    find_places,
)
from graphviz_dash.features.ladder.analysis.ladder_search import find_best_ladder
from graphviz_dash.features.ladder.analysis.set_memory import SetMemory
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.ledger import Ledger
from graphviz_dash.model.loop import ProgramLoop
from tests.captured_pools import Program, record
from tests.loops import make_server

CASES = Path(__file__).parents[3] / "cases" / "pools"
SIZES = (8, 16, 24, 32, 48)
KIB = 1 << 10
MIB = 1 << 20


def build_pool(folder: Path, unit: int) -> FamilyPool:
    program = Program(unit).capture(SIZES[::-1])
    pool = build_family_pool(record(make_server(folder, sizes=SIZES), program), 0)
    assert isinstance(pool, FamilyPool)
    return pool


def reverse_sizes(pool: FamilyPool) -> FamilyPool:
    """The same captures, of sizes that rise."""
    captures = tuple(replace(c, key=(c.key[0], 56 - c.key[1])) for c in pool.captures)
    return replace(pool, captures=captures)


def read_engine_pool(folder: Path, engine: str, family: str) -> FamilyPool:
    """The pool of an engine on an H200, which may contain other families."""

    def read(part: str) -> bytes:
        return gzip.decompress((CASES / f"{engine}-{part}.json.gz").read_bytes())

    loop = msgspec.json.decode(read("loop"), type=ProgramLoop)
    ledger = msgspec.json.decode(read("ledger"), type=Ledger)
    run = replace(load_run(make_server(folder), traces=False), loop=loop, ledger=ledger)
    pool = build_family_pool(run, [each.name for each in loop.families].index(family))
    assert isinstance(pool, FamilyPool)
    return pool


def list_sizes(pool: FamilyPool) -> list[int]:
    return sorted(c.key[1] for c in pool.captures if c.key[0] == pool.family)


def make_memory(pool: FamilyPool, draw: np.random.Generator) -> SetMemory:
    captured = tuple(
        SizeCosts(size, 0.0, 0.0, 0.0, float(draw.integers(0, 900) * KIB))
        for size in list_sizes(pool)
    )
    empty: Ints = np.zeros(0, dtype=np.int64)
    return SetMemory(LadderData(captured, (), empty, empty, np.zeros(0), None, pool=pool))


def make_problem(sizes: list[int], draw: np.random.Generator) -> LadderProblem:
    """A problem whose extrapolated memory is wrong."""
    count, kinds = len(sizes), int(draw.integers(2, 9))
    replay_ns = draw.integers(10, 90, count).astype(float)
    requests = np.sort(draw.choice(np.arange(1, sizes[-1] + 6), kinds, replace=False))
    known = draw.random() < 0.7
    return LadderProblem(
        sizes=np.array(sizes),
        replay_ns=np.sort(replay_ns) if draw.random() < 0.7 else replay_ns,
        exclusive_bytes=draw.integers(0, 3, count) * float(MIB),
        pool_bytes=np.maximum.accumulate(draw.integers(0, 60, count) * float(MIB)),
        startup_ns=draw.integers(0, 20, count).astype(float),
        requests=requests,
        counts=draw.integers(1, 20, kinds).astype(float),
        fallback_ns=draw.integers(60, 300, kinds).astype(float)
        if known
        else np.full(kinds, np.inf),
    )


def generate_sets(problem: LadderProblem) -> Iterator[tuple[int, ...]]:
    """Sets whose sizes all serve a request."""
    sizes = problem.sizes.tolist()
    for chosen in chain.from_iterable(combinations(sizes, n) for n in range(len(sizes) + 1)):
        places = find_padded_places(problem, find_places(problem, chosen))
        if len({*places.tolist()} - {-1}) == len(chosen):
            yield chosen


def check(
    problem: LadderProblem, memory: SetMemory, draw: np.random.Generator, budgets: int
) -> tuple[int, int]:
    """Compare the search with all sets. Return how often the limit of memory mattered, and how
    often the sum would have exceeded it or missed the best set."""
    sets = list(generate_sets(problem))
    amounts = {sizes: memory.predict(sizes) for sizes in sets}
    costs = {sizes: compute_ladder_cost(problem, sizes) for sizes in sets}
    known = [amount for amount in amounts.values() if amount is not None]
    matters = wrong = 0
    for limit in draw.choice(known, budgets) + draw.integers(-1, 2, budgets):
        graphs, startup = (
            None if draw.random() < 0.5 else int(draw.integers(0, most)) for most in (6, 60)
        )
        allowed = {
            sizes: cost.total_ns
            for sizes, cost in costs.items()
            if (graphs is None or len(sizes) <= graphs)
            and (startup is None or cost.startup_ns <= startup)
        }
        budget = Budget(graphs, max(int(limit), 0), startup)
        fitting = {
            sizes: total
            for sizes, total in allowed.items()
            if (amount := amounts[sizes]) is not None and amount <= max(int(limit), 0)
        }
        best = min(fitting.values(), default=np.inf)
        ladder = find_best_ladder(problem, budget, None, memory)
        if np.isfinite(best):
            assert ladder is not None
            assert ladder.is_best
            assert ladder.sizes in fitting
            assert ladder.total_ns == pytest.approx(best)
        else:
            assert ladder is None
        by_sum = find_best_ladder(problem, budget)
        matters += best > min(allowed.values())
        wrong += (np.inf if by_sum is None else fitting.get(by_sum.sizes, -1.0)) != best
    return matters, wrong


@pytest.mark.parametrize("unit", [300, 700, KIB, 2 * KIB])
@pytest.mark.parametrize("is_rising", [False, True])
def test_no_set_within_the_memory_is_faster(tmp_path: Path, unit: int, is_rising: bool) -> None:
    draw = np.random.default_rng(unit)
    pool = build_pool(tmp_path, unit)
    pool = reverse_sizes(pool) if is_rising else pool
    matters = wrong = 0
    for _ in range(4):
        others = draw.choice([4, 12, 20, 36, 44, 52], 2, replace=False).tolist()
        problem = make_problem(sorted({*list_sizes(pool), *others}), draw)
        counts = check(problem, make_memory(pool, draw), draw, 12)
        matters, wrong = matters + counts[0], wrong + counts[1]
    assert matters
    assert wrong


@pytest.mark.parametrize(
    ("engine", "family"),
    [("sglang", "decode"), ("sglang", "prefill"), ("vllm", "piecewise"), ("vllm", "full decode")],
)
def test_sets_of_engines_are_the_fastest_within_the_memory(
    tmp_path: Path, engine: str, family: str
) -> None:
    draw = np.random.default_rng(20_261_128)
    pool = read_engine_pool(tmp_path, engine, family)
    largest = list_sizes(pool)[-1]
    sizes = sorted({1, largest // 5, largest // 3, largest // 2, largest - 1, largest})
    matters, _ = check(make_problem(sizes, draw), make_memory(pool, draw), draw, 30)
    assert matters


def test_an_early_end_returns_a_set_within_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(5)
    pool = build_pool(tmp_path, KIB)
    memory, sizes = make_memory(pool, draw), [4, *SIZES]
    problem = replace(make_problem(sizes, draw), fallback_ns=np.full(8, 300.0))
    problem = replace(
        problem, requests=np.arange(8, 56, 6), counts=np.ones(8), replay_ns=np.arange(6.0) + 9
    )
    limit = round(0.9 * (memory.predict(sizes) or 0))
    best = find_best_ladder(problem, Budget(memory_bytes=limit), None, memory)
    monkeypatch.setattr(memory_search, "_MAX_CAPTURES", 2)
    early = find_best_ladder(problem, Budget(memory_bytes=limit), None, memory)
    assert best is not None
    assert early is not None
    assert not early.is_best
    assert early.bound_ns <= best.total_ns < early.total_ns
    assert (memory.predict(early.sizes) or 0) <= limit


def test_an_early_end_among_many_sizes_is_close_to_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_search, "_MAX_CAPTURES", 100)
    draw = np.random.default_rng(3)
    pool = build_pool(tmp_path, KIB)
    memory, count = make_memory(pool, draw), 48
    problem = LadderProblem(
        sizes=np.arange(count) + 1,
        replay_ns=100 + np.arange(count) + draw.random(count),
        exclusive_bytes=np.full(count, 1e5),
        pool_bytes=np.full(count, 1e7),
        startup_ns=np.full(count, 10.0),
        requests=np.arange(count) + 1,
        counts=draw.integers(1, 30, count).astype(float),
        fallback_ns=np.full(count, 400.0),
    )
    limit = round(0.8 * (memory.predict(SIZES) or 0))
    ladder = find_best_ladder(problem, Budget(memory_bytes=limit), None, memory)
    assert ladder is not None
    assert not ladder.is_best
    assert (memory.predict(ladder.sizes) or 0) <= limit
    assert ladder.total_ns <= 1.2 * ladder.bound_ns
    singles = [
        compute_ladder_cost(problem, (size,)).total_ns
        for size in problem.sizes.tolist()
        if (memory.predict((size,)) or 0) <= limit
    ]
    assert ladder.total_ns < min(singles)
    none = find_best_ladder(problem, Budget(0, limit), None, memory)
    assert none is not None
    assert none.sizes == ()
