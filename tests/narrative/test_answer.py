from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.analysis.step_comparison.waterfall import Basis, Waterfall
from graphviz_dash.features.memory.comparison import compare_memory
from graphviz_dash.ingest.load import load_experiment, load_pair
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import ExecutionMode, Source
from graphviz_dash.narrative.answer import (
    Answer,
    Evidence,
    build_answer,
    build_run_answer,
    format_answer,
    format_parts,
)
from graphviz_dash.narrative.headline import build_headline, describe_run
from graphviz_dash.narrative.prediction import (
    format_blocker,
    format_predicted_gain,
    format_short_verdict,
)
from tests.analysis.eager_and_graph import both, eager, graphed
from tests.analysis.frames import (
    GRAPH,
    LIFE,
    Frames,
    clean_timings,
    failure,
    make_experiment,
    make_run,
)
from tests.doctors import MOVED, report
from tests.samples import SAMPLES, compared_sample


def answer_of(comparison: Comparison) -> Answer:
    answer = build_answer(comparison)
    assert answer is not None
    return answer


def list_evidence(answer: Answer) -> list[Evidence]:
    rows = [answer.verdict, *(parts for _, parts in answer.rows)]
    return [part.evidence for parts in rows for part in parts if part.evidence]


def test_a_failed_graph_run_is_explained_with_its_possible_gain() -> None:
    broken = make_run("graph", failures=(failure(),))
    found = compare_runs(make_experiment(eager(), broken))
    outlook = found["eager"].graph_prediction
    assert isinstance(outlook, Prediction)
    answer = build_answer(found)
    assert answer is not None
    assert format_parts(answer.verdict) == (
        "Not in its current form: graph failed in its clean pass at model.py:12."
    )
    assert format_parts(answer.next_step) == (
        "fix the failure; each step of eager takes 1.00 ms, with an idle GPU for 925 µs (92.5%); "
        f"with CUDA graphs it is predicted to be {format_predicted_gain(outlook)}"
    )
    assert answer.costs == ()
    assert list_evidence(answer) == [
        Evidence.FAILURES,
        Evidence.ITERATIONS,
        Evidence.TIME_BREAKDOWN,
        Evidence.PREDICTED,
    ]
    assert build_answer(compare_runs(make_experiment(broken))) is None
    assert build_answer(both()) == build_run_answer(both()["graph"])


def test_a_mean_of_very_different_steps_is_told_as_one() -> None:
    alone = compare_runs(load_experiment(SAMPLES / "recorded-server", traces=False))
    assert format_answer(answer_of(alone)).splitlines()[0] == (
        "No baseline: median step 797 µs, 90% within 325 µs to 36.8 ms."
    )
    assert build_headline(alone).endswith("median step 797 µs, 90% within 325 µs to 36.8 ms")
    steady = compare_runs(load_experiment(SAMPLES / "recorded-batching", traces=False))
    assert "median" not in format_answer(answer_of(steady))


def test_an_experiment_without_a_pair_says_why_and_gives_step_times() -> None:
    alone = answer_of(compare_runs(make_experiment(graphed())))
    assert format_answer(alone).splitlines() == [
        "No baseline: 125 µs per step.",
        "Because:   this experiment has one run",
        "Next step: record a run without graphs as baseline; 100% of the GPU time comes from "
        "graphs, and the GPU is idle for 40.0% of the step",
    ]
    untraced = answer_of(compare_runs(make_experiment(eager(trace=None))))
    assert format_answer(untraced).splitlines() == [
        "No baseline: 1.00 ms per step.",
        "Because:   this experiment has one run, and a graph cannot be predicted from it: the "
        "bundle has no traced pass",
    ]
    traces = make_experiment(graphed(clean=None), replace(graphed(clean=None), path=Path("other")))
    untimed = answer_of(compare_runs(traces, "graph"))
    assert format_answer(untimed).splitlines() == [
        "Nothing to compare: under the profiler, 150 µs per step in graph, 150 µs per step in "
        "other.",
        "Because:   no run has clean timings",
    ]
    evidence = [(part.evidence, part.metric) for part in untimed.verdict if part.evidence]
    assert evidence == [(Evidence.FIGURES, "traced_step_time")] * 2
    lost = answer_of(compare_runs(make_experiment(eager(clean=None, trace=None))))
    assert format_answer(lost).endswith("the bundle has no traced pass")


def test_an_eager_run_alone_is_answered_by_what_its_trace_predicts() -> None:
    found = compare_runs(make_experiment(eager()))
    outlook = found["eager"].graph_prediction
    assert isinstance(outlook, Prediction)
    assert found.predicted_run is found["eager"]
    said = answer_of(found)
    assert format_answer(said).splitlines()[:2] == [
        format_short_verdict(outlook),
        "Because:   the GPU is idle for 92.5% of that step; predicted gain "
        f"{format_predicted_gain(outlook)}; from the trace of eager, no graph was measured",
    ]
    assert list_evidence(said)[:3] == [
        Evidence.PREDICTED,
        Evidence.TIME_BREAKDOWN,
        Evidence.PREDICTED,
    ]
    assert format_predicted_gain(outlook) in build_headline(found)
    # What was measured goes before what is predicted.
    assert both().predicted_run is None
    assert isinstance(both()["graph"].graph_prediction, Missing)


def test_a_capture_blocker_is_in_the_answer() -> None:
    frames = Frames()
    for index in range(4):
        begin = index * 1_000_000
        frames.step(index, begin, begin + 900_000)
        frames.kernel("gemm", begin + 2_000, begin + 4_000, 500)
        frames.call("cudaStreamSynchronize", begin + 400_000)
        frames.kernel("relu", begin + 500_000, begin + 502_000, 500)
        frames.call("cudaDeviceSynchronize", begin + 899_000)
    found = compare_runs(make_experiment(make_run("eager", trace=frames.trace())))
    outlook = found["eager"].graph_prediction
    assert isinstance(outlook, Prediction)
    assert format_parts(answer_of(found).next_step) == f"fix {format_blocker(outlook.blockers[0])}"
    assert "after one fix" in format_parts(answer_of(found).verdict)


def test_overlap_is_called_overlap_and_no_less_work() -> None:
    both_streams = Frames(), Frames()
    for frames, streams in zip(both_streams, ((7, 7), (7, 9)), strict=True):
        for index in range(6):
            begin = index * 20_000
            frames.step(index, begin, begin + 15_000)
            second = begin + (5_100 if streams == (7, 7) else 2_200)
            frames.kernel("gemm", begin + 2_000, begin + 2_100, 3_000, stream=streams[0])
            frames.kernel("gemm", begin + 2_100, second, 3_000, stream=streams[1])
            frames.call("cudaDeviceSynchronize", begin + 6_000)
    before, after = (frames.trace() for frames in both_streams)
    found = compare_runs(
        make_experiment(
            make_run("eager", clean=clean_timings([9_000] * 40, launch=6_000), trace=before),
            make_run("graph", clean=clean_timings([6_100] * 40, launch=6_000), trace=after),
        )
    )
    assert "more overlap on the GPU" in format_answer(answer_of(found))
    assert found["graph"]["overlap_change"].value == 2_900


def test_two_recorded_programs_are_divided_by_their_traced_steps() -> None:
    found = compared_sample("recorded-resnet")
    divided = found["graphed"].waterfall
    assert isinstance(divided, Waterfall)
    assert divided.basis is Basis.TRACED
    assert divided.before_ns == found["eager"]["traced_step_time"].value
    assert divided.saved.total == divided.before_ns - divided.after_ns
    # Never mixed with what was timed without a profiler.
    assert found["graphed"]["gaps_removed"].value is None
    # 5.92 ms of the profiled step cannot be the cause of 3.38 ms.
    assert divided.saved.gaps > found["graphed"].saving.value
    assert format_parts(answer_of(found).because) == (
        "less launch overhead, 100% of the difference under the profiler"
    )


def test_a_graph_that_replays_other_work_is_not_worth_it_as_it_stands() -> None:
    examined = replace(make_run("doctor", ExecutionMode.GRAPH), doctor=report(MOVED, captured=True))
    found = compare_runs(make_experiment(eager(), graphed(), examined))
    assert format_parts(answer_of(found).verdict) == (
        "Not in its current form: replays compute a different result, though graph is 8.00x "
        "faster than eager."
    )
    # Nothing is paid back by what is wrong.
    assert "paid back" not in format_answer(answer_of(found))
    assert "replays compute a different result" in build_headline(found)
    assert answer_of(found).verdict[1].evidence is Evidence.FAILURES
    assert [part.page for part in answer_of(found).next_step if part.page] == ["doctor"]
    assert found.examinations == (("doctor", report(MOVED, captured=True)),)
    matching = replace(make_run("doctor", ExecutionMode.GRAPH), doctor=report(captured=True))
    found = compare_runs(make_experiment(eager(), graphed(), matching))
    assert format_answer(answer_of(found)).startswith("Yes: ")


def test_replays_of_other_work_are_the_outcome_only_where_no_others_are() -> None:
    examined = replace(make_run("doctor", ExecutionMode.GRAPH), doctor=report(MOVED, captured=True))
    parts = make_run(
        "callables",
        ExecutionMode.CALLABLES,
        clean=clean_timings([500_000] * 40, intervals=[490_000] * 40, lives=(LIFE,)),
        graphs=(GRAPH,),
    )
    found = compare_runs(make_experiment(eager(), graphed(), parts, examined))
    assert {run.name: run.replays_match for run in found.runs} == {
        "eager": True,
        "graph": False,
        "callables": True,
    }
    assert found.best is found["callables"]
    assert format_answer(answer_of(found)).startswith("Yes: callables is 2.00x faster")
    assert "replays compute a different result" not in describe_run(found["callables"])
    against_it = compare_runs(make_experiment(eager(), graphed(), parts, examined), "graph")
    assert not against_it["eager"].replays_match
    assert not against_it["callables"].replays_match


def test_a_difference_within_the_noise_is_none() -> None:
    alike = graphed(clean=clean_timings([1_000_000] * 40, lives=(LIFE,)), memory=None)
    found = format_answer(answer_of(compare_runs(make_experiment(eager(), alike))))
    assert found.splitlines()[0] == (
        "No significant difference between graph and eager: 1.00 ms instead of 1.00 ms per step."
    )
    assert "less" not in found
    assert "more launch" not in found


@pytest.mark.parametrize(
    ("wall", "lead"), [(990_000, "Marginal: "), (900_000, "Modest gain: "), (800_000, "Yes: ")]
)
def test_a_slight_speedup_is_hardly_one(wall: int, lead: str) -> None:
    found = compare_runs(make_experiment(eager(), graphed(clean=clean_timings([wall] * 40))))
    assert format_answer(answer_of(found)).startswith(lead)


def test_a_compilation_was_not_timed() -> None:
    compiled = make_run("compile", clean=clean_timings([500_000] * 40, lives=(LIFE,)))
    found = format_answer(answer_of(compare_runs(make_experiment(eager(), compiled))))
    assert "compilation, not timed" in found


def test_runs_of_different_work_are_no_answer_to_whether_graphs_are_worth_it() -> None:
    pair = load_pair((SAMPLES / "fork-join/eager", SAMPLES / "superset/graph"), traces=False)
    found = compare_runs(pair, pair.runs[0].name)
    answer = answer_of(found)
    assert format_parts(answer.verdict) == (
        "Different workloads: graph@superset is 5.83x faster than eager@fork-join, 113 µs "
        "instead of 660 µs per step."
    )
    assert answer.costs == ()
    run = found["graph@superset"]
    for metric in ("break_even", "peak_reserved_change", "device_memory_change"):
        assert run[metric].value is None
        assert run[metric].missing.reason == "the baseline eager@fork-join has a different workload"
    assert compare_memory(found).differences == ()


def test_two_versions_of_one_mode_are_a_regression_or_an_improvement() -> None:
    pair = load_pair((SAMPLES / "mlp-train/graph", SAMPLES / "all-nodes/graph"), traces=False)
    before, after = pair.runs
    same = replace(after, manifest=replace(after.manifest, workload=before.manifest.workload))
    slower = compare_runs(replace(pair, runs=(same, before)), same.name)[before.name]
    answer = build_run_answer(slower)
    assert answer is not None
    assert format_parts(answer.verdict).startswith("Regression: graph@mlp-train is ")
    assert "once" not in format_parts(answer.costs)
    assert slower["break_even"].value is None
    day = "2026-11-23 14:"
    assert format_parts(answer.dates) == f"{same.name} {day}22, {before.name} {day}53 UTC"


def test_runs_of_different_days_show_both_dates() -> None:
    pair = load_pair((SAMPLES / "capture-schemes/graph", SAMPLES / "mlp-train/graph"), traces=False)
    (run,) = [run for run in compare_runs(pair, pair.runs[0].name).runs if not run.is_baseline]
    answer = build_run_answer(run)
    assert answer is not None
    dates = "graph@capture-schemes 2026-11-21, graph@mlp-train 2026-11-23"
    assert format_parts(answer.dates) == dates
    assert f"Recorded:  {dates}" in format_answer(answer)


def test_the_time_of_import_is_no_recording_date() -> None:
    pair = load_pair((SAMPLES / "capture-schemes/graph", SAMPLES / "mlp-train/graph"), traces=False)
    source = Source("trace.json", "kineto", 1, "0" * 64, None)
    imported = [
        replace(run, manifest=replace(run.manifest, sources=(source,))) for run in pair.runs
    ]
    for runs, dates in (
        (
            (imported[0], pair.runs[1]),
            "graph@capture-schemes on an unknown date, graph@mlp-train 2026-11-23",
        ),
        (imported, ""),
    ):
        found = compare_runs(replace(pair, runs=tuple(runs)), runs[0].name)
        (run,) = [run for run in found.runs if not run.is_baseline]
        answer = build_run_answer(run)
        assert answer is not None
        assert format_parts(answer.dates) == dates


def test_iterations_that_the_trace_does_not_show_are_no_idle_time() -> None:
    """The profiler shows one iteration of a While node per replay."""
    comparison = compared_sample("all-nodes")
    for name, is_known in (("eager", True), ("graph", False)):
        breakdown = comparison[name].time_by_category
        assert not isinstance(breakdown, Missing)
        assert (breakdown.idle_ns is not None) is is_known
        assert breakdown.excess_ns is None
    answer = build_answer(comparison)
    assert answer is not None
    assert "idle" not in format_answer(answer)


def test_the_graph_share_of_a_run_with_while_nodes_is_a_lower_bound() -> None:
    experiment = load_experiment(SAMPLES / "all-nodes")
    runs = {run.name: run for run in experiment.runs}
    alone = compare_runs(replace(experiment, runs=(runs["graph"],)), None)
    answer = build_answer(alone)
    assert answer is not None
    assert re.search(r"at least [\d.]+% of the GPU time comes from graphs", format_answer(answer))
