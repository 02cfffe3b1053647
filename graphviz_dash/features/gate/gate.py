"""Regression gate: compare an experiment with a baseline, including the spread of both.

docs/how-to/fail-a-build.md describes the gated metrics and the false alarm rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Final

from msgspec import Struct

from graphviz_dash import __version__
from graphviz_dash.analysis.absence import explain_missing
from graphviz_dash.analysis.failures import format_failure
from graphviz_dash.analysis.ledger.metrics import STARTUP_METRICS, measure_startup
from graphviz_dash.analysis.metrics.registry import Metric
from graphviz_dash.analysis.metrics.run_metrics import compute_memory_metrics, count_graph_objects
from graphviz_dash.analysis.metrics.run_metrics import compute_traced_metrics as of_traces
from graphviz_dash.analysis.metrics.run_selection import exclude_examinations
from graphviz_dash.analysis.trace.steps import find_steps
from graphviz_dash.errors import InputError
from graphviz_dash.features.efficiency.analysis.excess import (
    EXCESS_METRIC,
    compute_excess_series,
)
from graphviz_dash.features.gate.gate_sizes import compare_keys, record_keys
from graphviz_dash.features.gate.gated import (
    GATED_METRICS,
    MetricChange,
    TimeSeries,
    Verdict,
    compare_count,
    compare_times,
)
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.baseline import (
    BASELINE_FORMAT,
    BASELINE_VERSION,
    Baseline,
    BaselineRecording,
    BaselineRun,
)
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.model.timings import CleanTimings

TIME_METRICS: Final = ("step_time", "step_interval", "launch_cpu_time")
"""Gated times: medians of series."""

TRACED_METRICS: Final = (EXCESS_METRIC.id,)
"""Gated times of the traced pass: series over its replays."""

COUNT_METRICS: Final = ("peak_reserved", "launches", "graph_nodes")
"""Gated metrics without spread."""

DEFAULT_LIMIT: Final = 0.05

STARTUP_TIME_LIMIT: Final = 0.25
"""Limit for the start-up time, a single value: imports alone vary by 20% (files in the page cache,
other processes)."""

CPU_BOUND_RATIO: Final = 0.8
"""Launch CPU time relative to step time above which a step is CPU-bound."""

_HOST_LOAD_WARNING: Final = (
    "All regressions are step times limited by launching. A busy or slow host has the same "
    "effect: record both on one host in one session, or add recordings to the baseline."
)


class GateFailure(Struct, frozen=True):
    """A gate failure without a value: a failed or missing run, or a missing metric."""

    run: str
    text: str


class GateResult(Struct, frozen=True):
    """Result of comparing an experiment with a baseline."""

    limit: float
    """Allowed change, as a fraction."""
    experiment: str
    baseline: str
    """Name of the baseline's last recording."""
    recordings: int
    """Number of recordings in the baseline."""
    changes: tuple[MetricChange, ...]
    failures: tuple[GateFailure, ...]
    """Failures without a value."""
    differences: tuple[str, ...]
    """Differences in machine and software."""
    notes: tuple[str, ...]
    """Metrics that were not gated, with the reason."""

    @property
    def regressions(self) -> tuple[MetricChange, ...]:
        """Metrics that exceed the limit."""
        return tuple(figure for figure in self.changes if figure.verdict is Verdict.WORSE)

    @property
    def inconclusive(self) -> tuple[MetricChange, ...]:
        """Metrics that are too noisy for a verdict."""
        return tuple(figure for figure in self.changes if figure.verdict is Verdict.INCONCLUSIVE)

    @property
    def host_warning(self) -> str | None:
        """Warning if all regressions are CPU-bound times, which host load can also cause.

        None if there is any other failure.
        """
        if (
            not self.regressions
            or self.failures
            or any(figure.is_exact for figure in self.regressions)
        ):
            return None
        values = {(figure.run, figure.metric.id): figure.current for figure in self.changes}
        for figure in self.regressions:
            launch_ns, step_ns = (
                values.get((figure.run, metric), 0.0) for metric in ("launch_cpu_time", "step_time")
            )
            if not step_ns or launch_ns < CPU_BOUND_RATIO * step_ns:
                return None
        return _HOST_LOAD_WARNING

    @property
    def passed(self) -> bool:
        """True if there are no regressions and no failures."""
        return not self.regressions and not self.failures


def get_gated_metric(name: str) -> Metric:
    """Return a gated metric by id."""
    return STARTUP_METRICS.get(name) or GATED_METRICS[name]


def record_experiment(experiment: Experiment) -> BaselineRecording:
    """Record the baseline values; doctor examinations are excluded."""
    return BaselineRecording(
        experiment.name, tuple(_record_run(run) for run in exclude_examinations(experiment).runs)
    )


def build_baseline(experiments: Sequence[Experiment]) -> Baseline:
    """Build a baseline from recordings of the same workload.

    Raises:
        InputError: workloads or kinds of GPU differ.
    """
    recordings = tuple(record_experiment(experiment) for experiment in experiments)
    for experiment, recording in zip(experiments[1:], recordings[1:], strict=True):
        for run in recording.runs:
            for other in _select_runs(recordings[:1], run.name):
                _check_comparable(run, other, experiment.path, str(experiments[0].path))
    return Baseline(BASELINE_FORMAT, BASELINE_VERSION, __version__, recordings)


def check_gate(
    experiment: Experiment, baseline: Baseline, baseline_path: object, limit: float = DEFAULT_LIMIT
) -> GateResult:
    """Compare ``experiment`` with ``baseline``; ``baseline_path`` is for errors.

    Raises:
        InputError: workload or kind of GPU of a run differs from the baseline's.
    """
    recording_now = record_experiment(experiment)
    names = dict.fromkeys(run.name for recording in baseline.recordings for run in recording.runs)
    figures: list[MetricChange] = []
    broken: list[GateFailure] = []
    notes: list[str] = []
    differences: dict[str, None] = {}
    runs_by_name = {run.name: run for run in recording_now.runs}
    for name in names:
        befores = _select_runs(baseline.recordings, name)
        run = runs_by_name.get(name)
        if run is None:
            broken.append(GateFailure(name, "the experiment lacks this run of the baseline"))
            continue
        for before in befores:
            _check_comparable(run, before, experiment.path, str(baseline_path))
        differences |= dict.fromkeys(_list_differences(befores[-1], run))
        if run.failure is not None:
            # A run that failed before and still fails is not a new failure.
            if all(before.failure is not None for before in befores):
                notes.append(f"{run.failure}, as in the baseline")
            else:
                broken.append(GateFailure(name, run.failure))
        missing, compared, skipped = _compare_run(run, befores, limit)
        broken += missing if run.failure is None else []
        figures += compared
        notes += skipped
    for run in recording_now.runs:
        if run.name in names:
            continue
        if run.failure is not None:
            broken.append(GateFailure(run.name, run.failure))
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
    series = {metric: readers[metric](run.clean) if run.clean else () for metric in TIME_METRICS}
    reason = explain_missing(run, Fact.STEP_TIMES).reason
    absent = {metric: reason for metric, values in series.items() if not values}
    excess = compute_excess_series(run)
    if isinstance(excess, Missing):
        absent[EXCESS_METRIC.id] = excess.reason
    else:
        series[EXCESS_METRIC.id] = excess
    counts: dict[str, int | float] = {}
    traced_steps = find_steps(run.replay_trace) if run.replay_trace is not None else ()
    for figure in (
        *compute_memory_metrics(run),
        *of_traces(run, traced_steps),
        *count_graph_objects(run),
    ):
        if figure.metric.id not in COUNT_METRICS:
            continue
        if figure.value is None:
            absent[figure.metric.id] = figure.missing.reason if figure.missing else ""
        else:
            value = figure.value
            counts[figure.metric.id] = int(value) if value == int(value) else value
    counts |= measure_startup(run)
    failures = run.manifest.failures
    return BaselineRun(
        name=run.name,
        mode=run.mode,
        rank=run.manifest.rank,
        created=run.manifest.created,
        workload=run.manifest.workload,
        environment=run.manifest.environment,
        series={metric: values for metric, values in series.items() if values},
        processes=_count_process_iterations(run.clean) if run.clean else {},
        keys=record_keys(run),
        counts=counts,
        absent=absent,
        failure=format_failure(run.name, failures[0]) if failures else None,
    )


def _count_process_iterations(clean: CleanTimings) -> dict[str, tuple[int, ...]]:
    """Count the iterations of each series; empty for a single process."""
    if len(clean.processes) < 2:
        return {}
    steps = tuple(process.step_count for process in clean.processes)
    intervals = tuple(process.back_to_back_count for process in clean.processes)
    return {metric: intervals if metric == "step_interval" else steps for metric in TIME_METRICS}


def _select_runs(recordings: Sequence[BaselineRecording], name: str) -> tuple[BaselineRun, ...]:
    return tuple(run for recording in recordings for run in recording.runs if run.name == name)


def _check_comparable(
    run: BaselineRun, before: BaselineRun, experiment: object, baseline_path: str
) -> None:
    """Raise InputError if workload or kind of GPU differ, because such times are not comparable."""
    for quantity, current, expected in (
        ("workload", run.workload.factory, before.workload.factory),
        (
            "parameters",
            _format_parameters(run.workload.parameters),
            _format_parameters(before.workload.parameters),
        ),
        ("mode", run.mode.value, before.mode.value),
        ("GPU", run.environment.gpu_name, before.environment.gpu_name),
    ):
        if current != expected:
            raise InputError(
                experiment,
                f"{run.name} with {quantity} {current}",
                f"{quantity} {expected}, as in {baseline_path}",
                "Create a new baseline for it.",
            )


def _format_parameters(parameters: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(parameters.items())) or "none"


def _list_differences(before: BaselineRun, now: BaselineRun) -> Iterator[str]:
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
            yield f"{title}: {_format_value(previous)} before, {_format_value(current)} now"


def _format_value(value: object) -> str:
    return "unknown" if value is None else str(value)


def _compare_run(
    run: BaselineRun, baselines: Sequence[BaselineRun], limit: float
) -> tuple[list[GateFailure], list[MetricChange], list[str]]:
    missing, compared, skipped = [], [], []
    for metric in (*TIME_METRICS, *TRACED_METRICS, *COUNT_METRICS, *STARTUP_METRICS):
        earlier_runs = [
            before for before in baselines if metric in before.series or metric in before.counts
        ]
        is_recorded = metric in run.series or metric in run.counts
        title = get_gated_metric(metric).title
        if not earlier_runs:
            if is_recorded:
                skipped.append(f"{run.name}: {title}: not in the baseline")
        elif not is_recorded:
            reason = run.absent.get(metric, "no reason is recorded")
            missing.append(GateFailure(run.name, f"{title} is missing: {reason}"))
        elif metric not in (*TIME_METRICS, *TRACED_METRICS):
            largest = max(before.counts[metric] for before in earlier_runs)
            run_limit = max(limit, STARTUP_TIME_LIMIT) if metric == "startup_time" else limit
            gated_metric, current = get_gated_metric(metric), run.counts[metric]
            compared.append(compare_count(run.name, gated_metric, largest, current, run_limit))
        else:
            slowest = max(
                (_build_series(before, metric) for before in earlier_runs),
                key=lambda series: series.median,
            )
            gated = compare_times(run.name, metric, slowest, _build_series(run, metric), limit)
            if isinstance(gated, Missing):
                skipped.append(f"{run.name}: {title}: {gated.reason}")
            else:
                compared.append(gated)
    by_key = compare_keys(run, baselines, limit)
    compared += by_key.changes
    skipped += by_key.notes
    timed = by_key.changes or any(metric in run.series for metric in TIME_METRICS)
    if run.failure is None and not timed and not missing:
        skipped.append(f"{run.name}: no times: {run.absent[TIME_METRICS[0]]}")
    return missing, compared, skipped


def _build_series(run: BaselineRun, metric: str) -> TimeSeries:
    values = run.series[metric]
    ends = [*accumulate(run.processes.get(metric, ()))] or [len(values)]
    return TimeSeries([values[first:last] for first, last in pairwise((0, *ends))])


def format_limit(limit: float) -> str:
    """Format a limit: ``5%``, ``2.5%``."""
    return f"{math.floor(limit * 1e6 + 0.5) / 1e4:g}%"
