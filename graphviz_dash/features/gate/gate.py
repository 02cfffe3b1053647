"""Regression gate: compare an experiment with a baseline, including the spread of both.

docs/gate.md describes the gated metrics and the false alarm rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graphviz_dash import __version__
from graphviz_dash.analysis.absence import why_missing
from graphviz_dash.analysis.failures import failure_text
from graphviz_dash.analysis.metrics.registry import METRICS
from graphviz_dash.analysis.metrics.run_metrics import graph_figures, memory_figures
from graphviz_dash.analysis.metrics.run_metrics import traced_figures as of_traces
from graphviz_dash.analysis.metrics.run_selection import measured
from graphviz_dash.analysis.trace.steps import steps
from graphviz_dash.errors import InputError
from graphviz_dash.features.gate.gate_sizes import hold_keys, record_keys
from graphviz_dash.features.gate.gated import (
    GatedFigure,
    TimeSeries,
    Verdict,
    hold_count,
    hold_times,
)
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.baseline import (
    BASELINE_FORMAT,
    BASELINE_VERSION,
    Baseline,
    BaselineRecording,
    BaselineRun,
)

if TYPE_CHECKING:
    from graphviz_dash.model.run import Experiment, Run
    from graphviz_dash.model.timings import CleanTimings

TIMES: Final = ("step_time", "step_interval", "launch_cpu_time")
"""Gated times: medians of series."""

COUNTS: Final = ("peak_reserved", "launches", "graph_nodes")
"""Gated metrics without spread."""

DEFAULT_LIMIT: Final = 0.05

OF_THE_CPU: Final = 0.8
"""Ratio of launch CPU time to step time above which a step is CPU-bound."""

_HOST: Final = (
    "All regressions are step times limited by launching. A busy or slow host has the same "
    "effect: record both on one host in one session, or add recordings to the baseline."
)


class Broken(Struct, frozen=True):
    """A gate failure without a value: a failed or missing run, or a missing metric."""

    run: str
    text: str


class GateResult(Struct, frozen=True):
    """Result of comparing an experiment with a baseline."""

    limit: float
    """Largest allowed change, as a fraction."""
    experiment: str
    """Name of the experiment."""
    baseline: str
    """Name of the baseline's last recording."""
    recordings: int
    """Number of recordings in the baseline."""
    figures: tuple[GatedFigure, ...]
    """All compared metrics."""
    broken: tuple[Broken, ...]
    """Failures without a value."""
    differences: tuple[str, ...]
    """Differences in machine and software."""
    notes: tuple[str, ...]
    """Metrics that were not gated, with the reason."""

    @property
    def worse(self) -> tuple[GatedFigure, ...]:
        """Metrics that exceed the limit."""
        return tuple(figure for figure in self.figures if figure.verdict is Verdict.WORSE)

    @property
    def unsure(self) -> tuple[GatedFigure, ...]:
        """Metrics that are too noisy for a verdict."""
        return tuple(figure for figure in self.figures if figure.verdict is Verdict.UNSURE)

    @property
    def host(self) -> str | None:
        """Warning if all regressions are CPU-bound times, which host load can also cause.

        None if there is any other failure.
        """
        if not self.worse or self.broken or any(figure.exact for figure in self.worse):
            return None
        values = {(figure.run, figure.metric.id): figure.now for figure in self.figures}
        for figure in self.worse:
            launch_ns, step_ns = (
                values.get((figure.run, metric), 0.0) for metric in ("launch_cpu_time", "step_time")
            )
            if not step_ns or launch_ns < OF_THE_CPU * step_ns:
                return None
        return _HOST

    @property
    def passed(self) -> bool:
        """True if there are no regressions and no failures."""
        return not self.worse and not self.broken


def record(experiment: Experiment) -> BaselineRecording:
    """Record the baseline values of an experiment; doctor examinations are excluded."""
    return BaselineRecording(
        experiment.name, tuple(_record_run(run) for run in measured(experiment).runs)
    )


def baseline_of(experiments: Sequence[Experiment]) -> Baseline:
    """Build a baseline from recordings of the same workload.

    Raises:
        InputError: workloads or kinds of GPU differ.
    """
    recordings = tuple(record(experiment) for experiment in experiments)
    for experiment, recording in zip(experiments[1:], recordings[1:], strict=True):
        for run in recording.runs:
            for other in _called(recordings[:1], run.name):
                _check_same(run, other, experiment.path, str(experiments[0].path))
    return Baseline(BASELINE_FORMAT, BASELINE_VERSION, __version__, recordings)


def gate(
    experiment: Experiment, baseline: Baseline, where: object, limit: float = DEFAULT_LIMIT
) -> GateResult:
    """Compare ``experiment`` with ``baseline``; ``where`` is the baseline's path, for errors.

    Raises:
        InputError: workload or kind of GPU of a run differs from the baseline's.
    """
    recording_now = record(experiment)
    names = dict.fromkeys(run.name for recording in baseline.recordings for run in recording.runs)
    figures: list[GatedFigure] = []
    broken: list[Broken] = []
    notes: list[str] = []
    differences: dict[str, None] = {}
    runs_by_name = {run.name: run for run in recording_now.runs}
    for name in names:
        befores = _called(baseline.recordings, name)
        run = runs_by_name.get(name)
        if run is None:
            broken.append(Broken(name, "the experiment lacks this run of the baseline"))
            continue
        for before in befores:
            _check_same(run, before, experiment.path, str(where))
        differences |= dict.fromkeys(_differences(befores[-1], run))
        if run.failure is not None:
            # A run that failed before and still fails is not a new failure.
            if all(before.failure is not None for before in befores):
                notes.append(f"{run.failure}, as in the baseline")
            else:
                broken.append(Broken(name, run.failure))
        missing, compared, skipped = _compare(run, befores, limit)
        broken += missing if run.failure is None else []
        figures += compared
        notes += skipped
    for run in recording_now.runs:
        if run.name in names:
            continue
        if run.failure is not None:
            broken.append(Broken(run.name, run.failure))
        else:
            notes.append(f"{run.name}: not gated, because it is not in the baseline")
    return GateResult(
        limit,
        recording_now.name,
        baseline.recordings[-1].name,
        len(baseline.recordings),
        tuple(figures),
        tuple(broken),
        tuple(differences),
        tuple(notes),
    )


def _record_run(run: Run) -> BaselineRun:
    readers: dict[str, Callable[[CleanTimings], tuple[int, ...]]] = {
        "step_time": lambda clean: tuple(step.wall_ns for step in clean.steps),
        "step_interval": lambda clean: clean.back_to_back_ns,
        "launch_cpu_time": lambda clean: tuple(step.launch_cpu_ns for step in clean.steps),
    }
    series = {metric: readers[metric](run.clean) if run.clean else () for metric in TIMES}
    reason = why_missing(run, Fact.STEP_TIMES).reason
    absent = {metric: reason for metric, values in series.items() if not values}
    counts: dict[str, int | float] = {}
    traced_steps = steps(run.replay_trace) if run.replay_trace is not None else ()
    for figure in (*memory_figures(run), *of_traces(run, traced_steps), *graph_figures(run)):
        if figure.metric.id not in COUNTS:
            continue
        if figure.value is None:
            absent[figure.metric.id] = figure.missing.reason if figure.missing else ""
        else:
            value = figure.value
            counts[figure.metric.id] = int(value) if value == int(value) else value
    failures = run.manifest.failures
    return BaselineRun(
        name=run.name,
        mode=run.mode,
        rank=run.manifest.rank,
        created=run.manifest.created,
        workload=run.manifest.workload,
        environment=run.manifest.environment,
        series={metric: values for metric, values in series.items() if values},
        processes=_processes(run.clean) if run.clean else {},
        keys=record_keys(run),
        counts=counts,
        absent=absent,
        failure=failure_text(run.name, failures[0]) if failures else None,
    )


def _processes(clean: CleanTimings) -> dict[str, tuple[int, ...]]:
    """Count the iterations of each series per process; empty for a single process."""
    if len(clean.processes) < 2:
        return {}
    steps = tuple(process.steps for process in clean.processes)
    intervals = tuple(process.back_to_back for process in clean.processes)
    return {metric: intervals if metric == "step_interval" else steps for metric in TIMES}


def _called(recordings: Sequence[BaselineRecording], name: str) -> tuple[BaselineRun, ...]:
    return tuple(run for recording in recordings for run in recording.runs if run.name == name)


def _check_same(run: BaselineRun, before: BaselineRun, experiment: object, where: str) -> None:
    """Raise InputError if workload or kind of GPU differ, because such times are not comparable."""
    for quantity, current, expected in (
        ("workload", run.workload.factory, before.workload.factory),
        ("parameters", _text(run.workload.parameters), _text(before.workload.parameters)),
        ("mode", run.mode.value, before.mode.value),
        ("GPU", run.environment.gpu_name, before.environment.gpu_name),
    ):
        if current != expected:
            raise InputError(
                experiment,
                f"{run.name} with {quantity} {current}",
                f"{quantity} {expected}, as in {where}",
                "Create a new baseline for it.",
            )


def _text(parameters: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(parameters.items())) or "none"


def _differences(before: BaselineRun, now: BaselineRun) -> Iterator[str]:
    for field, title in (
        ("driver", "driver"),
        ("cuda_driver", "CUDA driver API"),
        ("cuda_runtime", "CUDA runtime"),
        ("torch", "torch"),
        ("python", "Python"),
        ("nccl", "NCCL"),
        ("cpu", "CPU"),
        ("cpu_count", "CPU cores"),
        ("os", "operating system"),
        ("mps", "Multi-Process Service"),
    ):
        current, previous = getattr(now.environment, field), getattr(before.environment, field)
        if current != previous:
            yield f"{title}: {_known(previous)} before, {_known(current)} now"


def _known(value: object) -> str:
    return "unknown" if value is None else str(value)


def _compare(
    run: BaselineRun, befores: Sequence[BaselineRun], limit: float
) -> tuple[list[Broken], list[GatedFigure], list[str]]:
    missing, compared, skipped = [], [], []
    for metric in (*TIMES, *COUNTS):
        earlier_runs = [
            before for before in befores if metric in before.series or metric in before.counts
        ]
        is_recorded = metric in run.series or metric in run.counts
        title = METRICS[metric].title
        if not earlier_runs:
            if is_recorded:
                skipped.append(f"{run.name}: {title}: not in the baseline")
        elif not is_recorded:
            reason = run.absent.get(metric, "no reason is recorded")
            missing.append(Broken(run.name, f"{title} is missing: {reason}"))
        elif metric in COUNTS:
            largest = max(before.counts[metric] for before in earlier_runs)
            compared.append(hold_count(run.name, metric, largest, run.counts[metric], limit))
        else:
            slowest = max(
                (_series(before, metric) for before in earlier_runs),
                key=lambda series: series.median,
            )
            gated = hold_times(run.name, metric, slowest, _series(run, metric), limit)
            if isinstance(gated, Missing):
                skipped.append(f"{run.name}: {title}: {gated.reason}")
            else:
                compared.append(gated)
    by_key = hold_keys(run, befores, limit)
    compared += by_key.figures
    skipped += by_key.notes
    timed = by_key.figures or any(metric in run.series for metric in TIMES)
    if run.failure is None and not timed and not missing:
        skipped.append(f"{run.name}: no times: {run.absent[TIMES[0]]}")
    return missing, compared, skipped


def _series(run: BaselineRun, metric: str) -> TimeSeries:
    values = run.series[metric]
    ends = [*accumulate(run.processes.get(metric, ()))] or [len(values)]
    return TimeSeries([values[first:last] for first, last in pairwise((0, *ends))])


def limit_text(limit: float) -> str:
    """Format a limit: ``5%``, ``2.5%``."""
    return f"{math.floor(limit * 1e6 + 0.5) / 1e4:g}%"
