from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.ledger.graphs import build_graph_ledgers
from graphviz_dash.analysis.ledger.savings import measure_unused_graphs
from graphviz_dash.analysis.memory.captured_pools import (
    FamilyPool,
    build_family_pool,
    predict_pool_reduction,
)
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.ledger import Ledger
from graphviz_dash.model.loop import ProgramLoop
from tests.captured_pools import Program, record
from tests.ledgers import make_ledger
from tests.loops import make_server

CASES = Path(__file__).parents[2] / "cases" / "pools"
MIB = 1 << 20
SIZES = (8, 16, 24, 32, 48)
SMALL = {*range(4, 257, 4)} - {16, 64, 128, 192, 256}


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


def test_a_prediction_needs_equal_captures_of_at_least_three_sizes(tmp_path: Path) -> None:
    program = Program().capture((16, 8))
    missing = build_family_pool(record(make_server(tmp_path / "two", sizes=(8, 16)), program), 0)
    assert isinstance(missing, Missing)
    assert missing.reason == "fewer than three sizes were captured"
    # The first one is not 24 MiB larger than the others, but different.
    program = Program().capture((24, 16, 8), odd=16)
    server = make_server(tmp_path / "odd", sizes=(8, 16, 24))
    missing = build_family_pool(record(server, program), 0)
    assert isinstance(missing, Missing)
    assert missing.reason == "the allocations of the sizes differ by more than their size"


def test_streams_do_not_share_memory(tmp_path: Path) -> None:
    program = Program().capture(sorted(SIZES, reverse=True))
    starts = [replace(start, pool_stream=place % 2) for place, start in enumerate(program.starts)]
    program.starts = starts
    missing = build_family_pool(record(make_server(tmp_path, sizes=SIZES), program), 0)
    assert isinstance(missing, Missing)
    assert missing.reason == "a simulation of the allocator does not reproduce its pool"


@pytest.mark.parametrize(
    ("engine", "sizes", "growth"),
    [
        # Sizes above the largest of the recording, then also without some, in MiB on an H200.
        ("vllm", {"piecewise": ((128, 256, 512), ())}, (22, 22)),
        ("vllm", {"piecewise": ((200, 800), (40, 48, 56))}, (42, 40)),
        ("vllm", {"piecewise": ((304, 544, 784, 1_024), ())}, (44, 44)),
        ("sglang", {"decode": ((40, 48), ()), "prefill": ((320, 384, 512), ())}, (0, 0)),
        ("sglang", {"decode": ((), (1, 2, 4, 12, 24)), "prefill": ((640, 960), SMALL)}, (12, 12)),
        ("sglang", {"decode": ((40, 48), ()), "prefill": ((448, 640, 832, 1_024), ())}, (12, 12)),
    ],
)
def test_pools_of_engines_are_predicted_within_5_percent(
    tmp_path: Path,
    engine: str,
    sizes: dict[str, tuple[Sequence[int], Iterable[int]]],
    growth: tuple[int, int],
) -> None:
    def read(part: str) -> bytes:
        return gzip.decompress((CASES / f"{engine}-{part}.json.gz").read_bytes())

    loop = msgspec.json.decode(read("loop"), type=ProgramLoop)
    ledger = msgspec.json.decode(read("ledger"), type=Ledger)
    run = replace(load_run(make_server(tmp_path), traces=False), loop=loop, ledger=ledger)
    measured, predicted = growth
    total = 0
    for index, family in enumerate(loop.families):
        added, removed = sizes.get(family.name, ((), ()))
        pool = build_family_pool(run, index)
        assert isinstance(pool, FamilyPool)
        present = {member.key[0] for member in family.members if member.key is not None}
        prediction = pool.predict({*present, *added} - set(removed))
        assert not isinstance(prediction, Missing)
        total += prediction - pool.reserved_bytes
    assert total == predicted * MIB
    assert abs(predicted - measured) <= 0.05 * measured


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


def test_a_pool_without_its_largest_size_grows_for_the_next_one(tmp_path: Path) -> None:
    unit, sizes = 2_048, (8, 16, 24, 32, 48)
    program = Program(unit).capture(sizes[::-1])
    run = record(make_server(tmp_path, sizes=sizes, requests=(8, 16, 24) * 20), program)
    assert run.ledger is not None
    assert run.loop is not None
    run = replace(run, ledger=replace(run.ledger, samples=()))
    by_size = {
        member.key[0]: member.graphs for member in run.loop.families[0].members if member.key
    }
    growth = {cost.graph: cost.pool_growth_bytes or 0 for cost in run.loop.graphs}
    unused = measure_unused_graphs(run, build_graph_ledgers(run))
    assert unused is not None
    assert {*unused.graphs} == {*by_size[32], *by_size[48]}
    truth = Program(unit).capture((24, 16, 8)).pool.reserved_bytes
    assert unused.saved_bytes == program.pool.reserved_bytes - truth > 0
    assert unused.has_simulation
    # The captures of 24 grow the pool then, so the sum of growths is too large.
    assert unused.saved_bytes < sum(growth[graph] for graph in unused.graphs)
    assert predict_pool_reduction(run, {*by_size[8]}) == 0
    # Other graphs, or a run without operations, cannot be simulated.
    assert predict_pool_reduction(run, {*by_size[8], "another"}) is None
    assert predict_pool_reduction(replace(run, ledger=None), {*by_size[8]}) is None
