from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.prediction.calibration import (
    CalibrationSource,
    RecordedWorkload,
    build_recorded_workload,
    calibrate,
    compute_sample_errors,
    load_shipped_calibration,
    predict_times,
)
from graphviz_dash.analysis.prediction.eager_step import EagerStep, build_eager_step
from graphviz_dash.analysis.prediction.replay_model import ReplayTerm, predict_replay
from graphviz_dash.analysis.prediction.uncertainty import compute_error_scale
from graphviz_dash.bundle.calibration import read_calibration, write_calibration
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.calibration import CALIBRATION_VERSION, Calibration, CalibrationSample
from tests.analysis.predictions import CALIBRATION, GPU, TERMS, line_trace
from tests.experiments import make_experiment, make_run

SAMPLES = Path(__file__).parents[3] / "sample_traces"
SOURCE = CalibrationSource(GPU, CALIBRATION.environment, "2026-11-21", "0", "2026-11-21")


def recordings(folder: Path, noise: float = 0.0) -> list[RecordedWorkload]:
    """Lines of kernels of many lengths, with the replays that TERMS would make of them."""
    found = []
    generator = np.random.default_rng(4)
    for place in range(14):
        count = 5 + 12 * place
        trace = line_trace(folder / str(place), kernels=count, duration=900 + 400 * (place % 5))
        step = build_eager_step(trace)
        assert isinstance(step, EagerStep)
        total = predict_replay(step, CALIBRATION.terms, GPU.multiprocessors).total_ns
        total *= 1 + noise * generator.standard_normal()
        found.append(
            RecordedWorkload(
                name=f"line-{place}",
                step=step,
                nodes=count,
                step_ns=round(total),
                interval_ns=round(total - 4_000),
                replay_cpu_ns=4_000 + 5 * count,
                eager_ns=step.step_ns,
                eager_cpu_ns=10_000 * count,
                capture_ns=500_000 + 10_000 * count,
                instantiate_ns=50_000 + 3_000 * count,
                first_launch_ns=round(total) + 20_000 + 100 * count,
            )
        )
    return found


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> list[RecordedWorkload]:
    return recordings(tmp_path_factory.mktemp("exact"))


@pytest.fixture(scope="module")
def calibrated(exact: list[RecordedWorkload]) -> Calibration:
    return calibrate(exact, SOURCE)


def test_it_finds_the_terms_that_made_the_recordings(calibrated: Calibration) -> None:
    found = calibrated
    assert found.terms[ReplayTerm.FIXED] == pytest.approx(TERMS[ReplayTerm.FIXED], rel=0.01)
    assert found.terms[ReplayTerm.KERNEL] == pytest.approx(TERMS[ReplayTerm.KERNEL], rel=0.01)
    # What no recording has is not made up.
    assert found.terms[ReplayTerm.HOST_COPY] == 0
    assert found.interval_fixed_ns == pytest.approx(1_000, abs=5)
    assert found.capture == pytest.approx((500_000, 1.0))
    assert found.instantiate_ns == pytest.approx((50_000, 3_000))
    assert all(sum(compute_sample_errors(sample)) < 0.002 for sample in found.samples)


def test_its_errors_are_those_of_workloads_it_was_made_without(tmp_path: Path) -> None:
    recorded = recordings(tmp_path, noise=0.05)
    found = calibrate(recorded, SOURCE)
    off = [compute_sample_errors(sample)[0] for sample in found.samples]
    inside = [
        error <= half(found, sample) for error, sample in zip(off, found.samples, strict=True)
    ]
    assert sum(inside) == np.ceil(0.9 * (len(inside) + 1))
    # Of the workloads themselves it is closer: it has seen them.
    own = [abs(predict_times(one, found)[0] / one.step_ns - 1) for one in recorded]
    assert np.mean(own) < np.mean(off)


def half(calibration: Calibration, sample: CalibrationSample) -> float:
    """Half the interval of a sample's step time, as a part of the prediction."""
    scale = compute_error_scale(sample.sources, calibration.errors.weights)
    return scale * calibration.errors.step


def test_checks_give_the_width_of_intervals_and_no_term(
    exact: list[RecordedWorkload], calibrated: Calibration
) -> None:
    off = [replace(one, step_ns=round(one.step_ns * 1.1)) for one in exact]
    checked = calibrate(exact, SOURCE, off)
    assert checked.terms == calibrated.terms
    assert checked.errors.weights == calibrated.errors.weights
    # As they are all off by the same, the narrowest of the intervals holds it.
    assert min(half(checked, check) for check in checked.holdout_samples) == pytest.approx(
        0.1, rel=0.01
    )


def test_too_few_workloads_are_refused(exact: list[RecordedWorkload]) -> None:
    with pytest.raises(InputError, match="5 usable workloads"):
        calibrate(exact[:5], SOURCE)


def test_an_experiment_tells_what_it_recorded(tmp_path: Path) -> None:
    found = build_recorded_workload(load_experiment(make_experiment(tmp_path / "toy")))
    assert isinstance(found, RecordedWorkload)
    assert found.name == "toy"
    assert found.step_ns == 100_000
    assert found.eager_ns == 400_000


def test_an_experiment_without_a_graph_says_so(tmp_path: Path) -> None:
    make_run(tmp_path / "toy", "eager")
    said = build_recorded_workload(load_experiment(tmp_path / "toy"))
    assert said == Missing(Fact.CALIBRATION_SAMPLE, "it lacks an eager or a graph run")


@pytest.mark.parametrize(
    ("sample", "reason"),
    [
        ("moved-inputs", None),
        ("tp-transformer", "its collectives include the time they wait for other ranks"),
    ],
)
def test_a_sample_is_told_or_says_why_not(sample: str, reason: str | None) -> None:
    """A doctor's report is no graph run, and a rank's step includes time of other ranks."""
    told = build_recorded_workload(load_experiment(SAMPLES / sample))
    assert (told.reason if isinstance(told, Missing) else None) == reason


class TestFile:
    def test_it_comes_back_as_it_was_written(self, tmp_path: Path) -> None:
        write_calibration(tmp_path / "c.json", CALIBRATION)
        assert read_calibration(tmp_path / "c.json") == CALIBRATION
        assert [path.name for path in tmp_path.iterdir()] == ["c.json"]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"format": "other"}, "format 'other'"),
            ({"version": 1}, "version 1 of graphviz-dash-calibration"),
            ({"terms": {"kernel": "much"}}, "Expected"),
            ({"unknown": 1}, "unknown field"),
        ],
    )
    def test_an_invalid_calibration_is_refused(
        self, tmp_path: Path, change: dict[str, object], message: str
    ) -> None:
        document = msgspec.to_builtins(CALIBRATION) | change
        (tmp_path / "c.json").write_bytes(msgspec.json.encode(document))
        with pytest.raises(InputError, match=message):
            read_calibration(tmp_path / "c.json")

    def test_no_file_says_how_to_make_one(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="bench predict"):
            read_calibration(tmp_path / "missing.json")


def test_the_shipped_calibration_is_current_and_names_every_term() -> None:
    calibration = load_shipped_calibration()
    assert calibration.version == CALIBRATION_VERSION
    assert "H200" in calibration.gpu.name
    assert set(calibration.terms) == set(ReplayTerm)


def test_shipped_intervals_hold_nine_of_ten_holdout_samples() -> None:
    calibration = load_shipped_calibration()
    weights = calibration.errors.weights
    inside = [
        compute_sample_errors(check)[0]
        <= compute_error_scale(check.sources, weights) * calibration.errors.step
        for check in calibration.holdout_samples
    ]
    assert len(inside) > 30
    assert 0.9 <= sum(inside) / len(inside) <= 0.97


def test_no_holdout_sample_is_used_for_fitting() -> None:
    calibration = load_shipped_calibration()
    names = {sample.name for sample in calibration.samples}
    assert not names.intersection(check.name for check in calibration.holdout_samples)
