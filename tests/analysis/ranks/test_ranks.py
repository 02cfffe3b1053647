"""Skew, waits and clocks of ranks whose truth is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from graphviz_dash.analysis.comparison.compare import compare
from graphviz_dash.analysis.metrics.kernel_table import kernel_table
from graphviz_dash.analysis.ranks.ranks import ModeRanks, rank_comparison
from graphviz_dash.analysis.ranks.shared_steps import shared_steps
from graphviz_dash.analysis.trace.collectives import Collective, collective_of, message_bytes
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.narrative.ranks import rank_notes, rank_sentence
from tests.ranks import ALL_REDUCE, SLOW_RANK_1, Truth, make_ranks


def measured(folder: Path, truth: Truth, mode: str = "graph") -> ModeRanks:
    make_ranks(folder, mode, truth)
    (found,) = rank_comparison(load_experiment(folder))
    return found


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (ALL_REDUCE, Collective.ALL_REDUCE),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", Collective.ALL_REDUCE),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all-gather"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)", Collective.REDUCE_SCATTER),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", Collective.SEND_RECEIVE),
        ("ncclDevKernel_Broadcast_RING_LL(x)", Collective.BROADCAST),
        ("ncclDevKernel_Reduce_Sum_f32_RING_LL(x)", Collective.REDUCE),
        ("ncclDevKernel_Generic(x)", Collective.UNKNOWN),
        ("void vllm::cross_device_reduce_1stage<float, 2>(x)", Collective.ALL_REDUCE),
        ("multimem_all_reduce_kernel<float>", Collective.ALL_REDUCE),
        ("void at::native::reduce_kernel<512, 1>(x)", None),
        ("void at::native::vectorized_gather_kernel<16>(x)", None),
        ("sm90_xmma_gemm_f32f32", None),
    ],
)
def test_kinds_are_told_by_name(name: str, kind: Collective | str | None) -> None:
    assert collective_of(name) == kind


@pytest.mark.parametrize(
    ("name", "dims", "size"),
    [
        (ALL_REDUCE, "[[[4,128,512]],[],[]]", 4 * 128 * 512 * 4),
        (ALL_REDUCE, "[[[4,8],[2]],[]]", 34 * 4),
        (ALL_REDUCE, "[[4,8],[]]", 32 * 4),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)", "[[[10]]]", 20),
        ("ncclDevKernel_AllReduce_Sum_f8e4m3_RING_LL(x)", "[[[10]]]", 10),
        ("ncclDevKernel_AllGather_RING_LL(x)", "[[[10]]]", None),
        (ALL_REDUCE, None, None),
        (ALL_REDUCE, "[]", None),
        (ALL_REDUCE, "[[]]", None),
        (ALL_REDUCE, "nonsense", None),
        (ALL_REDUCE, '[["x"]]', None),
        (ALL_REDUCE, "[[[-4,8]]]", None),
    ],
)
def test_a_message_is_as_large_as_its_tensors(
    name: str, dims: str | None, size: int | None
) -> None:
    assert message_bytes(name, dims) == size


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


def test_a_wrong_clock_is_found_by_the_ends_of_collectives(tmp_path: Path) -> None:
    found = measured(tmp_path / "tp", SLOW_RANK_1)
    first, second = found.clocks
    assert (first.offset, second.offset) == (0, -150_000)
    assert second.spread == 0
    # No collective takes less than the transfer after the last arrival, so the bound is that long.
    assert second.bound == 8_000
    assert second.samples == 12


def test_unlike_ends_widen_the_spread(tmp_path: Path) -> None:
    # Each place ends on rank 1 as much later as its own work is longer than planned.
    make_ranks(tmp_path / "tp", "graph", SLOW_RANK_1, only=[0])
    other = replace(SLOW_RANK_1, compute=((20_000, 20_000, 20_000), (20_500, 23_000, 24_500)))
    make_ranks(tmp_path / "tp", "graph", other, only=[1])
    (found,) = rank_comparison(load_experiment(tmp_path / "tp"))
    assert found.uncertainty == pytest.approx(250, abs=30)


def test_longer_work_is_the_cause_of_late_arrivals(tmp_path: Path) -> None:
    found = measured(tmp_path / "tp", SLOW_RANK_1)
    late = {one.rank: one for one in found.lateness}
    # The first all-reduce of each step is a tie, which goes to the first rank.
    assert late[1].count == late[1].clear == 8
    assert late[1].total == 8_000
    assert late[1].work == 8_000
    assert late[1].idle == 0
    assert late[0].clear == 0
    assert late[0].total == 0


def test_idle_time_is_the_cause_of_late_arrivals(tmp_path: Path) -> None:
    truth = Truth(
        compute=((9_000, 9_000), (9_000, 9_000)), idle=((0, 0), (0, 4_000)), clock=(0, -7_777)
    )
    late = {one.rank: one for one in measured(tmp_path / "tp", truth).lateness}
    assert (late[1].total, late[1].work, late[1].idle) == (4_000, 0, 4_000)


def test_three_ranks(tmp_path: Path) -> None:
    truth = Truth(compute=((10_000,), (13_000,), (11_000,)), clock=(0, 40, -999_999))
    found = measured(tmp_path / "tp", truth)
    assert [clock.offset for clock in found.clocks] == [0, -40, 999_999]
    assert [row.wait for row in found.ranks] == [3_000, 0, 2_000]
    assert found.collectives[0].last == (0, 4, 0)


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


def test_graphs_of_ranks_are_held_against_the_first(tmp_path: Path) -> None:
    make_ranks(tmp_path / "tp", "graph", SLOW_RANK_1)
    (same,) = rank_comparison(load_experiment(tmp_path / "tp"))
    assert [one.first for one in same.graphs] == [None]
    make_ranks(tmp_path / "x", "graph", SLOW_RANK_1, only=[0])
    gather = replace(SLOW_RANK_1, collective="ncclDevKernel_AllGather_RING_LL(x)")
    make_ranks(tmp_path / "x", "graph", gather, only=[1])
    (other,) = rank_comparison(load_experiment(tmp_path / "x"))
    assert other.graphs[0].rank == 1
    difference = other.graphs[0].first
    assert difference is not None
    assert (difference.aspect, difference.nodes and difference.nodes[1].index) == ("node", 1)
    assert "node 1 of graph-0: ncclDevKernel_AllGather" in " ".join(rank_notes(other))
    assert other.reason == "the ranks' traced steps have no collective in common"


def test_a_missing_rank_is_named(tmp_path: Path) -> None:
    make_ranks(tmp_path / "tp", "graph", SLOW_RANK_1, only=[1])
    (found,) = rank_comparison(load_experiment(tmp_path / "tp"))
    assert found.missing == (0,)
    assert found.reason == "only one rank of several is here"
    assert found.ranks[0].communication == 24_000
    assert found.ranks[0].wait is None


def test_runs_without_ranks_have_no_comparison(tmp_path: Path) -> None:
    from tests.experiments import make_experiment

    assert rank_comparison(load_experiment(make_experiment(tmp_path / "toy"))) == ()


def test_wait_under_other_work_is_not_exposed(tmp_path: Path) -> None:
    found = measured(tmp_path / "tp", SLOW_RANK_1)
    assert [row.exposed_wait for row in found.ranks] == [8_000, 0]
    aside = replace(SLOW_RANK_1, aside=6_000)
    overlapped = measured(tmp_path / "aside", aside).ranks[0]
    # Other work covers the first 6 us of each collective: all of two waits of 3 and 5 us.
    assert overlapped.wait == 8_000
    assert overlapped.exposed_wait == 0
    assert overlapped.communication == 32_000
    assert overlapped.exposed == 32_000 - 3 * 6_000


@pytest.mark.parametrize(
    ("truth", "words"),
    [
        (SLOW_RANK_1, "its GPU work before them takes longer (+8.00 us)"),
        (
            Truth(((9_000, 9_000), (9_000, 9_000)), idle=((0, 0), (0, 4_000))),
            "its GPU is idle for longer before them (+4.00 us)",
        ),
        (
            Truth(((9_000, 9_000), (11_000, 11_000)), idle=((0, 0), (2_000, 2_000))),
            # Of eight collectives the trace's first has none before it to count from.
            "it works and idles longer before them (+3.50 us of work, +3.50 us of idle)",
        ),
        (Truth(((9_000, 9_000), (9_000, 9_000))), "reach every collective together"),
        (
            Truth(((9_000, 11_500), (11_000, 9_000))),
            "no rank is late as a rule: in all they come 4.50 us per traced step after each other",
        ),
    ],
)
def test_the_sentence_names_the_cause(tmp_path: Path, truth: Truth, words: str) -> None:
    assert words in rank_sentence(measured(tmp_path / "tp", truth))


def test_the_slowest_rank_stands_for_its_mode(tmp_path: Path) -> None:
    make_ranks(tmp_path / "tp", "eager", walls=(400_000, 410_000))
    make_ranks(tmp_path / "tp", "graph", walls=(200_000, 100_000))
    result = compare(load_experiment(tmp_path / "tp"))
    assert result.best is not None
    assert result.best.name == "graph-rank0"
    assert result.best.baseline == "eager-rank0"
    assert result["graph-rank1"].baseline == "eager-rank1"
    assert result.headline.startswith("graph-rank0 is 2.00x faster than eager-rank0")
    assert result.headline.endswith("; the slowest of 2 ranks")


def test_kernels_change_against_the_own_rank(tmp_path: Path) -> None:
    longer = replace(SLOW_RANK_1, compute=((20_000,) * 3, (50_000,) * 3))
    make_ranks(tmp_path / "tp", "eager", longer)
    make_ranks(tmp_path / "tp", "graph", SLOW_RANK_1)
    table = kernel_table(load_experiment(tmp_path / "tp"), "eager-rank0")
    assert table.against == (0, 1, 0, 1)
    assert [table.changes(place) for place in range(4)] == [False, False, True, True]
    gemm = next(row for row in table.rows if row.category == "gemm")
    assert gemm.changes == (0, 0, 0, 68_000 - 150_000)


def test_steps_of_ranks_lie_on_the_first_ranks_clock(tmp_path: Path) -> None:
    make_ranks(tmp_path / "tp", "eager")
    make_ranks(tmp_path / "tp", "graph", replace(SLOW_RANK_1, clock=(0, -4_000)))
    shared = shared_steps(load_experiment(tmp_path / "tp"))
    assert list(shared) == ["eager-rank0", "eager-rank1", "graph-rank0", "graph-rank1"]
    for mode in ("eager", "graph"):
        first, second = (shared[f"{mode}-rank{rank}"] for rank in range(2))
        assert first.first == second.first == f"{mode}-rank0"
        assert first.delta == 0
        assert first.typical == second.typical
        # In the schedule all ranks begin a step together, so on one clock nothing is between them.
        for index, begin in first.begins.items():
            assert second.begins[index] + second.delta == begin


def test_ranks_whose_clocks_cannot_be_aligned_keep_their_own(tmp_path: Path) -> None:
    make_ranks(tmp_path / "alone", "graph", only=[0])
    assert shared_steps(load_experiment(tmp_path / "alone")) == {}
    sends = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
    make_ranks(tmp_path / "p2p", "graph", replace(SLOW_RANK_1, collective=sends))
    loaded = load_experiment(tmp_path / "p2p")
    assert shared_steps(loaded) == {}
    (found,) = rank_comparison(loaded)
    assert found.reason is not None
    assert "their clocks cannot be aligned" in found.reason
    assert found.kinds == {Collective.SEND_RECEIVE: 3}
    assert found.ranks[0].communication == 32_000
    assert found.ranks[0].wait is None


def test_much_communication_is_told_for_it_may_be_waiting(tmp_path: Path) -> None:
    waiting = replace(SLOW_RANK_1, compute=((20_000,) * 3, (90_000,) * 3))
    make_ranks(tmp_path / "tp", "graph", waiting)
    first, second = compare(load_experiment(tmp_path / "tp")).runs
    assert [one.text for one in first.weaknesses if one.code == "communication"] == [
        "79.6% of its GPU busy time is communication, in which it may only wait for other ranks"
    ]
    assert all(one.code != "communication" for one in second.weaknesses)
    own, other = first["busy_of_clean"], second["busy_of_clean"]
    assert own.value is None
    assert own.reason is not None
    assert "79.6% of the traced GPU busy time is communication" in own.reason
    assert other.value is not None


def test_two_h200s() -> None:
    eager, graph = rank_comparison(load_experiment(Path("sample_traces/tp-transformer")))
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
    assert [one.first for one in graph.graphs] == [None]
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
