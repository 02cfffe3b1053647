from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.comparison.recorded_figures import compute_loop_metrics
from graphviz_dash.analysis.loop.family_report import LoopReport, build_loop_report
from graphviz_dash.analysis.loop.step_modes import summarize_modes
from graphviz_dash.analysis.metrics.loop_columns import NONE, build_loop_columns
from graphviz_dash.features.ladder.narrative import summarize_loop
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.loop import StepKind
from graphviz_dash.model.recording import BoundaryKind
from graphviz_dash.model.run import Run
from tests.loops import EAGER_NS, make_server, replay_ns
from tests.samples import SAMPLES


def load_report(folder: Path) -> LoopReport:
    report = build_loop_report(load_run(folder, traces=False))
    assert isinstance(report, LoopReport)
    return report


def test_steps_above_the_largest_graph_are_counted_with_their_time(tmp_path: Path) -> None:
    requests = (32, 40, 48, 20) * 30
    report = load_report(make_server(tmp_path / "service", sizes=(16, 32), requests=requests))
    by_kind = {mode.kind: mode for mode in report.modes}
    replayed, eager = by_kind[StepKind.REPLAY], by_kind[StepKind.FALLBACK]
    captured = by_kind[StepKind.CAPTURE]
    assert (captured.kind, captured.steps, captured.time_share) == (StepKind.CAPTURE, 2, None)
    assert replayed.step_time is not None
    assert replayed.step_time.spread.low <= replayed.step_time.median
    assert (replayed.kind, replayed.steps, replayed.sizes) == (StepKind.REPLAY, 60, (20, 32))
    assert (replayed.steps_above, replayed.sizes_above) == (0, None)
    assert (eager.kind, eager.steps, eager.steps_above, eager.sizes_above) == (
        StepKind.FALLBACK,
        60,
        60,
        (40, 48),
    )
    # Both request sizes replay the graph for 32; an interval is the call plus the wait.
    replay, fallback = replay_ns(32) + 50_000, EAGER_NS + 50_000
    assert eager.time_share is not None
    assert abs(eager.time_share - fallback / (fallback + replay)) < 0.001


def test_a_wait_for_requests_is_no_time_of_a_step(tmp_path: Path) -> None:
    folder = make_server(tmp_path / "service", sizes=(16, 32), requests=(32, 40) * 30)
    run = load_run(folder, traces=False)
    assert run.loop is not None
    steps = run.loop.steps
    # One pause of ten seconds in the middle.
    middle = len(steps.kind) // 2
    later = tuple(
        begin + (10_000_000_000 if row >= middle else 0) for row, begin in enumerate(steps.start_ns)
    )
    paused = replace(run.loop, steps=replace(steps, start_ns=later))
    before, after = build_loop_report(run), build_loop_report(replace(run, loop=paused))
    assert isinstance(before, LoopReport)
    assert isinstance(after, LoopReport)
    assert [mode.time_share for mode in after.modes] == [mode.time_share for mode in before.modes]


def test_steps_that_were_only_counted_belong_to_their_size(tmp_path: Path) -> None:
    folder = make_server(tmp_path / "service", sizes=(16, 32), requests=(16,) * 90 + (32,) * 40)
    run = load_run(folder, traces=False)
    assert run.loop is not None
    steps = run.loop.steps
    # After 30 steps, recording rests while the same graph is replayed.
    kept = [row for row in range(len(steps.kind)) if not 32 <= row < 92]
    names = steps.__struct_fields__
    columns = [tuple(getattr(steps, name)[row] for row in kept) for name in names]
    rested = replace(run.loop, steps=type(steps)(*columns), clean_steps=len(kept))
    report = build_loop_report(replace(run, loop=rested))
    assert isinstance(report, LoopReport)
    (family,) = report.families
    assert {member.size: member.steps for member in family.members} == {16: 90, 32: 40}
    assert family.replays == 130
    (replayed,) = (mode for mode in report.modes if mode.kind is StepKind.REPLAY)
    assert replayed.steps == 130
    assert report.only_counted_replays == 0


def test_eager_steps_of_no_family_are_no_fallbacks(tmp_path: Path) -> None:
    """Such as prefills before decode graphs."""
    run = load_run(make_server(tmp_path / "service", sizes=(32,), requests=(32,) * 9 + (40,) * 3))
    assert run.loop is not None
    steps = run.loop.steps
    families = tuple(
        None if kind is StepKind.FALLBACK else family
        for kind, family in zip(steps.kind, steps.family, strict=True)
    )
    loop = replace(run.loop, steps=replace(steps, family=families))
    report = build_loop_report(replace(run, loop=loop))
    assert isinstance(report, LoopReport)
    assert [family.fallbacks for family in report.families] == [0]
    text = summarize_loop(report)
    assert "9 steps replayed, 3 eager steps with other inputs" in text
    assert "without a matching graph" not in text


def test_counted_steps_have_their_share_of_the_time(tmp_path: Path) -> None:
    folder = make_server(tmp_path / "service", sizes=(32,), requests=(32,) * 90 + (40,) * 30)
    run = load_run(folder, traces=False)
    assert run.loop is not None
    columns = build_loop_columns(run.loop)
    shares = [
        next(
            mode.time_share
            for mode in summarize_modes(columns, run.loop.families, steps)
            if mode.kind is StepKind.REPLAY
        )
        for steps in ({}, {0: 900})
    ]
    assert shares[0] is not None
    assert shares[1] == pytest.approx(10 * shares[0] / (1 + 9 * shares[0]))


def test_a_recorded_step_of_several_replays_is_named(tmp_path: Path) -> None:
    """Sizes in a fixed order, of which the recorder makes one step and the loop several."""
    run = load_run(make_server(tmp_path / "service", sizes=(8, 16, 32), requests=(8, 16, 32) * 20))
    assert run.recording is not None
    per_replay = compute_replay_ns(run)
    ends = (BoundaryKind.REPLAYS, "replay of graph-1")
    recording = replace(run.recording, boundary_kind=ends[0], boundary=ends[1])
    cycle = replace(run, recording=recording)
    report = build_loop_report(cycle)
    assert isinstance(report, LoopReport)
    assert "60 steps replayed. Here each replay is a step. " in summarize_loop(report)
    assert summarize_loop(report).endswith("from one replay of graph-1 to the next: 3 steps.")
    assert compute_replay_ns(cycle) == pytest.approx(3 * per_replay)
    # One graph follows itself, or the ends of steps are marked.
    for boundary in (
        (ends[0], "replay of any graph captured at a.py:1"),
        (BoundaryKind.LABEL, ends[1]),
    ):
        other = replace(recording, boundary_kind=boundary[0], boundary=boundary[1])
        same = build_loop_report(replace(run, recording=other))
        assert isinstance(same, LoopReport)
        assert same.recorded_step is None


def compute_replay_ns(run: Run) -> float:
    values = {each.metric.id: each.value for each in compute_loop_metrics(run)}
    replay_ns = values["loop_replay"]
    assert replay_ns is not None
    return replay_ns


def test_steps_shorter_than_their_replays_have_no_interval(tmp_path: Path) -> None:
    """The CPU runs ahead of the GPU, so that intervals show launches only."""
    run = load_run(make_server(tmp_path / "service", sizes=(32,), requests=(32,) * 90))
    assert run.loop is not None
    columns = build_loop_columns(run.loop)
    short = replace(columns, period_ns=np.where(columns.period_ns > 0, 1_000, columns.period_ns))
    times = [
        mode.step_time
        for steps in (columns, short)
        for mode in summarize_modes(steps, run.loop.families, {})
        if mode.kind is StepKind.REPLAY
    ]
    assert times[0] is not None
    assert times[1:] == [None]


def test_replays_after_the_recorded_steps_are_reported(tmp_path: Path) -> None:
    """Steps that end with an optimizer are recorded only at first, their replays always."""
    run = load_run(make_server(tmp_path / "service", sizes=(16, 32), requests=(16, 32) * 10))
    assert run.recording is not None
    graphs = tuple(replace(graph, replays=500) for graph in run.recording.graphs)
    report = build_loop_report(replace(run, recording=replace(run.recording, graphs=graphs)))
    assert isinstance(report, LoopReport)
    assert report.only_counted_replays == 1_000
    assert (
        "20 steps replayed (only the first steps were recorded; 1,000 replays in all)."
        in summarize_loop(report)
    )
    # An inner loop replays one of its graphs more often than once per step.
    inner = (replace(graphs[0], replays=10), graphs[1])
    report = build_loop_report(replace(run, recording=replace(run.recording, graphs=inner)))
    assert isinstance(report, LoopReport)
    assert report.only_counted_replays == 0


def test_steps_without_intervals_have_no_times(tmp_path: Path) -> None:
    run = load_run(make_server(tmp_path / "service", sizes=(16, 32), requests=(32, 40)))
    assert run.loop is not None
    columns = replace(
        build_loop_columns(run.loop), period_ns=np.full(len(run.loop.steps.kind), NONE)
    )
    modes = summarize_modes(columns, run.loop.families, {})
    assert {mode.kind for mode in modes} >= {StepKind.REPLAY, StepKind.CAPTURE}
    assert [(mode.step_time, mode.time_share) for mode in modes] == [(None, None)] * len(modes)


def test_steps_of_untimed_sizes_count_with_the_median_of_their_mode() -> None:
    """35 of 54 decode steps came after the traced window had opened, at sizes without a time."""
    report = load_report(SAMPLES / "recorded-batching" / "interval-32")
    shares = [
        (mode.steps, mode.step_time.median, mode.time_share)
        for mode in report.modes
        if mode.time_share is not None and mode.step_time is not None
    ]
    total_ns = sum(steps * median for steps, median, _ in shares)
    assert [steps for steps, _, _ in shares] == [54, 37]
    for steps, median, share in shares:
        assert share == pytest.approx(steps * median / total_ns, abs=0.01)
