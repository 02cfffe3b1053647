"""A calibration from recordings: what passes between nodes, found from workloads of which both the
eager trace and the clean time of the graphed step are known.

The terms are those with the least absolute relative errors, none below zero. What makes errors is
told by leaving out each workload in turn, and predicting it from the others; how large they are by
further workloads that the terms were not found from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats
from graphviz_dash.analysis.prediction.eager_step import EagerStep, eager_step
from graphviz_dash.analysis.prediction.predict import back_to_back_ns
from graphviz_dash.analysis.prediction.replay_model import ReplayTerm, replay_time
from graphviz_dash.analysis.prediction.uncertainty import (
    ErrorSource,
    conformal_quantile,
    error_scale,
    error_sources,
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

if TYPE_CHECKING:
    from graphviz_dash.model.run import Environment, Experiment, Gpu
    from graphviz_dash.model.trace import Trace

FITTED: Final = tuple(term for term in ReplayTerm if term is not ReplayTerm.WARPS)
"""Terms that are found by least squares; the last is searched for."""

WARPS: Final = (2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 20.0, 24.0, 32.0)
"""What is tried for Term.WARPS."""

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
_REWEIGHTED: Final = 20
_SURE: Final = 0.005
"""Relative errors below this count alike."""
_FEWEST: Final = 12


class RecordedWorkload(Struct, frozen=True):
    """One workload of a recording: its eager step, and medians of what was measured clean."""

    name: str
    """Name of the workload."""
    step: EagerStep
    """Its typical eager step."""
    nodes: int
    """Nodes of its graph."""
    step_ns: int
    """Clean step time of the graphed run, in ns."""
    interval_ns: int
    """Time between replays back to back, in ns."""
    replay_cpu_ns: int
    """CPU time of a replay's launch, in ns."""
    eager_ns: int
    """Clean step time of the eager run, in ns."""
    eager_cpu_ns: int
    """CPU time until the eager step has launched all its work, in ns."""
    capture_ns: int
    """Time of the capture, in ns."""
    instantiate_ns: int
    """Time of the instantiation, in ns."""
    first_launch_ns: int
    """Time of the first launch, in ns."""


def _own_step(trace: Trace) -> EagerStep | Missing:
    step = eager_step(trace)
    if not isinstance(step, Missing) and step.waits_for_ranks:
        return _unusable("its collectives hold the time in which they wait for other ranks")
    return step


def recorded_workload(experiment: Experiment) -> RecordedWorkload | Missing:
    """What an experiment with an eager and a graph run tells, or why it cannot be used."""
    runs = experiment.runs
    eager = next((run for run in runs if run.mode.is_baseline), None)
    whole = (
        run
        for run in runs
        if run.mode.captures_whole_step
        and not (run.mode.is_compiled or run.mode.is_planned)
        # A doctor captures too, and times nothing.
        and (run.doctor is None or run.clean is not None)
    )
    graph = next(whole, None)
    if eager is None or graph is None:
        return _unusable("it has no eager and graph run")
    if eager.clean is None or not eager.clean.steps or eager.replay_trace is None:
        return _unusable("its eager run has no clean timings or no trace")
    if graph.clean is None or not graph.clean.steps or not graph.clean.back_to_back_ns:
        return _unusable("its graph run has no clean timings")
    if len(graph.clean.graphs) != 1:
        return _unusable("its graph run has not one graph")
    step = _own_step(eager.replay_trace)
    if isinstance(step, Missing):
        return step
    life = graph.clean.graphs[0]
    return RecordedWorkload(
        name=experiment.name,
        step=step,
        nodes=life.nodes,
        step_ns=_median([timing.wall_ns for timing in graph.clean.steps]),
        interval_ns=_median(graph.clean.back_to_back_ns),
        replay_cpu_ns=_median([timing.launch_cpu_ns for timing in graph.clean.steps]),
        eager_ns=_median([timing.wall_ns for timing in eager.clean.steps]),
        eager_cpu_ns=_median([timing.launch_cpu_ns for timing in eager.clean.steps]),
        capture_ns=life.capture_ns,
        instantiate_ns=life.instantiate_ns,
        first_launch_ns=life.first_launch_ns,
    )


def _unusable(reason: str) -> Missing:
    return Missing(Fact.CALIBRATION_SAMPLE, reason)


class CalibrationSource(Struct, frozen=True):
    """Where recordings are from."""

    gpu: Gpu
    """The GPU that they were made on."""
    environment: Environment
    """Driver and libraries there."""
    recorded: str
    """When the last recording was made, ISO 8601."""
    tool_version: str
    """Version of the tool that makes the calibration."""
    created: str
    """When the calibration is made, ISO 8601."""


def calibrate(
    recorded: Sequence[RecordedWorkload],
    source: CalibrationSource,
    checks: Sequence[RecordedWorkload] = (),
) -> Calibration:
    """The calibration that ``recorded`` workloads of one machine give. The width of intervals is
    from ``checks``, workloads like those that will be predicted; without any from ``recorded``,
    each predicted from the others.

    Raises:
        InputError: too few workloads to find the terms.
    """
    if len(recorded) < _FEWEST:
        raise InputError(
            "the recordings",
            f"{len(recorded)} workloads that can be used",
            f"{_FEWEST} or more",
            "Record the suite of calibration: graphviz-dash bench predict -o FOLDER.",
        )
    multiprocessors = source.gpu.multiprocessors
    terms = _fit(recorded, multiprocessors)
    rough = _assembled(recorded, terms, source)
    samples = []
    for index, workload in enumerate(recorded):
        others = [*recorded[:index], *recorded[index + 1 :]]
        without = _assembled(others, _fit(others, multiprocessors, terms[ReplayTerm.WARPS]), source)
        samples.append(_sample(workload, rough, without))
    checked = tuple(_sample(workload, rough, rough) for workload in checks)
    return msgspec.structs.replace(
        rough,
        samples=tuple(samples),
        checks=checked,
        errors=_errors(samples, checked or tuple(samples)),
    )


def predicted_times(workload: RecordedWorkload, calibration: Calibration) -> tuple[float, float]:
    """Step time and back-to-back interval that ``calibration`` predicts, in ns."""
    replay = replay_time(workload.step, calibration.terms, calibration.gpu.multiprocessors)
    return replay.total_ns, back_to_back_ns(replay, calibration, len(workload.step))


def _median(values: Sequence[int]) -> int:
    return round(float(np.median(values)))


def _fit(
    recorded: Sequence[RecordedWorkload], multiprocessors: int, warps: float | None = None
) -> dict[str, float]:
    """The terms with the least relative errors, for the best of WARPS or the one given."""
    best: tuple[float, dict[str, float]] | None = None
    for tried in WARPS if warps is None else (warps,):
        terms: dict[str, float] = {
            **{k.value: v for k, v in _START.items()},
            ReplayTerm.WARPS: tried,
        }
        # The longest way through several streams depends on the terms that it gives.
        for _ in range(_ROUNDS):
            terms = {**_solved(recorded, terms, multiprocessors), ReplayTerm.WARPS: tried}
        missed = _relative(recorded, terms, multiprocessors)
        score = float(np.abs(missed).mean())
        if best is None or score < best[0]:
            best = score, terms
    assert best is not None
    return best[1]


def _solved(
    recorded: Sequence[RecordedWorkload], terms: dict[str, float], multiprocessors: int
) -> dict[str, float]:
    rows, wanted = [], []
    for workload in recorded:
        replay = replay_time(workload.step, terms, multiprocessors)
        rows.append([replay.features[term] / workload.step_ns for term in FITTED])
        wanted.append((workload.step_ns - replay.work_ns - replay.slowed_ns) / workload.step_ns)
    solution = _robust(np.array(rows), np.array(wanted))
    return {term.value: float(value) for term, value in zip(FITTED, solution, strict=True)}


def _robust(matrix: Floats, wanted: Floats) -> Floats:
    """The result with the least absolute errors, by least squares weighted anew: a workload that is
    far off for a reason of its own, such as a GPU at its power limit, does not bend the others."""
    weight = np.ones(len(wanted))
    solution = np.zeros(matrix.shape[1])
    for _ in range(_REWEIGHTED):
        solution = _not_negative(matrix * weight[:, None], wanted * weight)
        missed = np.abs(matrix @ solution - wanted)
        weight = 1 / np.sqrt(np.maximum(missed, _SURE))
    return solution


def _not_negative(matrix: Floats, wanted: Floats) -> Floats:
    """Least squares with no negative result: what comes out negative is set to 0 and left out."""
    solution = np.zeros(matrix.shape[1])
    used = np.flatnonzero(np.abs(matrix).sum(axis=0) > 0)
    while len(used):
        part = np.linalg.lstsq(matrix[:, used], wanted, rcond=None)[0]
        if (part >= 0).all():
            solution[used] = part
            return solution
        used = np.delete(used, int(np.argmin(part)))
    return solution


def _relative(
    recorded: Sequence[RecordedWorkload], terms: dict[str, float], multiprocessors: int
) -> Floats:
    return np.array(
        [
            replay_time(workload.step, terms, multiprocessors).total_ns / workload.step_ns - 1
            for workload in recorded
        ]
    )


def _line(count: Sequence[float], value: Sequence[float]) -> tuple[float, float]:
    """A fixed value and one for each, neither negative, with the least relative errors."""
    scale = np.maximum(np.array(value, dtype=np.float64), 1.0)
    matrix = np.stack([1 / scale, np.array(count, dtype=np.float64) / scale], axis=1)
    fixed, each = _not_negative(matrix, np.array(value, dtype=np.float64) / scale)
    return float(fixed), float(each)


def _assembled(
    recorded: Sequence[RecordedWorkload], terms: dict[str, float], source: CalibrationSource
) -> Calibration:
    """All but samples and errors."""
    nodes = [len(workload.step) for workload in recorded]
    between = []
    for workload in recorded:
        replay = replay_time(workload.step, terms, source.gpu.multiprocessors)
        between.append(workload.interval_ns - (replay.total_ns - replay.fixed_ns))
    return Calibration(
        format=CALIBRATION_FORMAT,
        version=CALIBRATION_VERSION,
        tool_version=source.tool_version,
        created=source.created,
        recorded=source.recorded,
        gpu=source.gpu,
        environment=source.environment,
        terms=terms,
        interval_fixed_ns=max(float(np.median(between)), 0.0),
        errors=ErrorScale({}, 0.0, 0.0),
        replay_cpu_ns=_line(nodes, [workload.replay_cpu_ns for workload in recorded]),
        capture=_line(
            [workload.eager_cpu_ns for workload in recorded],
            [workload.capture_ns for workload in recorded],
        ),
        instantiate_ns=_line(nodes, [workload.instantiate_ns for workload in recorded]),
        first_launch_ns=_line(
            nodes, [max(workload.first_launch_ns - workload.step_ns, 0) for workload in recorded]
        ),
        samples=(),
        checks=(),
    )


def _sample(
    workload: RecordedWorkload, whole: Calibration, without: Calibration
) -> CalibrationSample:
    replay = replay_time(workload.step, whole.terms, whole.gpu.multiprocessors)
    predicted, interval = predicted_times(workload, without)
    return CalibrationSample(
        name=workload.name,
        nodes=workload.nodes,
        streams=workload.step.streams,
        work_ns=replay.work_ns + replay.slowed_ns,
        features=dict(replay.features),
        sources=error_sources(workload.step, predicted),
        step_ns=workload.step_ns,
        interval_ns=workload.interval_ns,
        replay_cpu_ns=workload.replay_cpu_ns,
        predicted_ns=predicted,
        predicted_interval_ns=interval,
        eager_cpu_ns=workload.eager_cpu_ns,
        capture_ns=workload.capture_ns,
        instantiate_ns=workload.instantiate_ns,
        first_launch_ns=workload.first_launch_ns,
    )


def _errors(
    samples: Sequence[CalibrationSample], checks: Sequence[CalibrationSample]
) -> ErrorScale:
    """Weights from the errors of ``samples``, scores from those of ``checks``."""
    matrix = np.array([[sample.sources[source] for source in ErrorSource] for sample in samples])
    found = _not_negative(matrix, np.array([sample_errors(sample)[0] for sample in samples]))
    weights = dict(zip((source.value for source in ErrorSource), found.tolist(), strict=True))
    scales = [error_scale(check.sources, weights) for check in checks]
    step, interval = (
        conformal_quantile([error / scale for error, scale in zip(errors, scales, strict=True)])
        for errors in zip(*map(sample_errors, checks), strict=True)
    )
    return ErrorScale(weights, step, interval)


def sample_errors(sample: CalibrationSample) -> tuple[float, float]:
    """By how much a sample's prediction is off, as a part of the prediction: step time, and back to
    back."""
    return (
        abs(1 - sample.step_ns / sample.predicted_ns),
        abs(1 - sample.interval_ns / sample.predicted_interval_ns),
    )
