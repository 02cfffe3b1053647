"""Measure waits for other ranks from durations, as a separate part of the equation."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from graphviz_dash.analysis.arrays import get_column
from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.ranks.ranks import NO_MEETING, compute_rank_waits
from graphviz_dash.analysis.step_comparison.waterfall import Cause, Waterfall
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.run import Experiment, Run
from tests.analysis.frames import Frames, clean_timings, make_experiment, make_run, steps_trace
from tests.ranks import ALL_REDUCE, Truth, make_ranks
from tests.samples import compared_sample

STEP = 20_000


def _eager(rank: int, launched: int, *, aside: int = 0, work: int = 500, wall: int = 5_200) -> Run:
    """A product, an all-reduce launched at ``launched`` that ends at 8,500, and a step of 10,000 on
    the CPU, half of it profiler overhead. ``aside``: work on a separate stream from the arrival on.
    """
    frames = Frames()
    arrival = max(launched + 10, 2_010 + work)
    for index in range(6):
        begin = index * STEP
        frames.step(index, begin, begin + 11_000)
        frames.kernel("gemm", begin + 2_000, begin + 2_010, work)
        frames.kernel(ALL_REDUCE, begin + launched, begin + arrival, 8_500 - arrival)
        if aside:
            frames.kernel("aside", begin + arrival, begin + arrival + 10, aside, stream=11)
        frames.call("cudaDeviceSynchronize", begin + 10_000)
    clean = clean_timings([wall] * 40, launch=5_000)
    return make_run("eager", clean=clean, trace=frames.trace(), rank=rank)


def _graph(rank: int) -> Run:
    work = [("gemm", 500), (ALL_REDUCE, 500)]
    clean = clean_timings([1_200] * 40, launch=20)
    return make_run("graph", clean=clean, trace=steps_trace(6, 1_000, work, graph=True), rank=rank)


def _named(run: Run, name: str) -> Run:
    return replace(run, path=Path("experiment") / name)


def _of(*ranks: Run) -> Experiment:
    runs = [_named(run, f"eager-rank{place}") for place, run in enumerate(ranks)]
    runs += [_named(_graph(place), f"graph-rank{place}") for place in range(len(ranks))]
    return make_experiment(*runs)


def _equation(comparison: Comparison, name: str) -> Waterfall:
    found = comparison[name].waterfall
    assert isinstance(found, Waterfall), found
    return found


def test_waiting_for_a_rank_that_launches_late_is_no_kernel_time() -> None:
    found = compare_runs(_of(_eager(0, 7_990), _eager(1, 3_990)))
    early, late = (_equation(found, f"graph-rank{rank}") for rank in (1, 0))
    # The trace has a wait of 4,000 for the other rank's CPU, which is twice as fast without the
    # profiler; both ranks transfer for 500.
    assert (early.before.ranks, early.before.kernels) == (2_000, 1_000)
    assert (late.before.ranks, late.before.kernels) == (0, 1_000)
    for one in (early, late):
        assert one.saved.total == one.before_ns - one.after_ns
        assert one.remainder_share < 0.05
    assert dict(early.saved_by_cause)[Cause.RANKS] == 2_000
    assert Cause.RANKS not in dict(late.saved_by_cause)
    assert found["graph-rank1"]["rank_wait_removed"].value == 2_000


def test_waiting_for_a_rank_that_works_for_longer_is_no_shorter_without_the_profiler() -> None:
    found = compare_runs(
        _of(_eager(0, 3_000, work=5_990, wall=7_700), _eager(1, 3_000, wall=7_700))
    )
    early = _equation(found, "graph-rank1")
    # Rank 0 works from 1,009 to 6,999 in either case; rank 1 comes at 1,517, as long
    # after its product as in the trace.
    assert early.before.ranks == 6_999 - 1_517
    assert early.before.kernels == 1_000
    assert early.remainder_share < 0.05


def test_ranks_that_began_a_traced_step_apart_begin_a_clean_one_together() -> None:
    """Rank 0's CPU was 3,000 late with all of its step, as ranks under a profiler are."""
    late = _eager(0, 6_990)
    assert late.replay_trace is not None
    early = _eager(1, 6_990)
    found = compare_runs(_of(_begun(late, 0), _begun(early, -3_000)))
    assert compute_rank_waits(found.experiment)["eager-rank1"].wait_ns.any()
    assert _equation(found, "graph-rank1").before.ranks == 0


def _begun(run: Run, ahead: int) -> Run:
    """The run with all but the end of its collectives earlier by ``-ahead``."""
    frames = Frames()
    for index in range(6):
        begin = index * STEP + ahead + 3_000
        frames.step(index, begin, begin + 11_000)
        frames.kernel("gemm", begin + 2_000, begin + 2_010, 500)
        end = index * STEP + 3_000 + 7_500
        frames.kernel(ALL_REDUCE, begin + 6_990, begin + 7_000, end - begin - 7_000)
        frames.call("cudaDeviceSynchronize", begin + 10_000)
    return replace(run, replay_trace=frames.trace())


def test_work_during_a_wait_counts_as_work() -> None:
    found = compare_runs(_of(_eager(0, 7_990), _eager(1, 3_990, aside=700)))
    one = _equation(found, "graph-rank1")
    assert one.before.ranks == 2_000 - 700
    assert one.before.kernels == 1_000 + 700


def test_one_process_has_no_such_part() -> None:
    found = compared_sample("mlp-train")
    one = _equation(found, "graph")
    assert Cause.RANKS not in dict(one.saved_by_cause)
    assert found["graph"]["rank_wait_removed"].value is None


def test_a_rank_without_the_others_waits_for_nobody_that_is_known() -> None:
    assert compute_rank_waits(make_experiment(_named(_eager(0, 4_000), "eager-rank0"))) == {}


_times = st.integers(1_000, 40_000)


@st.composite
def _truths(draw: st.DrawFn) -> Truth:
    ranks, places = draw(st.integers(2, 3)), draw(st.integers(1, 4))
    rows = st.lists(_times, min_size=places, max_size=places).map(tuple)
    table = st.lists(rows, min_size=ranks, max_size=ranks).map(tuple)
    clock = tuple(draw(st.lists(st.integers(0, 200_000), min_size=ranks, max_size=ranks)))
    return Truth(compute=draw(table), idle=draw(st.none() | table), clock=clock, steps=3)


@settings(max_examples=10, deadline=None)
@given(_truths())
def test_waits_are_those_of_the_truth_whatever_the_clocks_say(truth: Truth) -> None:
    with TemporaryDirectory() as folder:
        make_ranks(Path(folder), "graph", truth)
        loaded = load_experiment(Path(folder))
        found = compute_rank_waits(loaded)
        (rows, *_) = truth.schedule()
        for rank, run in enumerate(loaded.runs):
            assert run.replay_trace is not None
            gpu = run.replay_trace.gpu
            waits = found[run.name]
            collectives = [name == truth.collective for name in gpu["name"].to_list()]
            arrivals = [[row[2] for row in own] for own in rows]
            expected = [max(at) - at[rank] for at in zip(*arrivals, strict=True)]
            assert waits.wait_ns[collectives].tolist() == expected * truth.steps
            assert waits.meeting[collectives].tolist() == [*range(len(expected))] * truth.steps
            others = [not one for one in collectives]
            assert not waits.wait_ns[others].any()
            assert set(waits.meeting[others].tolist()) == {NO_MEETING}
            assert (waits.wait_ns <= get_column(gpu, "dur")).all()


@settings(max_examples=6, deadline=None)
@given(_truths())
def test_a_graph_waits_in_its_model_as_in_truth(truth: Truth) -> None:
    with TemporaryDirectory() as folder:
        for mode in ("eager", "graph"):
            make_ranks(Path(folder), mode, truth)
        found = compare_runs(load_experiment(Path(folder)))
        (rows, *_) = truth.schedule()
        arrivals = [[row[2] for row in own] for own in rows]
        for rank in range(truth.ranks):
            one = _equation(found, f"graph-rank{rank}")
            assert one.after.ranks == sum(max(at) - at[rank] for at in zip(*arrivals, strict=True))
            assert one.saved.total == one.before_ns - one.after_ns
            assert one.before.ranks >= 0
            for shares in (one.modules, one.operators):
                assert sum(share.saved.ranks for share in shares) == one.saved.ranks


@pytest.mark.parametrize("rank", [0, 1])
def test_the_recorded_ranks_leave_little_unexplained(rank: int) -> None:
    found = compared_sample("tp-transformer")
    one = _equation(found, f"graph-rank{rank}")
    assert one.saved.total == one.before_ns - one.after_ns
    assert one.remainder_share < 0.05
    for shares in (one.modules, one.operators):
        assert sum(share.saved.ranks for share in shares) == one.saved.ranks
