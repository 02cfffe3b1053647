"""Estimate step times in a server loop that never waits."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.comparison.recorded_figures import (
    compute_recorded_metrics,
    compute_relative_recorded_metrics,
)
from graphviz_dash.analysis.metrics.program_step import compute_program_step, list_loop_periods
from graphviz_dash.analysis.metrics.recorded_step import RecordedStep, StepFigure
from graphviz_dash.analysis.sample_statistics import SpreadKind
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run
from tests.loops import make_server, replay_ns


def step_of(run: Run) -> float | None:
    return {figure.metric.id: figure.value for figure in compute_recorded_metrics(run)}[
        "recorded_step"
    ]


def server(folder: Path, size: int, steps: int = 200, gpu_share: float = 1.0) -> Run:
    """A server with requests of one size.

    ``gpu_share`` is the replay's share of a step less 50 us.
    """
    run = load_run(make_server(folder, f"of-{size}", sizes=(size,), requests=[size] * steps))
    assert run.loop is not None
    steps_of = run.loop.steps
    gpu = tuple(None if ns is None else round(ns * gpu_share) for ns in steps_of.gpu_ns)
    return replace(run, loop=replace(run.loop, steps=replace(steps_of, gpu_ns=gpu)))


def test_it_is_the_time_from_step_to_step(tmp_path: Path) -> None:
    run = server(tmp_path, 16)
    assert run.recording is not None
    assert run.recording.final_wait_ns is None
    assert step_of(run) == pytest.approx(replay_ns(16) + 50_000)


def test_a_cpu_that_runs_ahead_tells_nothing(tmp_path: Path) -> None:
    """Replays that take longer on the GPU than it is from one to the next."""
    assert step_of(server(tmp_path, 16, gpu_share=3.0)) is None


def test_few_steps_tell_nothing(tmp_path: Path) -> None:
    run = server(tmp_path, 16, steps=20)
    assert run.loop is not None
    assert not list_loop_periods(run.loop)


def test_two_ladders_are_compared(tmp_path: Path) -> None:
    small, large = server(tmp_path, 16), server(tmp_path, 32)
    told = {
        figure.metric.id: figure.value for figure in compute_relative_recorded_metrics(large, small)
    }
    before, after = (replay_ns(size) + 50_000 for size in (16, 32))
    assert told["recorded_speedup"] == pytest.approx(before / after)


def with_steps(run: Run, *step_ns: int) -> Run:
    """``run`` with recorded steps and no wait after the last."""
    assert run.recording is not None
    return replace(run, recording=replace(run.recording, step_ns=step_ns, final_wait_ns=0))


def get_step(run: Run) -> RecordedStep:
    step = compute_program_step(run)
    assert isinstance(step, RecordedStep)
    return step


def test_a_server_that_waits_has_the_median_of_its_steps(tmp_path: Path) -> None:
    """Thirty steps of 1 ms and ten in which it waits for requests: a mean of 50.75 ms describes
    none of them."""
    step = get_step(with_steps(server(tmp_path, 16), *[1_000_000] * 30, *[200_000_000] * 10))
    assert isinstance(step.median, StepFigure)
    assert step.main is step.median
    assert step.median.ns == 1_000_000
    assert step.mean.ns == 50_750_000
    assert step.median.spread is not None
    assert step.median.spread.kind is SpreadKind.QUARTILES
    assert (step.median.spread.low, step.median.spread.high) == (1_000_000, 50_750_000)


def test_a_cpu_that_runs_ahead_has_a_mean(tmp_path: Path) -> None:
    """Launches of 0.1 ms, each tenth of which waits for replays that last longer than a step."""
    step = get_step(
        with_steps(server(tmp_path, 16, gpu_share=3.0), *([100_000] * 9 + [3_700_000]) * 4)
    )
    assert isinstance(step.median, Missing)
    assert step.main.ns == 460_000


def test_regular_waits_of_steps_longer_than_their_replays_have_a_median(tmp_path: Path) -> None:
    step = get_step(with_steps(server(tmp_path, 16), *([1_000_000] * 9 + [3_700_000]) * 4))
    assert step.main.ns == 1_000_000


def test_calls_at_the_start_are_no_cpu_that_runs_ahead(tmp_path: Path) -> None:
    """Most steps between two compilations are calls that replay nothing, shorter than a replay."""
    step = get_step(with_steps(server(tmp_path, 16), *[20_000] * 30, *[200_000_000] * 5))
    assert (step.main.ns, step.is_median) == (20_000, True)


def test_a_server_that_waits_is_compared_by_medians_only(tmp_path: Path) -> None:
    waiting = with_steps(server(tmp_path, 16), *[1_000_000] * 30, *[200_000_000] * 10)
    busy = with_steps(server(tmp_path, 32), *[500_000] * 40)
    speedup = next(iter(compute_relative_recorded_metrics(busy, waiting)))
    assert speedup.value == 2
    ahead = replace(busy, recording=replace(busy.recording, final_wait_ns=900_000))
    for figure in compute_relative_recorded_metrics(ahead, waiting):
        assert figure.missing is not None
        assert "a few long steps take most of the time of one run" in figure.missing.reason
