"""Comparison of a prediction from the eager run with the measured graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from graphviz_dash.analysis.absence import explain_missing
from graphviz_dash.analysis.metrics.program_step import compute_program_step
from graphviz_dash.analysis.metrics.run_metrics import (
    MetricValue,
    compute_communication_share,
    make_missing_value,
    make_value,
)
from graphviz_dash.analysis.metrics.run_selection import may_be_eager
from graphviz_dash.analysis.prediction.calibration import load_shipped_calibration
from graphviz_dash.analysis.prediction.predict import Prediction, predict
from graphviz_dash.analysis.sample_statistics import Spread, SpreadKind
from graphviz_dash.analysis.trace.integrity import TraceIntegrity
from graphviz_dash.analysis.trace.steps import Step, find_steps
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.calibration import Calibration
from graphviz_dash.model.run import Run


def predict_run(
    run: Run,
    calibration: Calibration,
    traced_steps: tuple[Step, ...] | None = None,
    integrity: TraceIntegrity | None = None,
) -> Prediction | Missing:
    """Predict from an eager run of a bundle.

    Uses clean timings or the loop steps of a recorded program, if available. ``traced_steps`` and
    ``integrity`` are computed if None.
    """
    trace = run.replay_trace
    if trace is None:
        return Missing(Fact.PREDICTION, explain_missing(run, Fact.TRACED_PASS).reason)
    step = None if run.recording is None else compute_program_step(run)
    loop = None if isinstance(step, Missing) else step
    gpu = _get_gpu_name(run)
    return predict(trace, calibration, run.clean, gpu, traced_steps, loop, integrity)


def select_prediction_run(runs: Sequence[Run]) -> Run | None:
    """Return the best run to predict from; None if no run may be eager.

    Traced runs are preferred. Of several ranks, it is the one with the least communication time,
    for which the others wait.
    """
    eager = [run for run in runs if may_be_eager(run)]
    if not eager:
        return None
    traced_runs = [run for run in eager if run.replay_trace is not None]
    return min(traced_runs, key=_get_communication_share) if traced_runs else eager[0]


def _get_communication_share(run: Run) -> float:
    trace = run.replay_trace
    if trace is None or run.manifest.rank is None:
        return 0.0
    return compute_communication_share(run, find_steps(trace))


def _get_gpu_name(run: Run) -> str | None:
    gpu = run.manifest.environment.gpu
    return gpu.name if gpu else None


class EagerPredictions(Struct):
    """Cached predictions from eager runs for a graph of their own steps, by run name."""

    traced_steps: Mapping[str, tuple[Step, ...]]
    integrity: Mapping[str, TraceIntegrity]
    predictions: dict[str, Prediction | Missing] = {}

    def get(self, run: Run) -> Prediction | Missing:
        """Return the prediction for a whole-step graph of ``run``, or why there is none."""
        if not may_be_eager(run):
            return Missing(Fact.PREDICTION, f"{run.name} is not an eager run")
        if run.name not in self.predictions:
            steps = self.traced_steps.get(run.name)
            self.predictions[run.name] = predict_run(
                run, load_shipped_calibration(), steps, self.integrity.get(run.name)
            )
        return self.predictions[run.name]


def predict_from_baseline(
    run: Run, baseline: Run | Missing, predictions: EagerPredictions
) -> Prediction | Missing:
    """Return the prediction of ``baseline`` for the whole-step graph of ``run``."""
    if isinstance(baseline, Missing):
        return baseline
    if reason := _find_mode_obstacle(run, baseline):
        return Missing(Fact.PREDICTION, reason)
    if reason := _find_work_difference(run, baseline):
        return Missing(Fact.SAME_WORK, f"the trace of {baseline.name} has {reason}")
    prediction = predictions.get(baseline)
    if isinstance(prediction, Prediction) and isinstance(prediction.speedup, Missing):
        prediction = prediction.speedup
    if isinstance(prediction, Missing):
        return prediction
    if prediction.step.waits_for_ranks:
        return Missing(
            Fact.PREDICTION, "its collectives include the time they wait for other ranks"
        )
    return prediction


def _find_mode_obstacle(run: Run, baseline: Run) -> str:
    """Return an empty text if there is none."""
    if not run.mode.captures_entire_step:
        return "only graphs of the whole step are predicted"
    if run.mode.is_compiled:
        return "compilation changes the kernels of the step"
    if run.mode.is_planned:
        return "the prediction is for one stream, but this graph uses several"
    if not baseline.mode.is_baseline:
        return f"{baseline.name} is not an eager run"
    return ""


def _find_work_difference(run: Run, eager: Run) -> str:
    """Return an empty text if there is none."""
    workload, other_workload = run.manifest.workload, eager.manifest.workload
    if workload.factory != other_workload.factory:
        return f"different work, {other_workload.name}"
    if workload.parameters != other_workload.parameters:
        return "different workload parameters"
    gpu, other_gpu = _get_gpu_name(run), _get_gpu_name(eager)
    return f"a different GPU, {other_gpu}" if gpu and other_gpu and gpu != other_gpu else ""


def compute_prediction_metrics(
    prediction: Prediction | Missing, measured: MetricValue
) -> Iterator[MetricValue]:
    """Yield the predicted step time, which the speedup uses too, and its error relative to
    ``measured``."""
    if isinstance(prediction, Missing):
        yield make_missing_value("predicted_step_time", prediction)
        yield make_missing_value("prediction_error", prediction)
        return
    step = prediction.graphed
    samples = len(prediction.calibration.holdout_samples or prediction.calibration.samples)
    spread = (
        None if step.low is None else Spread(step.low, step.high, SpreadKind.PREDICTION, samples)
    )
    yield make_value("predicted_step_time", step.value, spread)
    if not measured.value:
        yield make_missing_value(
            "prediction_error",
            measured.missing or Missing(Fact.STEP_TIMES, "the measured step time is 0"),
        )
    else:
        yield make_value("prediction_error", step.value / measured.value - 1)
