"""Predictions, against replays that can be told by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.analysis.prediction.predict import EagerSide, Prediction, Recommendation, predict
from graphviz_dash.analysis.prediction.replay_model import Term
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.calibration import Calibration
from graphviz_dash.model.timings import CleanTimings
from graphviz_dash.model.trace import Trace
from graphviz_dash.narrative.prediction import (
    not_checked_texts,
    prediction_reasons,
    prediction_verdict,
    warning_texts,
)
from tests.analysis.predictions import CALIBRATION, TERMS, line_trace, with_terms
from tests.experiments import clean_timings


def predicted(
    trace: Trace, calibration: Calibration = CALIBRATION, clean: CleanTimings | None = None
) -> Prediction:
    found = predict(trace, calibration, clean)
    assert isinstance(found, Prediction), found
    return found


class TestReplay:
    def test_a_line_is_launch_kernels_and_gaps(self, tmp_path: Path) -> None:
        found = predicted(line_trace(tmp_path, kernels=10, duration=2_000))
        assert found.step_ns.value == 5_000 + 10 * 2_000 + 10 * 300
        assert (found.step_ns.low, found.step_ns.high) == pytest.approx((25_200, 30_800))

    def test_back_to_back_the_launch_lies_beside_the_work(self, tmp_path: Path) -> None:
        found = predicted(line_trace(tmp_path, kernels=10, duration=2_000))
        assert found.interval_ns.value == 1_000 + 10 * 2_000 + 10 * 300

    def test_what_is_too_short_waits_for_the_cpu(self, tmp_path: Path) -> None:
        found = predicted(line_trace(tmp_path, kernels=2, duration=700))
        assert found.interval_ns.value == 4_000 + 2 * 5

    def test_random_numbers_cost_a_replay_once(self, tmp_path: Path) -> None:
        plain = predicted(line_trace(tmp_path))
        drawn = predicted(line_trace(tmp_path, name="fused_dropout_kernel_vec"))
        assert drawn.step_ns.value - plain.step_ns.value == TERMS[Term.RANDOM]

    def test_the_parts_add_up(self, tmp_path: Path) -> None:
        trace = line_trace(tmp_path, duration=30_000, gap=40_000, name="nvjet_tst_128x64")
        replay = predicted(trace, with_terms(heat=0.05)).replay
        told = replay.fixed_ns + replay.random_ns + replay.work_ns + replay.slowed_ns
        assert replay.total_ns == told + replay.heat_ns + replay.gap_ns
        assert replay.heat_ns == pytest.approx(0.05 * 10 * 30_000)

    def test_only_long_kernels_on_tensor_cores_reach_the_power_limit(self, tmp_path: Path) -> None:
        hot = with_terms(heat=0.05)
        short = predicted(line_trace(tmp_path, name="nvjet_tst_128x64"), hot).replay
        plain = predicted(line_trace(tmp_path, duration=30_000, gap=40_000), hot).replay
        assert (short.heat_ns, plain.heat_ns) == (0, 0)


class TestEagerSide:
    def test_without_clean_timings_it_is_the_step_under_the_profiler(self, tmp_path: Path) -> None:
        found = predicted(line_trace(tmp_path))
        assert found.eager_side is EagerSide.TRACED
        assert found.eager_ns == found.step.step_ns
        assert any("under the profiler" in text for text in warning_texts(found))
        assert "under the profiler" in prediction_verdict(found)

    def test_with_clean_timings_it_is_theirs_alone(self, tmp_path: Path) -> None:
        clean = clean_timings([60_000] * 20, 50_000, None)
        found = predicted(line_trace(tmp_path), clean=clean)
        assert found.eager_side is EagerSide.CLEAN
        assert found.eager_ns == 60_000
        assert found.speedup.value == 60_000 / 28_000
        assert not any("under the profiler" in text for text in warning_texts(found))
        assert "under the profiler" not in "".join(prediction_reasons(found))

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
        assert prediction_verdict(found).startswith("Yes: as one graph the step would be ")

    def test_compute_bound_is_hardly_worth_it(self, tmp_path: Path) -> None:
        found = predicted(line_trace(tmp_path, duration=9_600, gap=10_000))
        assert found.recommendation is Recommendation.HARDLY

    def test_a_step_that_a_replay_would_not_beat_is_a_no(self, tmp_path: Path) -> None:
        found = predicted(line_trace(tmp_path, duration=9_600), with_terms(kernel=3_000.0))
        assert found.recommendation is Recommendation.NO
        assert found.break_even == Missing(Fact.PREDICTED_BREAK_EVEN, "a replay would save nothing")

    def test_break_even_is_cost_over_saving(self, tmp_path: Path) -> None:
        clean = clean_timings([60_000] * 20, 50_000, None)
        found = predicted(line_trace(tmp_path), clean=clean)
        cost = 500_000 + 50_000 + 50_000 + 10 * 3_000 + 20_000 + 10 * 100
        assert found.one_off_ns == cost
        assert not isinstance(found.break_even, Missing)
        assert found.break_even.value == -(-cost // 32_000)
        assert found.break_even.low <= found.break_even.value <= (found.break_even.high or 0)


class TestParts:
    def test_modules_divide_the_eager_step(self, tmp_path: Path) -> None:
        found = predicted(line_trace(tmp_path, kernels=12, modules=3))
        assert not isinstance(found.modules, Missing)
        assert {part.name for part in found.modules} == {"net.0", "net.1", "net.2"}
        assert sum(part.eager_ns for part in found.modules) == pytest.approx(found.eager_ns)
        for part in found.modules:
            assert part.kernels == 4
            assert part.graphs == 1
            assert part.graphed_ns == 4 * 2_000 + 4 * 300 + 5_000

    def test_without_modules_it_says_why(self, tmp_path: Path) -> None:
        found = predicted(line_trace(tmp_path))
        assert isinstance(found.modules, Missing)
        assert "with_stack=True" in found.modules.reason


class TestWarnings:
    def test_another_gpu_is_told(self, tmp_path: Path) -> None:
        trace = line_trace(tmp_path, device="NVIDIA L4")
        (text,) = [text for text in warning_texts(predicted(trace)) if "L4" in text]
        assert "bench predict" in text
        assert not any("L4" in text for text in warning_texts(predicted(line_trace(tmp_path))))

    def test_few_steps_are_told(self, tmp_path: Path) -> None:
        found = predicted(line_trace(tmp_path, steps=1))
        assert any("only 1 traced step" in text for text in warning_texts(found))
        assert any("whether steps differ" in text for text in not_checked_texts(found))

    def test_a_trace_without_work_is_refused_with_a_reason(self, tmp_path: Path) -> None:
        found = predict(line_trace(tmp_path, kernels=0), CALIBRATION)
        assert isinstance(found, Missing)
