from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.replays.replays import match_replays
from graphviz_dash.analysis.trace.steps import find_steps
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import Absent, ExecutionMode, Experiment, Pass
from graphviz_dash.narrative.low_confidence import describe_low_confidence
from tests.analysis.eager_and_graph import both, eager, graphed
from tests.analysis.frames import (
    LIFE,
    Frames,
    clean_timings,
    failure,
    make_experiment,
    make_run,
    steps_trace,
)


class TestBaseline:
    def test_eager_unless_told(self) -> None:
        assert both().baseline == "eager"
        other = compare_runs(make_experiment(eager(), graphed()), "graph")
        assert other.baseline == "graph"
        assert other["eager"]["speedup"].value == 0.125
        assert other["graph"]["speedup"].missing.reason == "this run is the baseline"
        assert [run.is_baseline for run in other.runs] == [True, False]

    def test_a_name_goes_before_a_mode(self) -> None:
        runs = make_experiment(eager(), make_run("eager-again", ExecutionMode.EAGER), graphed())
        assert compare_runs(runs, "eager-again").baseline == "eager-again"
        assert compare_runs(runs).baseline == "eager"

    def test_unknown_ones_are_refused_with_the_choices(self) -> None:
        with pytest.raises(InputError, match=r"no run or mode 'x\\n'; .* one of eager, graph$"):
            compare_runs(make_experiment(eager(), graphed()), "x\n")

    def test_without_an_eager_run_there_is_no_speedup(self) -> None:
        found = compare_runs(make_experiment(graphed()))
        assert found.baseline is None
        assert found["graph"]["speedup"].missing.reason == (
            "the experiment has no eager run; choose another baseline"
        )

    def test_ranks_are_compared_with_their_own(self) -> None:
        runs = []
        for rank in (0, 1, 2):
            if rank < 2:
                step = 1_000_000 * (rank + 1)
                clean = clean_timings([step] * 40)
                runs.append(make_run(f"eager-{rank}", ExecutionMode.EAGER, clean=clean, rank=rank))
            clean = clean_timings([125_000] * 40, lives=(LIFE,))
            runs.append(make_run(f"graph-{rank}", ExecutionMode.GRAPH, clean=clean, rank=rank))
        found = compare_runs(make_experiment(*runs))
        assert [found[f"graph-{rank}"]["speedup"].value for rank in range(3)] == [8, 16, None]
        assert found["graph-2"]["speedup"].missing.reason == "eager has no run of rank 2"
        assert [run.name for run in found.runs if run.is_baseline] == ["eager-0", "eager-1"]
        assert found["graph-1"].baseline == "eager-1"

    def test_an_experiment_without_runs(self) -> None:
        found = compare_runs(Experiment(make_experiment().path, ()))
        assert (found.baseline, found.runs) == (None, ())


class TestAbsence:
    def test_a_failed_run_has_its_failure_for_a_reason(self) -> None:
        broken = make_run(
            "graph",
            failures=(failure(message="first line\nsecond"),),
            absent=(Absent("traced pass", "the clean pass failed"),),
        )
        run = compare_runs(make_experiment(eager(), broken))["graph"]
        reasons = {
            figure.metric.id: figure.missing and figure.missing.reason for figure in run.metrics
        }
        assert reasons["step_time"] == "the clean pass failed: RuntimeError"
        assert reasons["capture_time"] == "the clean pass failed: RuntimeError"
        assert reasons["gpu_busy"] == "the clean pass failed"

    def test_a_failed_baseline_is_named(self) -> None:
        broken = make_run("eager", failures=(failure(),))
        run = compare_runs(make_experiment(broken, graphed()))["graph"]
        reason = "the baseline eager: the clean pass failed: RuntimeError"
        assert run["speedup"].missing.reason == reason
        assert run["step_time"].value == 125_000

    def test_a_traced_pass_that_failed_leaves_the_clean_figures(self) -> None:
        run = graphed(trace=None, failures=(failure(Pass.TRACED),))
        found = compare_runs(make_experiment(eager(), run))
        assert found["graph"]["speedup"].value == 8
        assert found["graph"]["gpu_busy"].missing.reason == "the traced pass failed: RuntimeError"

    def test_a_trace_without_steps_gives_no_figures_per_step(self) -> None:
        frames = Frames()
        frames.kernel("a", 1, 10, 5)
        run = compare_runs(make_experiment(eager(trace=frames.trace()))).runs[0]
        assert run["kernels"].missing.reason == "the trace marks no steps, as prof.step() does"
        assert run["concurrency"].value == 1
        assert run.time_by_category == Missing(
            Fact.TRACED_STEPS, "the trace marks no steps, as prof.step() does"
        )

    def test_of_a_gpu_without_a_record_nothing_is_zero_and_nothing_idle(self) -> None:
        run = compare_runs(
            make_experiment(eager(trace=steps_trace(6, 1_000, [], graph=False)))
        ).runs[0]
        missing = Missing(
            Fact.GPU_WORK,
            "nothing was launched while the trace was recorded: it contains 6 other calls of the "
            "GPU's runtime and no GPU work",
        )
        unknown = ("gpu_busy", "busy_fraction", "concurrency", "kernels", "copies", "launches")
        assert {run[metric].missing for metric in unknown} == {missing}
        assert run["traced_step_time"].value == 1_000
        assert run.time_by_category == missing
        assert "no-gpu-work" in [note.code for note in describe_low_confidence(run.low_confidence)]


def test_precomputed_steps_and_replays_change_no_metric() -> None:
    runs = make_experiment(eager(), graphed())
    traced_steps = {run.name: find_steps(run.replay_trace) for run in runs.runs if run.replay_trace}
    replays = {
        run.name: match_replays(run.graphs, run.replay_trace)
        for run in runs.runs
        if run.replay_trace and run.graphs
    }
    given, computed = compare_runs(runs, None, replays, traced_steps), compare_runs(runs)
    assert replays
    for first, second in zip(given.runs, computed.runs, strict=True):
        assert first.metrics == second.metrics
        assert first.outcome is second.outcome
    before, after = (result["graph"].waterfall for result in (given, computed))
    assert before.pairs.rows == after.pairs.rows


def test_of_all_steps_only_the_typical_one_is_kept() -> None:
    found = compare_runs(make_experiment(eager(), graphed()))["graph"].waterfall
    for work in (found.pairs.before, found.pairs.after):
        assert work.step_times.start.shape == (0, len(work.items))


def test_the_baseline_stands_first_whatever_it_is_called() -> None:
    whole = load_experiment(Path("sample_traces/recorded-resnet"), traces=False)
    renamed = {"eager": "with-nothing", "graphed": "a-graph"}
    runs = [replace(run, path=Path(renamed.get(run.name, run.name))) for run in whole.runs]
    runs.sort(key=lambda run: run.name)
    found = compare_runs(replace(whole, runs=tuple(runs)))
    assert [run.name for run in found.runs] == ["with-nothing", "a-graph", "graphed-attributed"]
