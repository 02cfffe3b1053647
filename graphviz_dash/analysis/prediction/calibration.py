"""Calibration from recordings of workloads with an eager trace and a clean graph step time.

The terms minimise absolute relative errors and are not negative. Error sources are estimated by
predicting each workload from the others, and error sizes from further workloads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Final

import msgspec
import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats
from graphviz_dash.analysis.prediction.eager_step import EagerStep, build_eager_step
from graphviz_dash.analysis.prediction.predict import compute_back_to_back_ns
from graphviz_dash.analysis.prediction.replay_model import ReplayTerm, predict_replay
from graphviz_dash.analysis.prediction.uncertainty import (
    ErrorSource,
    compute_conformal_quantile,
    compute_error_scale,
    compute_error_sources,
)
from graphviz_dash.errors import InputError
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.calibration import (
    CALIBRATION_FORMAT,
    CALIBRATION_VERSION,
    Calibration,
    CalibrationSample,
    ErrorScale,
)
from graphviz_dash.model.gpu import Gpu
from graphviz_dash.model.run import Environment, Experiment
from graphviz_dash.model.trace import Trace

FITTED: Final = tuple(term for term in ReplayTerm if term is not ReplayTerm.WARPS)
"""Terms found by least squares; WARPS is searched separately."""

WARPS_CANDIDATES: Final = (2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 20.0, 24.0, 32.0)

_START: Final = {
    ReplayTerm.FIXED: 6_000.0,
    ReplayTerm.RANDOM: 8_000.0,
    ReplayTerm.KERNEL: 300.0,
    ReplayTerm.WIDE: 200.0,
    ReplayTerm.SET: 2_000.0,
    ReplayTerm.COPY: 2_000.0,
    ReplayTerm.HOST_COPY: 5_000.0,
    ReplayTerm.JOIN: 1_500.0,
    ReplayTerm.HEAT: 0.0,
}
_ROUNDS: Final = 3
_REWEIGHTING_ROUNDS: Final = 20
_MIN_RESIDUAL: Final = 0.005
"""Smaller relative errors have equal weight."""
_MIN_WORKLOADS: Final = 12


class RecordedWorkload(Struct, frozen=True):
    """One workload of a recording: its eager step and clean medians."""

    name: str
    step: EagerStep
    nodes: int
    step_ns: int
    """Clean step time of the graph run."""
    interval_ns: int
    """Time between back-to-back replays."""
    replay_cpu_ns: int
    """CPU time of a replay's launch."""
    eager_ns: int
    eager_cpu_ns: int
    """CPU time until the eager step has launched all its work."""
    capture_ns: int
    instantiate_ns: int
    first_launch_ns: int


def _get_eager_step(trace: Trace) -> EagerStep | Missing:
    step = build_eager_step(trace)
    if not isinstance(step, Missing) and step.waits_for_ranks:
        return _make_unusable("its collectives include the time they wait for other ranks")
    return step


def build_recorded_workload(experiment: Experiment) -> RecordedWorkload | Missing:
    """Read an experiment with an eager and a graph run, or explain why it is unusable."""
    runs = experiment.runs
    eager = next((run for run in runs if run.mode.is_baseline), None)
    full_step = (
        run
        for run in runs
        if run.mode.captures_entire_step
        and not (run.mode.is_compiled or run.mode.is_planned)
        # A doctor also captures but does not time anything.
        and (run.doctor is None or run.clean is not None)
    )
    graph = next(full_step, None)
    if eager is None or graph is None:
        return _make_unusable("it lacks an eager or a graph run")
    if eager.clean is None or not eager.clean.steps or eager.replay_trace is None:
        return _make_unusable("its eager run has no clean timings or no trace")
    if graph.clean is None or not graph.clean.steps or not graph.clean.back_to_back_ns:
        return _make_unusable("its graph run has no clean timings")
    if len(graph.clean.graphs) != 1:
        return _make_unusable("its graph run does not have exactly one graph")
    step = _get_eager_step(eager.replay_trace)
    if isinstance(step, Missing):
        return step
    life = graph.clean.graphs[0]
    return RecordedWorkload(
        name=experiment.name,
        step=step,
        nodes=life.nodes,
        step_ns=_compute_median([timing.wall_ns for timing in graph.clean.steps]),
        interval_ns=_compute_median(graph.clean.back_to_back_ns),
        replay_cpu_ns=_compute_median([timing.launch_cpu_ns for timing in graph.clean.steps]),
        eager_ns=_compute_median([timing.wall_ns for timing in eager.clean.steps]),
        eager_cpu_ns=_compute_median([timing.launch_cpu_ns for timing in eager.clean.steps]),
        capture_ns=life.capture_ns,
        instantiate_ns=life.instantiate_ns,
        first_launch_ns=life.first_launch_ns,
    )


def _make_unusable(reason: str) -> Missing:
    return Missing(Fact.CALIBRATION_SAMPLE, reason)


class CalibrationSource(Struct, frozen=True):
    """Origin of recordings."""

    gpu: Gpu
    environment: Environment
    recorded: str
    """Time of the last recording, ISO 8601."""
    tool_version: str
    created: str
    """Creation time of the calibration, ISO 8601."""


def calibrate(
    recorded: Sequence[RecordedWorkload],
    source: CalibrationSource,
    checks: Sequence[RecordedWorkload] = (),
) -> Calibration:
    """Fit a calibration to ``recorded`` workloads of one machine.

    The interval width comes from ``checks``, workloads similar to those to predict; without any,
    from ``recorded``, each predicted from the others.

    Raises:
        InputError: too few workloads to find the terms.
    """
    if len(recorded) < _MIN_WORKLOADS:
        raise InputError(
            "the recordings",
            f"{len(recorded)} usable workloads",
            f"{_MIN_WORKLOADS} or more",
            "Record the calibration suite: graphviz-dash bench predict -o FOLDER.",
        )
    multiprocessors = source.gpu.multiprocessors
    terms = _fit_terms(recorded, multiprocessors)
    rough = _assemble_calibration(recorded, terms, source)
    samples = []
    for index, workload in enumerate(recorded):
        other_workloads = [*recorded[:index], *recorded[index + 1 :]]
        held_out = _assemble_calibration(
            other_workloads,
            _fit_terms(other_workloads, multiprocessors, terms[ReplayTerm.WARPS]),
            source,
        )
        samples.append(_build_sample(workload, rough, held_out))
    checked_samples = tuple(_build_sample(workload, rough, rough) for workload in checks)
    return msgspec.structs.replace(
        rough,
        samples=tuple(samples),
        holdout_samples=checked_samples,
        errors=_fit_errors(samples, checked_samples or tuple(samples)),
    )


def predict_times(workload: RecordedWorkload, calibration: Calibration) -> tuple[float, float]:
    """Predict the step time and back-to-back interval with ``calibration``, in ns."""
    replay = predict_replay(workload.step, calibration.terms, calibration.gpu.multiprocessors)
    return replay.total_ns, compute_back_to_back_ns(replay, calibration, len(workload.step))


def _compute_median(values: Sequence[int]) -> int:
    return round(float(np.median(values)))


def _fit_terms(
    recorded: Sequence[RecordedWorkload], multiprocessors: int, warps: float | None = None
) -> dict[str, float]:
    """Fit for the given or best of WARPS_CANDIDATES."""
    best: tuple[float, dict[str, float]] | None = None
    for candidate in WARPS_CANDIDATES if warps is None else (warps,):
        terms: dict[str, float] = {
            **{k.value: v for k, v in _START.items()},
            ReplayTerm.WARPS: candidate,
        }
        # The critical path through several streams depends on the fitted terms.
        for _ in range(_ROUNDS):
            terms = {**_solve_terms(recorded, terms, multiprocessors), ReplayTerm.WARPS: candidate}
        errors = _compute_relative_errors(recorded, terms, multiprocessors)
        score = float(np.abs(errors).mean())
        if best is None or score < best[0]:
            best = score, terms
    assert best is not None
    return best[1]


def _solve_terms(
    recorded: Sequence[RecordedWorkload], terms: dict[str, float], multiprocessors: int
) -> dict[str, float]:
    rows, targets = [], []
    for workload in recorded:
        replay = predict_replay(workload.step, terms, multiprocessors)
        rows.append([replay.features[term] / workload.step_ns for term in FITTED])
        targets.append((workload.step_ns - replay.work_ns - replay.slowed_ns) / workload.step_ns)
    solution = _solve_robustly(np.array(rows), np.array(targets))
    return {term.value: float(value) for term, value in zip(FITTED, solution, strict=True)}


def _solve_robustly(matrix: Floats, targets: Floats) -> Floats:
    """Minimise the absolute errors by iteratively reweighted least squares.

    Outliers, such as a GPU at its power limit, barely affect the others.
    """
    weight = np.ones(len(targets))
    solution = np.zeros(matrix.shape[1])
    for _ in range(_REWEIGHTING_ROUNDS):
        solution = _solve_nonnegative(matrix * weight[:, None], targets * weight)
        residuals = np.abs(matrix @ solution - targets)
        weight = 1 / np.sqrt(np.maximum(residuals, _MIN_RESIDUAL))
    return solution


def _solve_nonnegative(matrix: Floats, targets: Floats) -> Floats:
    """Solve least squares; negative terms are set to 0 and excluded."""
    solution = np.zeros(matrix.shape[1])
    used = np.flatnonzero(np.abs(matrix).sum(axis=0) > 0)
    while len(used):
        part = np.linalg.lstsq(matrix[:, used], targets, rcond=None)[0]
        if (part >= 0).all():
            solution[used] = part
            return solution
        used = np.delete(used, int(np.argmin(part)))
    return solution


def _compute_relative_errors(
    recorded: Sequence[RecordedWorkload], terms: dict[str, float], multiprocessors: int
) -> Floats:
    return np.array(
        [
            predict_replay(workload.step, terms, multiprocessors).total_ns / workload.step_ns - 1
            for workload in recorded
        ]
    )


def _fit_line(count: Sequence[float], value: Sequence[float]) -> tuple[float, float]:
    """Fit a fixed and a per-item value by the smallest relative errors, neither negative."""
    scale = np.maximum(np.array(value, dtype=np.float64), 1.0)
    matrix = np.stack([1 / scale, np.array(count, dtype=np.float64) / scale], axis=1)
    fixed_ns, per_unit = _solve_nonnegative(matrix, np.array(value, dtype=np.float64) / scale)
    return float(fixed_ns), float(per_unit)


def _assemble_calibration(
    recorded: Sequence[RecordedWorkload], terms: dict[str, float], source: CalibrationSource
) -> Calibration:
    nodes = [len(workload.step) for workload in recorded]
    between_errors = []
    for workload in recorded:
        replay = predict_replay(workload.step, terms, source.gpu.multiprocessors)
        between_errors.append(workload.interval_ns - (replay.total_ns - replay.fixed_ns))
    return Calibration(
        format=CALIBRATION_FORMAT,
        version=CALIBRATION_VERSION,
        tool_version=source.tool_version,
        created=source.created,
        recorded_at=source.recorded,
        gpu=source.gpu,
        environment=source.environment,
        terms=terms,
        interval_fixed_ns=max(float(np.median(between_errors)), 0.0),
        errors=ErrorScale({}, 0.0, 0.0),
        replay_cpu_ns=_fit_line(nodes, [workload.replay_cpu_ns for workload in recorded]),
        capture=_fit_line(
            [workload.eager_cpu_ns for workload in recorded],
            [workload.capture_ns for workload in recorded],
        ),
        instantiate_ns=_fit_line(nodes, [workload.instantiate_ns for workload in recorded]),
        first_launch_ns=_fit_line(
            nodes, [max(workload.first_launch_ns - workload.step_ns, 0) for workload in recorded]
        ),
        samples=(),
        holdout_samples=(),
    )


def _build_sample(
    workload: RecordedWorkload, calibration: Calibration, held_out_calibration: Calibration
) -> CalibrationSample:
    replay = predict_replay(workload.step, calibration.terms, calibration.gpu.multiprocessors)
    predicted_times, interval = predict_times(workload, held_out_calibration)
    return CalibrationSample(
        name=workload.name,
        nodes=workload.nodes,
        streams=workload.step.stream_count,
        work_ns=replay.work_ns + replay.slowed_ns,
        features=dict(replay.features),
        sources=compute_error_sources(workload.step, predicted_times),
        step_ns=workload.step_ns,
        interval_ns=workload.interval_ns,
        replay_cpu_ns=workload.replay_cpu_ns,
        predicted_ns=predicted_times,
        predicted_interval_ns=interval,
        eager_cpu_ns=workload.eager_cpu_ns,
        capture_ns=workload.capture_ns,
        instantiate_ns=workload.instantiate_ns,
        first_launch_ns=workload.first_launch_ns,
    )


def _fit_errors(
    samples: Sequence[CalibrationSample], checks: Sequence[CalibrationSample]
) -> ErrorScale:
    matrix = np.array([[sample.sources[source] for source in ErrorSource] for sample in samples])
    solution = _solve_nonnegative(
        matrix, np.array([compute_sample_errors(sample)[0] for sample in samples])
    )
    weights = dict(zip((source.value for source in ErrorSource), solution.tolist(), strict=True))
    scales = [compute_error_scale(check.sources, weights) for check in checks]
    step, interval = (
        compute_conformal_quantile(
            [error / scale for error, scale in zip(errors, scales, strict=True)]
        )
        for errors in zip(*map(compute_sample_errors, checks), strict=True)
    )
    return ErrorScale(weights, step, interval)


def compute_sample_errors(sample: CalibrationSample) -> tuple[float, float]:
    """Return the relative errors of a sample's prediction: step time, and back-to-back interval."""
    return (
        abs(1 - sample.step_ns / sample.predicted_ns),
        abs(1 - sample.interval_ns / sample.predicted_interval_ns),
    )


_FILE: Final = "calibration-h200.json"


@cache
def load_shipped_calibration() -> Calibration:
    """Load the calibration of an NVIDIA H200 from ``graphviz-dash bench predict``
    (docs/explanation/prediction.md).
    """
    content = (resources.files("graphviz_dash.analysis.prediction") / _FILE).read_bytes()
    return msgspec.json.decode(content, type=Calibration)
