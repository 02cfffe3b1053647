from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.analysis.prediction.predict import EagerSide, Recommendation, predict
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.narrative.prediction import (
    format_predicted_gain,
    format_prediction_verdict,
    format_verdict_figure,
    list_prediction_reasons,
    list_unchecked,
    list_warnings,
)
from tests.analysis.predictions import CALIBRATION, line_trace, predicted, with_terms
from tests.experiments import clean_timings


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
        clean = clean_timings([60_000] * 20, 50_000, None)
        found = predicted(line_trace(tmp_path), clean=clean)
        assert found.eager_side is EagerSide.CLEAN
        assert found.eager_ns == 60_000
        assert found.speedup.value == 60_000 / 28_000
        assert not any("under the profiler" in text for text in list_warnings(found))
        assert "under the profiler" not in "".join(list_prediction_reasons(found))

    def test_the_interval_of_the_speedup_holds_that_of_the_step(self, tmp_path: Path) -> None:
        clean = clean_timings([60_000] * 20, 50_000, None)
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
        clean = clean_timings([60_000] * 20, 50_000, None)
        found = predicted(line_trace(tmp_path), clean=clean)
        cost = 500_000 + 50_000 + 50_000 + 10 * 3_000 + 20_000 + 10 * 100
        assert found.one_off_ns == cost
        assert not isinstance(found.break_even, Missing)
        assert found.break_even.value == -(-cost // 32_000)
        assert found.break_even.low <= found.break_even.value <= (found.break_even.high or 0)


class TestWarnings:
    def test_another_gpu_is_told(self, tmp_path: Path) -> None:
        trace = line_trace(tmp_path, device="NVIDIA L4")
        (text,) = [text for text in list_warnings(predicted(trace)) if "L4" in text]
        assert "bench predict" in text
        assert not any("L4" in text for text in list_warnings(predicted(line_trace(tmp_path))))

    def test_few_steps_are_told(self, tmp_path: Path) -> None:
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
