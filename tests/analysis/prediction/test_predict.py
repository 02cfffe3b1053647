from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.analysis.metrics.recorded_step import RecordedStep, StepFigure
from graphviz_dash.analysis.prediction.predict import (
    CAPTURE,
    EagerSide,
    Prediction,
    PredictionWarning,
    Recommendation,
    predict,
)
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.doctor import RuleId
from graphviz_dash.model.timings import CleanTimings
from graphviz_dash.model.trace import Trace
from graphviz_dash.narrative.prediction import (
    describe_remaining_idle,
    format_predicted_gain,
    format_prediction_verdict,
    format_verdict_figure,
    list_partial_bases,
    list_prediction_reasons,
    list_unchecked,
    list_warnings,
)
from tests.analysis.frames import clean_timings
from tests.analysis.predictions import CALIBRATION, line_trace, predicted, with_terms
from tests.analysis.trace.integrity_traces import START, Event, make_events, make_slice, read_events
from tests.experiments import clean_timings as make_clean_timings
from tests.trace_builder import TraceBuilder


class TestEagerSide:
    def test_without_clean_timings_it_is_the_step_under_the_profiler(self, tmp_path: Path) -> None:
        found = predicted(line_trace(tmp_path))
        assert found.eager_side is EagerSide.TRACED
        assert found.eager_ns == found.step.step_ns
        assert any("under the profiler" in text for text in list_warnings(found))
        assert "under the profiler" in format_prediction_verdict(found)

    def test_against_a_step_under_the_profiler_there_is_no_interval(self, tmp_path: Path) -> None:
        found = predicted(line_trace(tmp_path, gap=20_000))
        assert not isinstance(found.speedup, Missing)
        assert found.speedup.value > 1
        assert (found.speedup.low, found.speedup.high) == (None, None)
        assert not isinstance(found.saving_ns, Missing)
        assert found.saving_ns.low is None
        assert not isinstance(found.break_even, Missing)
        assert found.break_even.low is None
        assert " to " not in format_prediction_verdict(found)
        # The graphed step is predicted as ever.
        assert found.step_ns.low is not None

    def test_without_marked_steps_no_speedup_is_of_a_step(self, tmp_path: Path) -> None:
        found = predicted(line_trace(tmp_path, marked=False))
        assert found.recommendation is Recommendation.NO_STEPS
        assert isinstance(found.speedup, Missing)
        assert isinstance(found.saving_ns, Missing)
        assert isinstance(found.break_even, Missing)
        assert (found.step_ns.low, found.step_ns.high) == (None, None)
        verdict = format_prediction_verdict(found)
        assert verdict.startswith("No verdict per step: the trace marks no steps.")
        assert "40 kernels on 1 stream" in verdict
        assert format_predicted_gain(found) == ""

    def test_with_clean_timings_it_is_theirs_alone(self, tmp_path: Path) -> None:
        clean = make_clean_timings([60_000] * 20, 50_000, None)
        found = predicted(line_trace(tmp_path), clean=clean)
        assert found.eager_side is EagerSide.CLEAN
        assert found.eager_ns == 60_000
        assert found.speedup.value == 60_000 / 28_000
        assert not any("under the profiler" in text for text in list_warnings(found))
        assert "under the profiler" not in "".join(list_prediction_reasons(found))

    def test_the_interval_of_the_speedup_holds_that_of_the_step(self, tmp_path: Path) -> None:
        clean = make_clean_timings([60_000] * 20, 50_000, None)
        found = predicted(line_trace(tmp_path), clean=clean)
        assert found.step_ns.high is not None
        assert found.speedup.low <= 60_000 / found.step_ns.high
        assert found.speedup.low < found.speedup.value < (found.speedup.high or 0)


class TestVerdict:
    def test_launch_bound_is_a_yes(self, tmp_path: Path) -> None:
        found = predicted(line_trace(tmp_path, gap=20_000))
        assert found.recommendation is Recommendation.YES
        assert format_prediction_verdict(found).startswith(
            "Yes: with CUDA graphs the step would be "
        )

    def test_compute_bound_is_hardly_worth_it(self, tmp_path: Path) -> None:
        found = predicted(line_trace(tmp_path, duration=9_600, gap=10_000))
        assert found.recommendation is Recommendation.MARGINAL

    def test_a_step_that_a_replay_would_not_beat_is_a_no(self, tmp_path: Path) -> None:
        found = predicted(line_trace(tmp_path, duration=9_600), with_terms(kernel=3_000.0))
        assert found.recommendation is Recommendation.NO
        assert found.break_even == Missing(Fact.PREDICTED_BREAK_EVEN, "a replay would save no time")

    def test_break_even_is_cost_over_saving(self, tmp_path: Path) -> None:
        clean = make_clean_timings([60_000] * 20, 50_000, None)
        found = predicted(line_trace(tmp_path), clean=clean)
        cost = 500_000 + 50_000 + 50_000 + 10 * 3_000 + 20_000 + 10 * 100
        assert found.one_off_ns == cost
        assert not isinstance(found.break_even, Missing)
        assert found.break_even.value == -(-cost // 32_000)
        assert found.break_even.low <= found.break_even.value <= (found.break_even.high or 0)


class TestWarnings:
    def test_another_gpu_is_reported(self, tmp_path: Path) -> None:
        trace = line_trace(tmp_path, device="NVIDIA L4")
        (text,) = [text for text in list_warnings(predicted(trace)) if "L4" in text]
        assert "bench predict" in text
        assert not any("L4" in text for text in list_warnings(predicted(line_trace(tmp_path))))

    def test_few_steps_are_reported(self, tmp_path: Path) -> None:
        found = predicted(line_trace(tmp_path, steps=1))
        assert any("only 1 traced step" in text for text in list_warnings(found))
        assert any("whether steps differ" in text for text in list_unchecked(found))

    def test_a_trace_without_work_is_refused_with_a_reason(self, tmp_path: Path) -> None:
        found = predict(line_trace(tmp_path, kernels=0), CALIBRATION)
        assert isinstance(found, Missing)


@pytest.mark.parametrize(
    "change",
    [{"gap": 20_000}, {"duration": 9_600}, {"marked": False}, {"duration": 9_600, "gap": 9_700}],
)
def test_the_figure_of_a_verdict_stands_in_it(tmp_path: Path, change: dict[str, int]) -> None:
    found = predicted(line_trace(tmp_path, **change))
    assert format_verdict_figure(found) in format_prediction_verdict(found)


def test_the_figure_of_a_verdict_that_refuses_stands_in_it(tmp_path: Path) -> None:
    found = predicted(line_trace(tmp_path, duration=9_600), with_terms(kernel=3_000.0))
    assert found.recommendation is Recommendation.NO
    assert format_verdict_figure(found) in format_prediction_verdict(found)


LENGTH = 910


def get_prediction(
    trace: Trace, clean: CleanTimings | None = None, loop_ns: float | None = None
) -> Prediction:
    loop = None
    if loop_ns is not None:
        figure = StepFigure(loop_ns, None)
        loop = RecordedStep(median=figure, mean=figure, times=[loop_ns], pauses=0, pause_ns=0)
    prediction = predict(trace, CALIBRATION, clean, loop=loop)
    assert isinstance(prediction, Prediction)
    return prediction


def change_sizes(events: list[Event], unlike: int) -> list[Event]:
    """Another grid, and another kernel of the same operator, in the last ``unlike`` steps."""
    number = 0
    for event in events:
        step = (event["ts"] - START) // LENGTH
        if event["cat"] == "cpu_op":
            number += 1
            event["args"]["External id"] = number
        elif event["name"] == "cudaLaunchKernel":
            event["args"]["External id"] = number
        if event["cat"] == "kernel" and step >= 10 - unlike:
            event["args"]["grid"] = [4 + step, 1, 1]
            event["name"] += f"_tile{step}"
    return events


def test_one_of_ten_unlike_steps_has_no_interval(tmp_path: Path) -> None:
    trace = read_events(change_sizes(make_events(10), 9), tmp_path / "t.json")
    prediction = get_prediction(trace, loop_ns=1_500_000)
    assert prediction.eager_side is EagerSide.TRACED
    assert prediction.eager_ns == 900_000
    assert not isinstance(prediction.speedup, str)
    assert getattr(prediction.speedup, "low", 0) is None
    assert PredictionWarning.UNLIKE_STEPS in prediction.warnings
    assert "only 1 of 10 traced steps ran this work" in list_partial_bases(prediction)[0]


def test_a_loop_of_like_steps_keeps_its_time(tmp_path: Path) -> None:
    trace = read_events(change_sizes(make_events(10), 3), tmp_path / "t.json")
    prediction = get_prediction(trace, loop_ns=1_500_000)
    assert prediction.eager_side is EagerSide.RECORDED_MEDIAN
    assert PredictionWarning.UNLIKE_STEPS not in prediction.warnings


def test_other_kernels_of_the_same_operators_are_changing_sizes(tmp_path: Path) -> None:
    trace = read_events(change_sizes(make_events(10), 4), tmp_path / "t.json")
    assert [b.rule.id for b in get_prediction(trace).blockers] == [RuleId.CHANGING_SHAPE]


def test_other_operators_are_control_flow(tmp_path: Path) -> None:
    events = change_sizes(make_events(10), 4)
    for event in events:
        if event["cat"] == "cpu_op" and event["ts"] > START + 8 * LENGTH:
            event["name"] += "_branch"
    trace = read_events(events, tmp_path / "t.json")
    assert [b.rule.id for b in get_prediction(trace).blockers] == [RuleId.CONTROL_FLOW]


def test_the_headline_of_a_timed_function_is_the_figure_that_compare_scores(tmp_path: Path) -> None:
    """Its own Python code is not part of a graph of the whole function."""
    events = make_events(6)
    for event in events:
        # A pause of 2 ms of the program's own code in the middle of each step.
        step, at = divmod(event["ts"] - START, LENGTH)
        event["ts"] += 2_000 * step + (2_000 if at > LENGTH // 2 else 0)
        event["dur"] += 2_000 if event["name"].startswith("ProfilerStep") else 0
    events.append(make_slice("cpu_op", "aten::other", START, 1, 100))
    trace = read_events(events, tmp_path / "t.json")
    prediction = get_prediction(trace, clean_timings([2_900_000] * 30))
    assert prediction.eager_side is EagerSide.CLEAN
    assert get_prediction(trace).remaining_idle_ns > 1_000_000
    assert prediction.graphed.value == pytest.approx(prediction.step_ns.value)


def test_durations_that_vary_independently_do_not_shorten_a_replay(tmp_path: Path) -> None:
    """As a replayed list of convolutions: one of three kernels is long, another in each step.

    The GPU is always busy, so a graph saves nothing. The medians of the kernels add up to 300 µs,
    those of the steps to 1,200 µs.
    """
    events: list[Event] = []
    begin = START + 2_000
    for step in range(6):
        launch = START + 100 * step
        events.append(make_slice("user_annotation", f"ProfilerStep#{step}", launch, 90, 100))
        for index in range(3):
            ids = {"correlation": 1_000 + 3 * step + index}
            duration = 1_000 if index == step % 3 else 100
            work = {"device": 0, "stream": 7, "grid": [4, 1, 1], "block": [128, 1, 1], **ids}
            events += [
                make_slice("cpu_op", f"aten::op{index}", launch + 10 * index, 8, 100),
                make_slice("cuda_runtime", "cudaLaunchKernel", launch + 10 * index, 5, 100, **ids),
                make_slice("kernel", f"kernel_{index}", begin, duration, 0, 7, **work),
            ]
            begin += duration
    wait = begin - START
    events.append(make_slice("cuda_runtime", "cudaDeviceSynchronize", START + 600, wait, 100))
    prediction = get_prediction(read_events(events, tmp_path / "t.json"))
    assert prediction.step.busy_ns == 1_200_000
    assert prediction.replay.work_ns >= prediction.step.work_ns
    assert not isinstance(prediction.speedup, Missing)
    assert prediction.speedup.value <= 1


def test_a_copy_that_waits_is_no_cost_of_a_capture(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for step in range(3):
        start = step * 100_000_000
        builder.annotation(f"ProfilerStep#{step}", start, 99_000_000)
        call = builder.runtime("cudaLaunchKernel", start + 1_000, 5_000)
        builder.kernel("gemm", start + 10_000, 19_000_000, correlation=call)
        call = builder.runtime("cudaMemcpy", start + 10_000, 20_000_000)
        builder.memcpy(
            "Memcpy DtoH (Device -> Pageable)",
            start + 19_020_000,
            900_000,
            bytes=1_000_000,
            correlation=call,
        )
    prediction = predict(read_trace(builder.write(tmp_path / "t.json")), CALIBRATION)
    assert isinstance(prediction, Prediction)
    # 6 µs until the first call returns and 4 µs until the next one starts.
    intercept, slope = CALIBRATION.capture
    assert dict(prediction.one_off)[CAPTURE] == round(intercept + slope * 10_000)
    assert describe_remaining_idle(prediction).endswith("during other CPU work.")
