from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.metrics.caveats import CaveatCode
from graphviz_dash.analysis.metrics.kernel_table import build_kernel_table
from graphviz_dash.analysis.ranks.ranks import compare_ranks
from graphviz_dash.analysis.trace.collectives import Collective
from graphviz_dash.features.ranks.narrative import list_rank_caveats
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.narrative.headline import build_headline
from graphviz_dash.narrative.low_confidence import describe_low_confidence
from tests.analysis.ranks.compared import measured
from tests.ranks import SLOW_RANK_1, Truth, make_ranks


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_skew_wait_and_transfer_are_those_of_the_schedule(tmp_path: Path, mode: str) -> None:
    found = measured(tmp_path / "tp", SLOW_RANK_1, mode)
    assert [row.rank for row in found.ranks] == [0, 1]
    assert found.reason is None
    assert found.unmatched == 0
    assert found.kinds == {Collective.ALL_REDUCE: 3}
    assert [row.skew.median for row in found.collectives] == [0, 3_000, 5_000]
    assert [row.transfer.median for row in found.collectives] == [8_000] * 3
    first, second = found.ranks
    assert (first.wait, second.wait) == (8_000, 0)
    assert (first.transfer, second.transfer) == (24_000, 24_000)
    assert (first.compute, second.compute) == (60_000, 68_000)
    assert first.communication == first.exposed == 32_000
    arrivals = [tuple(one.median for one in row.arrival) for row in found.collectives]
    assert arrivals == [(0, 0), (0, 3_000), (0, 5_000)]


def test_longer_work_is_the_cause_of_late_arrivals(tmp_path: Path) -> None:
    found = measured(tmp_path / "tp", SLOW_RANK_1)
    late = {one.rank: one for one in found.arrival_delays}
    # The first all-reduce of each step is a tie, which goes to the first rank.
    assert late[1].count == late[1].significant_count == 8
    assert late[1].total_ns == 8_000
    assert late[1].work_ns == 8_000
    assert late[1].idle_ns == 0
    assert late[0].significant_count == 0
    assert late[0].total_ns == 0


def test_idle_time_is_the_cause_of_late_arrivals(tmp_path: Path) -> None:
    truth = Truth(
        compute=((9_000, 9_000), (9_000, 9_000)), idle=((0, 0), (0, 4_000)), clock=(0, -7_777)
    )
    late = {one.rank: one for one in measured(tmp_path / "tp", truth).arrival_delays}
    assert (late[1].total_ns, late[1].work_ns, late[1].idle_ns) == (4_000, 0, 4_000)


def test_three_ranks(tmp_path: Path) -> None:
    truth = Truth(compute=((10_000,), (13_000,), (11_000,)), clock=(0, 40, -999_999))
    found = measured(tmp_path / "tp", truth)
    assert [clock.offset for clock in found.clocks] == [0, -40, 999_999]
    assert [row.wait for row in found.ranks] == [3_000, 0, 2_000]
    assert found.collectives[0].last_counts == (0, 4, 0)
    (late,) = [rank for rank in found.arrival_delays if rank.total_ns]
    # Without it they would have waited for the third, 2 us shorter.
    assert (late.rank, late.total_ns, late.caused_ns) == (1, 3_000, 2_000)


def test_a_missing_rank_is_named(tmp_path: Path) -> None:
    make_ranks(tmp_path / "tp", "graph", SLOW_RANK_1, only=[1])
    (found,) = compare_ranks(load_experiment(tmp_path / "tp"))
    assert found.missing_ranks == (0,)
    assert found.reason == "only one of several ranks is available"
    assert found.ranks[0].communication == 24_000
    assert found.ranks[0].wait is None


def test_runs_without_ranks_have_no_comparison(tmp_path: Path) -> None:
    from tests.experiments import make_experiment

    assert compare_ranks(load_experiment(make_experiment(tmp_path / "toy"))) == ()


def test_wait_under_other_work_is_not_exposed(tmp_path: Path) -> None:
    found = measured(tmp_path / "tp", SLOW_RANK_1)
    assert [row.exposed_wait for row in found.ranks] == [8_000, 0]
    aside = replace(SLOW_RANK_1, aside=6_000)
    overlapped = measured(tmp_path / "aside", aside).ranks[0]
    # Other work covers the first 6 µs of each collective: all of two waits of 3 and 5 µs.
    assert overlapped.wait == 8_000
    assert overlapped.exposed_wait == 0
    assert overlapped.communication == 32_000
    assert overlapped.exposed == 32_000 - 3 * 6_000


def test_the_slowest_rank_stands_for_its_mode(tmp_path: Path) -> None:
    make_ranks(tmp_path / "tp", "eager", walls=(400_000, 410_000))
    make_ranks(tmp_path / "tp", "graph", walls=(200_000, 100_000))
    result = compare_runs(load_experiment(tmp_path / "tp"))
    assert result.best is not None
    assert result.best.name == "graph-rank0"
    assert result.best.baseline == "eager-rank0"
    assert result["graph-rank1"].baseline == "eager-rank1"
    assert build_headline(result).startswith("Yes: graph-rank0 is 2.00x faster than eager-rank0")
    assert build_headline(result).endswith("; the slowest of 2 ranks")


def test_kernels_change_against_the_own_rank(tmp_path: Path) -> None:
    longer = replace(SLOW_RANK_1, compute=((20_000,) * 3, (50_000,) * 3))
    # Without any gap the times of replays count as made up.
    apart = replace(SLOW_RANK_1, idle=((1_000,) * 3, (1_000,) * 3))
    make_ranks(tmp_path / "tp", "eager", longer)
    make_ranks(tmp_path / "tp", "graph", apart)
    table = build_kernel_table(load_experiment(tmp_path / "tp"), "eager-rank0")
    assert table.reference_columns == (0, 1, 0, 1)
    assert [table.has_changes(place) for place in range(4)] == [False, False, True, True]
    gemm = next(row for row in table.rows if row.category == "gemm")
    assert gemm.changes == (0, 0, 0, 68_000 - 150_000)


def test_much_communication_is_told_for_it_may_be_waiting(tmp_path: Path) -> None:
    waiting = replace(SLOW_RANK_1, compute=((20_000,) * 3, (90_000,) * 3))
    make_ranks(tmp_path / "tp", "graph", waiting)
    first, second = compare_runs(load_experiment(tmp_path / "tp")).runs
    assert [
        note.text
        for note in describe_low_confidence(first.low_confidence)
        if note.code == "communication"
    ] == ["79.6% of its GPU busy time is communication, which may only be waiting for other ranks"]
    assert CaveatCode.COMMUNICATION not in [caveat.code for caveat in second.low_confidence]
    own, other = first["busy_of_clean"], second["busy_of_clean"]
    assert own.value is None
    assert own.missing is not None
    assert "79.6% of the traced GPU busy time is communication" in own.missing.reason
    assert other.value is not None


def test_two_h200s() -> None:
    eager, graph = compare_ranks(load_experiment(Path("sample_traces/tp-transformer")))
    for found in (eager, graph):
        assert found.reason is None
        assert found.kinds == {Collective.ALL_REDUCE: 8}
        assert found.unmatched == 0
        # Both read the host's clock, which the profiler brings them to within a microsecond.
        assert abs(found.clocks[1].offset) < 1_000
        assert found.clocks[1].spread < 1_000
        assert found.clocks[1].samples == 40
    # Launched one by one under the profiler the ranks drift apart; one launch keeps them together.
    assert max(row.skew.median for row in graph.collectives) < 2_000
    assert min(row.skew.median for row in eager.collectives) > 100_000
    assert [one.first_difference for one in graph.graphs] == [None]
    modules = [row.origin.module for row in graph.collectives]
    forward = [
        f"Transformer.layers.{layer}.{part}"
        for layer in range(2)
        for part in ("attention.project", "mlp.down")
    ]
    backward = [
        f"Transformer.layers.{layer}.{part}"
        for layer in (1, 0)
        for part in ("mlp.up", "attention.qkv")
    ]
    assert modules == forward + backward
    assert {row.origin.bytes for row in graph.collectives} == {1 << 20}


def test_a_collective_leads_to_its_node_module_and_line(tmp_path: Path) -> None:
    found = measured(tmp_path / "tp", SLOW_RANK_1)
    origin = found.collectives[1].origin
    assert (origin.graph, origin.node) == ("graph-0", 3)
    assert origin.op == "c10d::allreduce_"
    assert origin.module == "Net.layers.1"
    assert origin.source == "parallel.py:31"
    # The builder gives every operator one input of 64 by 64.
    assert origin.bytes == 64 * 64 * 4
    assert found.collectives[1].bandwidth == 64 * 64 * 4 / 8_000 * 1e9
    eager = measured(tmp_path / "eager", SLOW_RANK_1, "eager").collectives[1].origin
    assert (eager.graph, eager.node, eager.op) == (None, None, "c10d::allreduce_")


def test_graphs_of_ranks_are_compared_with_the_first(tmp_path: Path) -> None:
    make_ranks(tmp_path / "tp", "graph", SLOW_RANK_1)
    (same,) = compare_ranks(load_experiment(tmp_path / "tp"))
    assert [one.first_difference for one in same.graphs] == [None]
    make_ranks(tmp_path / "x", "graph", SLOW_RANK_1, only=[0])
    gather = replace(SLOW_RANK_1, collective="ncclDevKernel_AllGather_RING_LL(x)")
    make_ranks(tmp_path / "x", "graph", gather, only=[1])
    (other,) = compare_ranks(load_experiment(tmp_path / "x"))
    assert other.graphs[0].rank == 1
    difference = other.graphs[0].first_difference
    assert difference is not None
    assert (difference.aspect, difference.nodes and difference.nodes[1].index) == ("node", 1)
    assert "node 1 of graph-0: ncclDevKernel_AllGather" in " ".join(list_rank_caveats(other))
    assert other.reason == "the ranks' traced steps have no collective in common"
