from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.recorded_figures import (
    compute_loop_metrics,
    compute_relative_recorded_metrics,
)
from graphviz_dash.analysis.metrics.program_step import compute_program_step, list_step_times
from graphviz_dash.analysis.metrics.recorded_step import RecordedStep, StepFigure
from graphviz_dash.analysis.metrics.run_selection import (
    get_family,
    is_eager_recording,
    select_baseline,
)
from graphviz_dash.analysis.metrics.thresholds import FEW_STEPS
from graphviz_dash.analysis.sample_statistics import Spread, SpreadKind
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compilation import Compilation
from graphviz_dash.model.loop import StepKind
from graphviz_dash.model.recording import BoundaryKind, RecordedGraph, Recording
from graphviz_dash.model.run import Absent, ExecutionMode, Run
from graphviz_dash.narrative.answer import (
    build_run_answer,
    format_answer,
    format_recorded_steps,
)
from graphviz_dash.narrative.headline import build_headline
from graphviz_dash.narrative.low_confidence import describe_low_confidence
from graphviz_dash.units import format_ns
from tests.analysis.frames import make_experiment, make_run, steps_trace
from tests.loops import make_server, replay_ns
from tests.samples import SAMPLES, compared_sample

GRAPH = RecordedGraph("graph-0", ("train.py:9",), 5_000, 0, 3, 60, 4, False, True)


def recording(
    step_ns: int, *, count: int = 40, graphs: tuple[RecordedGraph, ...] = ()
) -> Recording:
    return Recording(
        boundary_kind=BoundaryKind.OPTIMIZER,
        boundary="SGD.step returns",
        skip_steps=count,
        requested_window_steps=5,
        steps=count + 8,
        step_ns=(step_ns,) * count,
        final_wait_ns=step_ns * count,
        window_steps=5,
        window_missing_reason=None,
        profiler_active=False,
        earlier_replays=0,
        graphs=graphs,
    )


def recorded(name: str, what: Recording, rank: int | None = None) -> Run:
    run = make_run(
        name,
        ExecutionMode.RECORDED,
        trace=steps_trace(5, 9_000, (("k", 700),), graph=bool(what.graphs)),
        absent=(Absent("clean pass", "it ran once"),),
        rank=rank,
    )
    return replace(run, recording=what)


def both() -> tuple[Run, Run]:
    return recorded("graphed", recording(1_000, graphs=(GRAPH,))), recorded(
        "slow", recording(4_000)
    )


def test_a_step_is_the_total_and_the_drain_over_the_count() -> None:
    (run,) = compare_runs(make_experiment(recorded("graphed", recording(1_000)))).runs
    # Forty steps of 1,000 ns as the CPU saw them, and as long again until the GPU was done.
    assert run["recorded_mean"].value == 2_000
    assert run["recorded_mean"].spread is None
    assert "runs ahead of the GPU" in run["recorded_step"].missing.reason
    assert run.step is run["recorded_mean"]
    assert run["step_time"].missing.reason == "it ran once"


def test_a_pause_is_no_part_of_the_step() -> None:
    """One step of 15.9 ms among 1.1 ms: not 1.61 ms per step."""
    times = [1_100_000 + 1_000 * (at % 3) for at in range(29)]
    times[17] = 15_900_000
    paused = replace(recording(1), step_ns=tuple(times), final_wait_ns=20_000)
    comparison = compare_runs(make_experiment(recorded("paused", paused)))
    (run,) = comparison.runs
    step, mean, pauses = (
        run[metric] for metric in ("recorded_step", "recorded_mean", "recorded_pauses")
    )
    assert run.step is step
    assert step.value == 1_101_000
    assert step.spread == Spread(1_100_000, 1_102_000, SpreadKind.QUARTILES, 28)
    assert mean.value is not None
    assert mean.spread is not None
    assert mean.spread.high is not None
    assert mean.spread.low <= mean.value <= mean.spread.high < 1_110_000
    assert pauses.value is not None
    assert mean.value * 29 + pauses.value == pytest.approx(sum(times) + 20_000)
    assert "1.10 ms per step (recorded median)" in build_headline(comparison)


def test_a_read_in_each_tenth_step_is_part_of_the_loop() -> None:
    times = ([500_000] * 9 + [5_500_000]) * 4
    reading = replace(recording(1), step_ns=tuple(times), final_wait_ns=0)
    (run,) = compare_runs(make_experiment(recorded("reading", reading))).runs
    assert run.step is run["recorded_mean"]
    assert run.step.value == 1_000_000
    assert "long step in each 10 may wait" in run["recorded_step"].missing.reason
    assert run["recorded_pauses"].value == 0


def test_launches_of_a_cpu_that_runs_ahead_are_no_steps_in_the_headline() -> None:
    """Launches of 12.7 us, and a wait of 28 ms for the GPU after them: 959 us per step."""
    ahead = replace(recording(1), step_ns=(12_700,) * 27 + (300_000,) * 3, final_wait_ns=27_500_000)
    result = compare_runs(make_experiment(recorded("ahead", ahead)))
    assert result["ahead"].step.value == pytest.approx(958_000, rel=0.01)
    assert format_recorded_steps(result["ahead"]) == ""
    assert "958 µs" in build_headline(result)


def test_the_run_without_graphs_is_the_baseline() -> None:
    result = compare_runs(make_experiment(*both()))
    assert result.baseline == "slow"
    graphed, slow = result["graphed"], result["slow"]
    assert slow.is_baseline
    assert (graphed.baseline, graphed.is_baseline) == ("slow", False)
    assert graphed["recorded_speedup"].value == 4
    assert graphed["recorded_saving"].value == 6_000
    assert graphed["recorded_replays"].value == 60
    assert graphed["speedup"].value is None
    assert result.best is graphed
    assert "4.00x faster than slow" in build_headline(result)
    assert graphed.step.value == 2_000
    assert graphed.time_by_category.step_ns == 2_000
    assert format_answer(build_run_answer(graphed)).startswith(
        "Yes: graphed is 4.00x faster than slow, 2.00 µs instead of 8.00 µs per step"
    )
    assert "per step (recorded mean)." in format_answer(build_run_answer(graphed))


def make_uneven(mean_ns: int, seed: int, graphs: tuple[RecordedGraph, ...] = ()) -> Recording:
    times = np.random.default_rng(seed).normal(mean_ns, mean_ns / 10, 100)
    return replace(
        recording(mean_ns, count=100, graphs=graphs),
        step_ns=tuple(times.astype(int).tolist()),
        final_wait_ns=0,
    )


def test_a_recorded_speedup_has_the_interval_of_both_steps() -> None:
    runs = (
        recorded("graphed", make_uneven(1_000, 1, (GRAPH,))),
        recorded("slow", make_uneven(2_000, 2)),
    )
    speedup, saving = (
        compare_runs(make_experiment(*runs))["graphed"][metric]
        for metric in ("recorded_speedup", "recorded_saving")
    )
    for figure, low, high in ((speedup, 1.85, 2.15), (saving, 900, 1_100)):
        assert figure.value is not None
        assert figure.spread is not None
        assert figure.spread.high is not None
        assert low < figure.spread.low < figure.value < figure.spread.high < high


def test_runs_are_compared_by_means_if_one_has_no_median() -> None:
    """A speedup divides figures of one statistic: never a median by a mean."""
    rare = make_uneven(2_000, 2)
    rare = replace(rare, step_ns=(*rare.step_ns[:96], *[3_900] * 4))
    ahead = replace(make_uneven(1_000, 1, (GRAPH,)), final_wait_ns=100_000)
    result = compare_runs(make_experiment(recorded("graphed", ahead), recorded("slow", rare)))
    graphed, slow = result["graphed"], result["slow"]
    assert slow["recorded_step"].value != slow["recorded_mean"].value
    assert (slow.step, graphed.step) == (slow["recorded_mean"], graphed["recorded_mean"])
    assert slow.step.value
    assert graphed.step.value
    assert graphed.speedup.value == slow.step.value / graphed.step.value
    medians = compare_runs(
        make_experiment(
            recorded("graphed", make_uneven(1_000, 1, (GRAPH,))), recorded("slow", rare)
        )
    )
    assert medians["slow"].step is medians["slow"]["recorded_step"]
    assert "per step (recorded median)." in format_answer(build_run_answer(medians["graphed"]))


def test_regular_long_steps_are_no_pauses() -> None:
    """A read of the loss in each fiftieth step waits for the GPU: 1 ms, not 0.5 ms per step."""
    times = ([500_000] * 49 + [25_500_000]) * 4
    reading = replace(recording(1), step_ns=tuple(times), final_wait_ns=0)
    (run,) = compare_runs(make_experiment(recorded("reading", reading))).runs
    assert run["recorded_pauses"].value == 0
    assert run.step.value == 1_000_000


@pytest.mark.parametrize(("count", "least"), [(30, 0.88), (100, 0.9), (300, 0.9)])
def test_the_interval_of_a_recorded_speedup_covers_it(count: int, least: float) -> None:
    generator = np.random.default_rng(count)
    hits = 0
    for _ in range(100):
        before, after = (
            replace(
                recording(1, count=count),
                step_ns=tuple(map(int, mean * np.exp(generator.normal(0, 0.1, count)))),
                final_wait_ns=0,
            )
            for mean in (2_000_000, 1_000_000)
        )
        speedup, _ = compute_relative_recorded_metrics(
            recorded("graphed", after), recorded("slow", before)
        )
        assert speedup.spread is not None
        assert speedup.spread.high is not None
        hits += speedup.spread.low <= 2 <= speedup.spread.high
    assert hits >= least * 100


def test_recorded_steps_within_their_noise_have_no_cause() -> None:
    runs = (
        recorded("graphed", make_uneven(1_000, 1, (GRAPH,))),
        recorded("slow", make_uneven(1_005, 2)),
    )
    answer = format_answer(build_run_answer(compare_runs(make_experiment(*runs))["graphed"]))
    assert answer.startswith("No significant difference between graphed and slow")
    assert "is within noise: speedup 0." in answer
    assert "launch overhead" not in answer


def test_a_marginal_speedup_without_an_interval_is_no_difference() -> None:
    runs = (
        recorded("graphed", recording(1_000, graphs=(GRAPH,))),
        recorded("slow", recording(1_005)),
    )
    answer = format_answer(build_run_answer(compare_runs(make_experiment(*runs))["graphed"]))
    assert answer.startswith("No significant difference between graphed and slow")
    assert "per step (recorded mean)." in answer
    assert "has no interval, so it may be noise" in answer
    assert "launch overhead" not in answer


def test_recorded_and_collected_runs_are_never_compared() -> None:
    graphed, _ = both()
    eager = make_run("eager", trace=steps_trace(5, 9_000, (("k", 700),), graph=False))
    result = compare_runs(make_experiment(eager, graphed))
    found = result["graphed"]["recorded_speedup"]
    assert found.value is None
    assert (
        found.missing.reason
        == "the baseline eager: mode eager uses collection passes, not the recorder"
    )
    assert result["eager"]["recorded_step"].missing.reason == (
        "mode eager uses collection passes, not the recorder"
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"profiler_active": True}, "a profiler had run"),
        ({"final_wait_ns": None}, "ended before a synchronisation"),
        ({"step_ns": ()}, "no step was timed after the last capture"),
        ({"boundary_kind": None}, "nothing in the program looked like a step"),
    ],
)
def test_a_missing_recorded_step_has_a_reason(change: dict[str, object], reason: str) -> None:
    what = msgspec.structs.replace(recording(1_000), **change)
    (run,) = compare_runs(make_experiment(recorded("graphed", what))).runs
    assert run["recorded_step"].value is None
    assert reason in run["recorded_step"].missing.reason
    if isinstance(run.time_by_category, Missing):
        assert reason in run.time_by_category.reason
    else:  # where no step was timed without a profiler, the traced one is divided, and says so
        assert run.time_by_category.profiled


def test_few_steps_and_failed_captures_are_weak() -> None:
    failed = msgspec.structs.replace(GRAPH, nodes=None, problem="Error: no")
    what = recording(1_000, count=FEW_STEPS - 1, graphs=(failed,))
    (run,) = compare_runs(make_experiment(recorded("graphed", what))).runs
    texts = {note.code: note.text for note in describe_low_confidence(run.low_confidence)}
    assert texts["few-recorded-steps"] == f"recorded step: only {FEW_STEPS - 1} steps"
    assert texts["capture-problem"] == "graph-0 at train.py:9: Error: no"


@pytest.mark.parametrize(("rare", "weak"), [(900_000, True), (30_000, False)])
def test_a_mean_that_few_long_steps_make_up_is_reported(rare: int, weak: bool) -> None:
    what = msgspec.structs.replace(
        recording(10_000), step_ns=(10_000,) * 36 + (rare,) * 4, final_wait_ns=0
    )
    (run,) = compare_runs(make_experiment(recorded("server", what))).runs
    texts = {note.code: note.text for note in describe_low_confidence(run.low_confidence)}
    assert ("uneven-steps" in texts) == weak
    if weak:
        assert (
            "4 of 40 steps make up 90.9% of the time; the median of all 40 is 10.0 µs, "
            "the mean 99.0 µs" in texts["uneven-steps"]
        )


@pytest.mark.parametrize(("seen", "note"), [(4, "1 of 5 graph launches"), (5, None)])
def test_launches_of_graphs_that_were_not_seen_are_reported(seen: int, note: str | None) -> None:
    graph = msgspec.structs.replace(GRAPH, window_replays=seen)
    (run,) = compare_runs(
        make_experiment(recorded("graphed", recording(1_000, graphs=(graph,))))
    ).runs
    texts = {note.code: note.text for note in describe_low_confidence(run.low_confidence)}
    assert ("unseen-graphs" in texts) == (note is not None)
    assert texts.get("unseen-graphs", "").startswith(note or "")


def test_a_rank_is_held_against_its_own_rank_of_the_same_program() -> None:
    runs = [
        recorded(f"{name}-rank{rank}", recording(step, graphs=graphs), rank)
        for name, step, graphs in (("fast", 1_000, (GRAPH,)), ("plain", 3_000, ()))
        for rank in (0, 1)
    ]
    assert [get_family(run) for run in runs] == ["fast", "fast", "plain", "plain"]
    result = compare_runs(make_experiment(*runs))
    assert [(run.name, run.baseline) for run in result.runs] == [
        ("plain-rank0", None),
        ("plain-rank1", None),
        ("fast-rank0", "plain-rank0"),
        ("fast-rank1", "plain-rank1"),
    ]


def made(name: str, hour: int, what: Recording, compilation: Compilation | None = None) -> Run:
    run = recorded(name, what)
    created = f"2026-11-21T{hour:02}:00:00+00:00"
    manifest = msgspec.structs.replace(run.manifest, created=created)
    return replace(run, manifest=manifest, compilation=compilation)


def test_the_recording_made_first_is_the_baseline_where_none_ran_eagerly() -> None:
    first = made("b-unfixed", 8, recording(4_000, graphs=(GRAPH,)))
    # Its compiled code lost its graphs: what was changed, not what it is compared with.
    fixed = made("a-fixed", 9, recording(1_000), Compilation(None, ()))
    assert select_baseline((fixed, first)) == first
    assert select_baseline((fixed, first, made("plain", 10, recording(5_000)))).name == "plain"
    assert select_baseline((fixed,)) is None
    tenth = made("version-10", 8, recording(1_000, graphs=(GRAPH,)))
    second = made("version-2", 9, recording(4_000, graphs=(GRAPH,)))
    assert select_baseline((tenth, second)) == second
    assert (
        select_baseline((tenth, made("version-b", 9, recording(4_000, graphs=(GRAPH,))))) == tenth
    )
    manifest = msgspec.structs.replace(
        first.manifest, workload=msgspec.structs.replace(first.manifest.workload, name="other.py")
    )
    assert select_baseline((fixed, replace(first, manifest=manifest))) is None


def test_a_run_that_replayed_something_did_not_run_eagerly() -> None:
    graphed, slow = both()
    assert is_eager_recording(slow)
    assert not is_eager_recording(graphed)
    earlier = msgspec.structs.replace(recording(1_000), earlier_replays=1)
    assert not is_eager_recording(recorded("later", earlier))


@pytest.mark.parametrize("name", ["recorded-vllm", "recorded-sglang"])
def test_the_step_of_an_engine_covers_all_its_steps(name: str) -> None:
    """The recorder's own clock stops at the traced window; the engine's steps go on."""
    run = load_run(SAMPLES / name / "default-sizes", traces=False)
    assert run.loop is not None
    assert run.recording is not None
    steps, later = run.loop.steps, run.loop.later_clean_steps
    assert later is not None
    periods = [
        steps.start_ns[row + 1] - steps.start_ns[row]
        for first, last in ((0, run.loop.clean_steps), later)
        for row in range(first, last - 1)
        if steps.real_size[row] is not None and steps.kind[row] is not StepKind.CAPTURE
    ]
    assert len(periods) > 20 * len(run.recording.step_ns)
    step = compute_program_step(run)
    assert isinstance(step, RecordedStep)
    assert isinstance(step.median, StepFigure)
    assert list(list_step_times(run)) == periods
    # The sentence and the table share the median.
    comparison = compared_sample(name)
    assert format_ns(step.median.ns) in build_headline(comparison)
    text = format_recorded_steps(comparison["default-sizes"])
    assert text == "" or text.startswith(f"median step {format_ns(step.median.ns)},")
    assert step.median.ns == pytest.approx(float(np.median(periods)), rel=0.01)
    assert step.mean.ns == pytest.approx(float(np.mean(periods)))


def compute_loop_figures(run: Run) -> dict[str, float | None]:
    return {figure.metric.id: figure.value for figure in compute_loop_metrics(run)}


def test_a_server_has_metrics_of_its_loop(tmp_path: Path) -> None:
    requests = [8] * 100 + [16] * 100 + [12] * 100 + [40] * 100
    run = load_run(make_server(tmp_path, sizes=(8, 16), requests=requests))
    known = compute_loop_figures(run)
    # Samples lie up to 2 us above the replays, 1 us in the median.
    assert known["loop_replay"] == pytest.approx((replay_ns(8) + 2 * replay_ns(16)) / 3, abs=1_000)
    # A graph for 12 would take 40 us less than that for 16.
    assert known["loop_padding"] == pytest.approx(40_000 / 4, abs=500)
    padding = next(each for each in compute_loop_metrics(run) if each.metric.id == "loop_padding")
    assert padding.spread is not None
    assert 9_000 < padding.spread.low < 10_000 < (padding.spread.high or 0) < 11_000
    assert known["loop_fallbacks"] == 0.25
    assert known["loop_startup"] == 2 * (20_000_000 + 40_000)


def test_padding_of_unlabelled_requests_is_unknown(tmp_path: Path) -> None:
    known = compute_loop_figures(load_run(make_server(tmp_path, method=None)))
    assert known["loop_padding"] is None
    assert known["loop_replay"] is not None
