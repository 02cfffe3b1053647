from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from graphviz_dash.features.ranks.fleet import summarise_rank
from graphviz_dash.features.ranks.fleet_import import (
    Fleet,
    compute_answers,
)
from graphviz_dash.ingest.kineto.reader import read_trace
from tests.importers.fleets import RANKS, US, fleet_of, rank, the_answer, uneven_fleet
from tests.trace_builder import TraceBuilder


class TestSummary:
    def test_times_of_a_step(self, tmp_path: Path) -> None:
        trace = read_trace(rank(tmp_path, 3))
        found = summarise_rank(trace, "r", "file", 3, RANKS)
        (row,) = found.ranks
        assert (row["steps"], row["marked"], row["rank"]) == (3, True, 3)
        assert row["step_ns"] == 999 * US
        assert row["compute_ns"] == 200 * US
        assert row["communication_ns"] == 990 * US - 222 * US
        assert (row["kernels"], row["graph_launches"], row["other_launches"]) == (3, 1, 0)
        # Idle from the end of the all-reduce at 990 µs to the start of the next work at 1,020 µs,
        # but for the microsecond between two steps.
        assert row["launch_bound_ns"] == 29 * US

    def test_graphs_and_kernels(self, tmp_path: Path) -> None:
        found = summarise_rank(read_trace(rank(tmp_path, 3)), "r", "file", 3, RANKS)
        (graph,) = found.graphs
        assert (graph["kernels"], graph["replays"], graph["first"]) == (3, 3, "norm")
        assert {row["kernel"]: row["total_ns"] for row in found.kernels}["gemm"] == 100 * US


class TestQuestions:
    @pytest.fixture
    def fleet(self, tmp_path: Path) -> Fleet:
        return uneven_fleet(tmp_path / "traces")

    def test_slow_ranks_are_listed_with_their_kernel(self, fleet: Fleet) -> None:
        slow = {one.name: one for one in the_answer(fleet).slow}
        assert slow.keys() == {"rank2", "rank5"}
        assert (slow["rank5"].rank, slow["rank5"].kernel) == (5, "gemm")
        assert slow["rank5"].kernel_ns == 80 * US
        assert slow["rank5"].median_ns == 200 * US

    def test_graphs_that_differ_between_ranks_are_listed(self, fleet: Fleet) -> None:
        said = the_answer(fleet)
        assert said.graph_count == 2
        odd = {
            (one.kernels, one.owner_count, one.lists_missing, one.ranks) for one in said.divergent
        }
        assert odd == {(4, 1, False, ("rank2",)), (3, 7, True, ("rank2",))}

    def test_the_launch_bound_share_has_median_and_worst_rank(self, fleet: Fleet) -> None:
        said = the_answer(fleet)
        assert said.launch_bound is not None
        assert said.launch_bound[1] == pytest.approx(29 / 999)
        assert said.launch_bound[3] == pytest.approx(329 / 999)
        assert said.launch_bound_worst == "rank6"

    def test_whom_the_others_wait_for(self, tmp_path: Path) -> None:
        # The reduction ends at one time on all ranks: who comes late communicates least.
        for number in range(3):
            rank(tmp_path / "traces", number, late_us=500 if number == 1 else 0)
        awaited = the_answer(fleet_of(tmp_path / "traces")).straggler
        assert awaited is not None
        assert (awaited.name, awaited.rank) == ("rank1", 1)
        assert awaited.median_ns - awaited.communication_ns == 500 * US

    def test_no_one_is_waited_for_where_all_wait_alike(self, fleet: Fleet) -> None:
        assert the_answer(fleet).straggler is None

    def test_waiting_for_others_is_not_what_makes_a_rank_slow(self, tmp_path: Path) -> None:
        for number in range(3):
            rank(tmp_path / "traces", number, slow_us=80 if number == 1 else 0)
        fleet = fleet_of(tmp_path / "traces")
        reduction = pl.col("kernel").str.starts_with("nccl") & (pl.col("rank") == 1)
        longer = pl.when(reduction).then(1e9).otherwise(pl.col("total_ns"))
        tables = fleet.tables | {"kernels": fleet.tables["kernels"].with_columns(total_ns=longer)}
        (slow,) = the_answer(Fleet(tables, ())).slow
        assert (slow.name, slow.kernel) == ("rank1", "gemm")

    def test_ranks_of_other_gpus_are_told_not_merged(self, tmp_path: Path) -> None:
        for number in range(4):
            gpu = "NVIDIA H200" if number < 2 else "NVIDIA H100"
            rank(tmp_path / "traces", number, gpu=gpu)
        found = compute_answers(fleet_of(tmp_path / "traces"))
        assert [(one.job, one.ranks) for one in found] == [
            ("8 ranks on NVIDIA H200, 2026-11-21", 2),
            ("8 ranks on NVIDIA H100, 2026-11-21", 2),
        ]

    def test_equal_ranks_are_not_slow(self, tmp_path: Path) -> None:
        for number in range(3):
            rank(tmp_path / "traces", number)
        said = the_answer(fleet_of(tmp_path / "traces"))
        assert (said.ranks, said.slow, said.divergent, said.ranks_without_steps) == (3, (), (), 0)

    def test_ranks_of_one_mode_are_not_held_against_those_of_another(self) -> None:
        eager, graph = compute_answers(fleet_of(Path("sample_traces/tp-transformer")))
        assert [(one.mode, one.ranks, one.divergent) for one in (eager, graph)] == [
            ("eager", 2, ()),
            ("graph", 2, ()),
        ]
        assert (eager.graph_count, graph.graph_count) == (0, 1)
        assert eager.step_ns is not None
        assert graph.step_ns is not None
        assert eager.step_ns > 5 * graph.step_ns


def test_idle_time_between_steps_is_not_part_of_a_step(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for step in range(3):
        at = step * 100_000
        trace.annotation(f"ProfilerStep#{step}", at, 90_000)
        correlation = trace.runtime("cudaLaunchKernel", at + 80_000, 5_000)
        trace.kernel("k", at + 86_000, 1_000, correlation=correlation)
    file = trace.write(tmp_path / "t.json")
    (row,) = summarise_rank(read_trace(file), "t", str(file), None, None).ranks
    assert row["step_ns"] == 90_000
    assert row["launch_bound_ns"] == 86_000 + 3_000  # before the work of this step and after it


def test_of_a_rank_without_records_of_its_gpu_nothing_is_said_of_it(tmp_path: Path) -> None:
    rank(tmp_path / "traces", 0)
    trace = TraceBuilder()
    trace.fields["distributedInfo"] = {"rank": 1, "world_size": RANKS}
    trace.annotation("ProfilerStep#0", 0, 999 * US)
    trace.write(tmp_path / "traces" / "rank1.json.gz")
    said = the_answer(fleet_of(tmp_path / "traces"))
    assert (said.ranks, said.ranks_without_gpu_work, said.launch_bound_worst) == (2, 1, "rank0")
    assert said.launch_bound is not None
    assert min(said.launch_bound) > 0
