"""What a step takes in the loop of a server that nothing waited for."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.comparison.recorded_figures import (
    compute_recorded_metrics,
    compute_relative_recorded_metrics,
)
from graphviz_dash.analysis.loop.loop_step import compute_loop_step_ns
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.run import Run
from tests.loops import make_server, replay_ns


def step_of(run: Run) -> float | None:
    return {figure.metric.id: figure.value for figure in compute_recorded_metrics(run)}[
        "recorded_step"
    ]


def server(folder: Path, size: int, steps: int = 200, gpu_share: float = 1.0) -> Run:
    """All requests are of one size; a step takes 50 us besides its replay, which takes
    ``gpu_share`` of what it is from one to the next less that."""
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
    assert compute_loop_step_ns(run.loop) is None


def test_two_ladders_are_compared(tmp_path: Path) -> None:
    small, large = server(tmp_path, 16), server(tmp_path, 32)
    told = {
        figure.metric.id: figure.value for figure in compute_relative_recorded_metrics(large, small)
    }
    before, after = (replay_ns(size) + 50_000 for size in (16, 32))
    assert told["recorded_speedup"] == pytest.approx(before / after)
