from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.memory.captured_pools import FamilyPool, build_family_pool
from graphviz_dash.model.absence import Missing
from tests.captured_pools import Program, record
from tests.ledgers import make_ledger
from tests.loops import make_server

MIB = 1 << 20
SIZES = (8, 16, 24, 32, 48)


def build(folder: Path, sizes: Sequence[int] = SIZES, odd: int | None = None) -> FamilyPool:
    order = sorted(sizes, reverse=True)
    pool = build_family_pool(
        record(make_server(folder, sizes=sizes), Program().capture(order, odd=odd)), 0
    )
    assert isinstance(pool, FamilyPool)
    return pool


@pytest.mark.parametrize(
    "sizes",
    [
        SIZES,
        (*SIZES, 56, 64),  # larger than the first one
        (8, 12, 16, 20, 24, 28, 32, 40, 48),
        (8, 16, 24, 32),  # without the first one
        (24, 32, 48),
        (16,),
        (8, 100, 200),
        (),
    ],
)
def test_the_pool_of_other_sizes_is_that_of_a_program_with_them(
    tmp_path: Path, sizes: tuple[int, ...]
) -> None:
    truth = Program().capture(sorted(sizes, reverse=True)).pool.reserved_bytes
    assert build(tmp_path).predict(sizes) == truth


def test_removed_sizes_are_predicted_from_the_others(tmp_path: Path) -> None:
    for number, size in enumerate(SIZES[:-1]):
        others = [other for other in SIZES if other != size]
        truth = Program().capture(sorted(SIZES, reverse=True)).pool.reserved_bytes
        assert build(tmp_path / str(number), others).predict(SIZES) == truth


def explain(pool: FamilyPool, sizes: Sequence[int]) -> str:
    missing = pool.predict(sizes)
    assert isinstance(missing, Missing)
    return missing.reason


def test_a_prediction_needs_equal_captures_of_at_least_three_sizes(tmp_path: Path) -> None:
    program = Program().capture((16, 8))
    missing = build_family_pool(record(make_server(tmp_path / "two", sizes=(8, 16)), program), 0)
    assert isinstance(missing, Missing)
    assert missing.reason == "fewer than three sizes were captured"
    # The first one is not 24 MiB larger than the others, but different.
    odd = build(tmp_path / "odd", (8, 16, 24), odd=16)
    reason = "the allocations of the sizes differ by more than their size"
    assert explain(odd, (8, 16, 24, 32)) == reason


def test_a_pool_that_the_simulation_does_not_reproduce_is_not_predicted(tmp_path: Path) -> None:
    program = Program().capture(sorted(SIZES, reverse=True))
    run = record(make_server(tmp_path, sizes=SIZES), program)
    assert run.loop is not None
    assert run.ledger is not None
    costs = run.loop.graphs
    changed = (replace(costs[0], pool_growth_bytes=2 * MIB), *costs[1:])
    cases = {
        "a simulation of the allocator does not reproduce its pool": replace(
            run, loop=replace(run.loop, graphs=changed)
        ),
        "its graphs are in several pools": replace(
            run, loop=replace(run.loop, graphs=(replace(costs[0], pool=(0, 2)), *costs[1:]))
        ),
        "the allocations of its captures were not recorded": replace(
            run, ledger=make_ledger(graphs=(replace(program.starts[0], pool_operations=None),))
        ),
    }
    for reason, case in cases.items():
        missing = build_family_pool(case, 0)
        assert isinstance(missing, Missing)
        assert missing.reason == reason
