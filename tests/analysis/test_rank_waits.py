"""Waiting for other ranks: told from durations, and a part of its own in the equation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.analysis.compare import Comparison, compare
from graphviz_dash.analysis.lanes import column
from graphviz_dash.analysis.rank_waits import rank_waits
from graphviz_dash.analysis.waterfall import Cause, Waterfall
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.run import Experiment, Run
from tests.analysis.frames import Frames, clean_timings, make_experiment, make_run, steps_trace
from tests.ranks import ALL_REDUCE, Truth, make_ranks

STEP = 20_000


def _eager(rank: int, arrival: int, *, aside: int = 0, work: int = 500) -> Run:
    """A product, an all-reduce that this rank reaches at ``arrival`` and that is done at 8,500, and
    the end of the step at 10,000 on the CPU, which takes half of that without the profiler.

    ``aside``: other work on a stream of its own from the arrival on.
    """
    frames = Frames()
    for index in range(6):
        begin = index * STEP
        frames.step(index, begin, begin + 11_000)
        frames.kernel("gemm", begin + 2_000, begin + 2_010, work)
        frames.kernel(ALL_REDUCE, begin + arrival - 10, begin + arrival, 8_500 - arrival, stream=9)
        if aside:
            frames.kernel("aside", begin + arrival, begin + arrival + 10, aside, stream=11)
        frames.call("cudaDeviceSynchronize", begin + 10_000)
    clean = clean_timings([5_200] * 40, launch=5_000)
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
    assert found is not None, comparison[name].waterfall_reason
    return found


def test_waiting_for_a_rank_that_launches_late_is_no_kernel_time() -> None:
    found = compare(_of(_eager(0, 8_000), _eager(1, 4_000)))
    early, late = (_equation(found, f"graph-rank{rank}") for rank in (1, 0))
    # The wait of 4,000 is one for the other rank's CPU, which is twice as fast without the
    # profiler; both ranks transfer for 500.
    assert (early.before.ranks, early.before.kernels) == (2_000, 1_000)
    assert (late.before.ranks, late.before.kernels) == (0, 1_000)
    for one in (early, late):
        assert one.saved.total == one.before_ns - one.after_ns
        assert one.remainder_share < 0.05
    assert dict(early.causes)[Cause.RANKS] == 2_000
    assert found["graph-rank1"]["rank_wait_removed"].value == 2_000


def test_waiting_for_a_rank_that_works_for_longer_is_as_long_without_the_profiler() -> None:
    found = compare(_of(_eager(0, 8_000, work=5_500), _eager(1, 4_000)))
    one = _equation(found, "graph-rank1")
    # Of 4,000 the other's longer product explains all but nothing.
    assert one.before.ranks == 4_000


def test_what_runs_beside_a_wait_is_work_and_no_wait() -> None:
    found = compare(_of(_eager(0, 8_000), _eager(1, 4_000, aside=700)))
    one = _equation(found, "graph-rank1")
    assert one.before.ranks == 2_000 - 700
    assert one.before.kernels == 1_000 + 700


def test_one_process_has_no_such_part() -> None:
    found = compare(load_experiment(Path("sample_traces/mlp-train")))
    one = _equation(found, "graph")
    assert Cause.RANKS not in dict(one.causes)
    assert found["graph"]["rank_wait_removed"].value is None


def test_a_rank_without_the_others_waits_for_nobody_that_is_known() -> None:
    assert rank_waits(make_experiment(_named(_eager(0, 4_000), "eager-rank0"))) == {}


_times = st.integers(1_000, 40_000)


@st.composite
def _truths(draw: st.DrawFn) -> Truth:
    ranks, places = draw(st.integers(2, 4)), draw(st.integers(1, 5))
    rows = st.lists(_times, min_size=places, max_size=places).map(tuple)
    table = st.lists(rows, min_size=ranks, max_size=ranks).map(tuple)
    clock = tuple(draw(st.lists(st.integers(0, 200_000), min_size=ranks, max_size=ranks)))
    return Truth(compute=draw(table), idle=draw(st.none() | table), clock=clock, steps=3)


@settings(max_examples=25, deadline=None)
@given(_truths())
def test_waits_are_those_of_the_truth_whatever_the_clocks_say(truth: Truth) -> None:
    with TemporaryDirectory() as folder:
        make_ranks(Path(folder), "graph", truth)
        loaded = load_experiment(Path(folder))
        found = rank_waits(loaded)
        (rows, *_) = truth.schedule()
        for rank, run in enumerate(loaded.runs):
            assert run.replay_trace is not None
            gpu = run.replay_trace.gpu
            waits = found[run.name]
            collectives = [name == truth.collective for name in gpu["name"].to_list()]
            arrivals = [[row[2] for row in own] for own in rows]
            expected = [max(at) - at[rank] for at in zip(*arrivals, strict=True)]
            assert waits.total[collectives].tolist() == expected * truth.steps
            assert not waits.total[[not one for one in collectives]].any()
            assert (waits.by_work <= waits.total).all()
            assert (waits.total <= column(gpu, "dur")).all()
            if truth.idle is None and len(expected) > 1:
                # Nothing but work keeps a rank from arriving.
                steady = waits.by_work[collectives][1 : len(expected)]
                assert steady.tolist() == expected[1:]


@pytest.mark.parametrize("rank", [0, 1])
def test_the_recorded_ranks_leave_little_unexplained(rank: int) -> None:
    found = compare(load_experiment(Path("sample_traces/tp-transformer")))
    one = _equation(found, f"graph-rank{rank}")
    assert one.saved.total == one.before_ns - one.after_ns
    assert one.remainder_share < 0.05
    for shares in (one.modules, one.operators):
        assert sum(share.saved.ranks for share in shares) == one.saved.ranks
