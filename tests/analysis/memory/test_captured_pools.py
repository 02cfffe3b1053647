from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.memory.captured_pools import FamilyPool, build_family_pool
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.ledger import GraphStart
from graphviz_dash.model.run import Run
from graphviz_dash.planning.allocator import PoolBlock, PrivatePool
from tests.ledgers import make_ledger
from tests.loops import make_server

KIB = 1 << 10
MIB = 1 << 20
SIZES = (8, 16, 24, 32, 48)


@dataclass
class Program:
    """Captures sizes into one pool, and records their operations as the recorder does."""

    pool: PrivatePool = field(default_factory=PrivatePool)
    starts: list[GraphStart] = field(default_factory=list)
    growth: list[int] = field(default_factory=list)
    blocks: list[tuple[int, PoolBlock]] = field(default_factory=list)
    operations: list[int] = field(default_factory=list)
    allocations: int = 0

    def allocate(self, size: int) -> int:
        self.operations.append(size)
        self.blocks.append((self.allocations, self.pool.allocate(size)))
        self.allocations += 1
        return self.allocations - 1

    def free(self, number: int) -> None:
        self.operations.append(number - self.allocations)
        (block,) = [block for other, block in self.blocks if other == number]
        self.pool.free(block)

    def capture(self, sizes: Sequence[int], *, odd: int | None = None) -> Program:
        """Capture in this order. The first one also makes a workspace, and each frees the output of
        the one before. ``odd``: a size that makes an allocation that others do not make."""
        output = None
        for place, size in enumerate(sizes):
            before, self.operations = self.pool.reserved_bytes, []
            hidden = self.allocate(size * 40 * KIB)
            if not place:
                self.allocate(9 * MIB)
            if size == odd:
                self.allocate(MIB)
            if output is not None:
                self.free(output)
            gates = self.allocate(size * 240 * KIB + 100)
            self.allocate(size * 4 * KIB)
            self.free(hidden)
            output = self.allocate(size * 80 * KIB)
            self.free(gates)
            start = GraphStart(f"graph-{place}", (0, 1), 0, None)
            self.starts.append(replace(start, pool_operations=tuple(self.operations)))
            self.growth.append(self.pool.reserved_bytes - before)
        return self


def record(folder: Path, program: Program, sizes: Sequence[int]) -> Run:
    """The recording of a program that captured ``sizes``, the largest first."""
    run = load_run(make_server(folder, sizes=sizes), traces=False)
    assert run.loop is not None
    graphs = tuple(
        replace(cost, pool=(0, 1), pool_growth_bytes=growth)
        for cost, growth in zip(run.loop.graphs, program.growth, strict=True)
    )
    ledger = make_ledger(graphs=tuple(program.starts))
    return replace(run, loop=replace(run.loop, graphs=graphs), ledger=ledger)


def build(folder: Path, sizes: Sequence[int] = SIZES, odd: int | None = None) -> FamilyPool:
    order = sorted(sizes, reverse=True)
    pool = build_family_pool(record(folder, Program().capture(order, odd=odd), sizes), 0)
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
    two = build(tmp_path / "two", (8, 16))
    assert explain(two, (8, 16, 32)) == "fewer than three sizes were captured"
    # The first one is not 24 MiB larger than the others, but different.
    odd = build(tmp_path / "odd", (8, 16, 24), odd=16)
    reason = "the allocations of the sizes differ by more than their size"
    assert explain(odd, (8, 16, 24, 32)) == reason


def test_a_pool_that_the_simulation_does_not_reproduce_is_not_predicted(tmp_path: Path) -> None:
    program = Program().capture(sorted(SIZES, reverse=True))
    run = record(tmp_path, program, SIZES)
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
