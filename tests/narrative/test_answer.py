"""Whether a run is worth it, in words."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.analysis.step_comparison.waterfall import Basis, Waterfall
from graphviz_dash.ingest.load import load_experiment, load_pair
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import ExecutionMode
from graphviz_dash.narrative.answer import Evidence, build_answer, build_run_answer, format_answer
from graphviz_dash.narrative.headline import build_headline, describe_run
from graphviz_dash.narrative.prediction import (
    format_blocker,
    format_predicted_gain,
    format_prediction_verdict,
)
from graphviz_dash.units import format_ns
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


def test_where_nothing_could_be_compared_the_answer_says_why_and_what_is_to_gain() -> None:
    broken = make_run("graph", failures=(failure(),))
    found = compare_runs(make_experiment(eager(), broken))
    outlook = found["eager"].graph_prediction
    assert isinstance(outlook, Prediction)
    assert format_answer(build_answer(found)) == (
        "Not in its current form: graph failed in its clean pass at model.py:12. Each step of "
        "eager takes 1.00 ms; the GPU is idle for 925 µs (92.5%), the time that graphs "
        f"could save. With CUDA graphs it is predicted to be {format_predicted_gain(outlook)}."
    )
    assert [piece.evidence for piece in build_answer(found) if piece.evidence] == [
        Evidence.FAILURES,
        Evidence.ITERATIONS,
        Evidence.TIME_BREAKDOWN,
        Evidence.PREDICTED,
    ]
    assert build_answer(compare_runs(make_experiment(broken))) == ()
    assert build_answer(both()) == build_run_answer(both()["graph"])


def test_a_mean_of_very_different_steps_is_told_as_one() -> None:
    alone = compare_runs(load_experiment(SAMPLES / "recorded-server", traces=False))
    assert format_answer(build_answer(alone)).startswith(
        "No baseline: this experiment has one run. Step time: 14.2 ms on average, single steps "
        "325 µs to 36.8 ms on the CPU."
    )
    steady = compare_runs(load_experiment(SAMPLES / "recorded-batching", traces=False))
    assert "on average" not in format_answer(build_answer(steady))


def test_where_there_is_nothing_to_compare_the_answer_says_why_and_what_a_step_takes() -> None:
    alone = build_answer(compare_runs(make_experiment(graphed())))
    assert format_answer(alone) == (
        "No baseline: this experiment has one run. Step time: 125 µs. 100% of its GPU time comes "
        "from graphs; the GPU is idle in 40.0% of the step."
    )
    untraced = build_answer(compare_runs(make_experiment(eager(trace=None))))
    assert format_answer(untraced) == (
        "No baseline: this experiment has one run, and a graph cannot be predicted from it: the "
        "bundle has no traced pass. Step time: 1.00 ms."
    )
    traces = make_experiment(graphed(clean=None), replace(graphed(clean=None), path=Path("other")))
    untimed = build_answer(compare_runs(traces, "graph"))
    assert format_answer(untimed) == (
        "Not available: no run has clean timings. Step time under the profiler: 150 µs in graph, "
        "150 µs in other."
    )
    evidence = [(piece.evidence, piece.metric) for piece in untimed if piece.evidence]
    assert evidence == [(Evidence.FIGURES, "traced_step_time")] * 2
    lost = build_answer(compare_runs(make_experiment(eager(clean=None, trace=None))))
    assert format_answer(lost).endswith("the bundle has no traced pass.")


def test_an_eager_run_alone_is_answered_by_what_its_trace_predicts() -> None:
    found = compare_runs(make_experiment(eager()))
    outlook = found["eager"].graph_prediction
    assert isinstance(outlook, Prediction)
    assert found.predicted_run is found["eager"]
    said = build_answer(found)
    assert format_answer(said) == (
        f"{format_prediction_verdict(outlook)} The GPU is idle for 92.5% of that step. "
        "Predicted from the "
        "trace of eager; no graph was measured."
    )
    assert [piece.evidence for piece in said if piece.evidence] == [
        Evidence.PREDICTED,
        Evidence.TIME_BREAKDOWN,
    ]
    assert format_predicted_gain(outlook) in build_headline(found)
    # What was measured goes before what is predicted.
    assert both().predicted_run is None
    assert isinstance(both()["graph"].graph_prediction, Missing)


def test_what_stops_a_capture_is_in_the_answer() -> None:
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
    assert f"Blocked by: {format_blocker(outlook.blockers[0])}." in format_answer(
        build_answer(found)
    )


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
    assert "more overlap on the GPU" in format_answer(build_answer(found))
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
    said = format_answer(build_answer(found))
    assert f"under the profiler {format_ns(divided.saved.gaps)} less launch overhead" in said


def test_a_graph_that_replays_other_work_is_not_worth_it_as_it_stands() -> None:
    examined = replace(make_run("doctor", ExecutionMode.GRAPH), doctor=report(MOVED, captured=True))
    found = compare_runs(make_experiment(eager(), graphed(), examined))
    assert format_answer(build_answer(found)).startswith(
        "Not in its current form: replays compute a different result. As timed, graph is 8.00x "
        "faster than eager"
    )
    # Nothing is paid back by what is wrong.
    assert "paid back" not in format_answer(build_answer(found))
    assert build_headline(found).endswith("; but replays compute a different result")
    assert build_answer(found)[1].evidence is Evidence.FAILURES
    assert found.examinations == (("doctor", report(MOVED, captured=True)),)
    matching = replace(make_run("doctor", ExecutionMode.GRAPH), doctor=report(captured=True))
    found = compare_runs(make_experiment(eager(), graphed(), matching))
    assert format_answer(build_answer(found)).startswith("Yes: ")


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
    assert format_answer(build_answer(found)).startswith("Yes: callables is 2.00x faster")
    assert "replays compute a different result" not in describe_run(found["callables"])
    against_it = compare_runs(make_experiment(eager(), graphed(), parts, examined), "graph")
    assert not against_it["eager"].replays_match
    assert not against_it["callables"].replays_match


def test_a_difference_within_the_noise_is_none() -> None:
    alike = graphed(clean=clean_timings([1_000_000] * 40, lives=(LIFE,)), memory=None)
    found = format_answer(build_answer(compare_runs(make_experiment(eager(), alike))))
    assert found.startswith(
        "No significant difference between graph and eager: 1.00 ms instead of 1.00 ms per step"
    )


@pytest.mark.parametrize(
    ("wall", "lead"), [(990_000, "Marginal: "), (900_000, "Modest gain: "), (800_000, "Yes: ")]
)
def test_a_slight_speedup_is_hardly_one(wall: int, lead: str) -> None:
    found = compare_runs(make_experiment(eager(), graphed(clean=clean_timings([wall] * 40))))
    assert format_answer(build_answer(found)).startswith(lead)


def test_a_compilation_was_not_timed() -> None:
    compiled = make_run("compile", clean=clean_timings([500_000] * 40, lives=(LIFE,)))
    found = format_answer(build_answer(compare_runs(make_experiment(eager(), compiled))))
    assert "The one-time cost of compilation was not timed" in found


def test_runs_of_different_work_are_no_answer_to_whether_graphs_are_worth_it() -> None:
    pair = load_pair((SAMPLES / "fork-join/eager", SAMPLES / "superset/graph"), traces=False)
    told = format_answer(build_answer(compare_runs(pair, pair.runs[0].name)))
    assert told.startswith(
        "Different workloads: graph@superset is 5.83x faster than eager@fork-join, 113 µs "
        "instead of 660 µs per step. One-time cost: 996 µs, with "
    )
