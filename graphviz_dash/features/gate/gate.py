"""Whether an experiment got worse than a baseline by more than is allowed, with the spread of both
taken into account: exact counts are compared as they are, times by resampling both series.

docs/how-to/fail-a-build.md tells users what is gated and how often the gate is wrong.
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
"""The gated times: medians of series."""

COUNTS: Final = ("peak_reserved", "launches", "graph_nodes")
"""The gated figures that are exact."""

DEFAULT_LIMIT: Final = 0.05

OF_THE_CPU: Final = 0.8
"""Launch CPU time over step time from which on the CPU decides how long a step takes."""

_HOST: Final = (
    "All that is worse are times of steps that launching decides. A busier or slower host does "
    "that too: record both on one host in one session, or several recordings into the baseline."
)


class Broken(Struct, frozen=True):
    """An offence that is no figure: a run that failed or is missing, a figure that is gone."""

    run: str
    text: str


class GateResult(Struct, frozen=True):
    """An experiment held against a baseline."""

    limit: float
    """The largest change allowed, as a fraction."""
    experiment: str
    """Name of the experiment."""
    baseline: str
    """Name of the baseline's last recording."""
    recordings: int
    """How many recordings the baseline has."""
    figures: tuple[GatedFigure, ...]
    """All that were compared."""
    broken: tuple[Broken, ...]
    """What offends and is no figure."""
    differences: tuple[str, ...]
    """Those of the machine and the software."""
    notes: tuple[str, ...]
    """What was not gated, and why."""

    @property
    def worse(self) -> tuple[GatedFigure, ...]:
        """The figures that offend."""
        return tuple(figure for figure in self.figures if figure.verdict is Verdict.WORSE)

    @property
    def unsure(self) -> tuple[GatedFigure, ...]:
        """The figures that are too noisy to tell."""
        return tuple(figure for figure in self.figures if figure.verdict is Verdict.UNSURE)

    @property
    def host(self) -> str | None:
        """A word of caution where all that offends are times that the CPU decides: another load of
        the host does that as well as a change of the code. None where anything else offends."""
        if not self.worse or self.broken or any(figure.exact for figure in self.worse):
            return None
        values = {(figure.run, figure.metric.id): figure.now for figure in self.figures}
        for figure in self.worse:
            launch, step = (
                values.get((figure.run, metric), 0.0) for metric in ("launch_cpu_time", "step_time")
            )
            if not step or launch < OF_THE_CPU * step:
                return None
        return _HOST

    @property
    def passed(self) -> bool:
        """Whether nothing offends."""
        return not self.worse and not self.broken


def record(experiment: Experiment) -> BaselineRecording:
    """What of an experiment a later one can be held against; examinations are left out."""
    return BaselineRecording(
        experiment.name, tuple(_record_run(run) for run in measured(experiment).runs)
    )


def baseline_of(experiments: Sequence[Experiment]) -> Baseline:
    """The baseline made of recordings of the same thing.

    Raises:
        InputError: they are not of the same workload on the same kind of GPU.
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
    """Holds ``experiment`` against ``baseline``; ``where`` is where the baseline lies, for errors.

    Raises:
        InputError: a run is of another workload, or on another kind of GPU, than the baseline's.
    """
    now = record(experiment)
    names = dict.fromkeys(run.name for recording in baseline.recordings for run in recording.runs)
    figures: list[GatedFigure] = []
    broken: list[Broken] = []
    notes: list[str] = []
    differences: dict[str, None] = {}
    present = {run.name: run for run in now.runs}
    for name in names:
        befores = _called(baseline.recordings, name)
        run = present.get(name)
        if run is None:
            broken.append(Broken(name, "the baseline has this run, the experiment does not"))
            continue
        for before in befores:
            _check_same(run, before, experiment.path, str(where))
        differences |= dict.fromkeys(_differences(befores[-1], run))
        if run.failure is not None:
            # Only what failed before and fails still is no news.
            if all(before.failure is not None for before in befores):
                notes.append(f"{run.failure}, as in the baseline")
            else:
                broken.append(Broken(name, run.failure))
        gone, compared, skipped = _compare(run, befores, limit)
        broken += gone if run.failure is None else []
        figures += compared
        notes += skipped
    for run in now.runs:
        if run.name in names:
            continue
        if run.failure is not None:
            broken.append(Broken(run.name, run.failure))
        else:
            notes.append(f"{run.name}: not in the baseline, so not gated")
    return GateResult(
        limit,
        now.name,
        baseline.recordings[-1].name,
        len(baseline.recordings),
        tuple(figures),
        tuple(broken),
        tuple(differences),
        tuple(notes),
    )


def _record_run(run: Run) -> BaselineRun:
    reads: dict[str, Callable[[CleanTimings], tuple[int, ...]]] = {
        "step_time": lambda clean: tuple(step.wall_ns for step in clean.steps),
        "step_interval": lambda clean: clean.back_to_back_ns,
        "launch_cpu_time": lambda clean: tuple(step.launch_cpu_ns for step in clean.steps),
    }
    series = {metric: reads[metric](run.clean) if run.clean else () for metric in TIMES}
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
    """How many of each series each process timed, where there were several."""
    if len(clean.processes) < 2:
        return {}
    steps = tuple(process.steps for process in clean.processes)
    intervals = tuple(process.back_to_back for process in clean.processes)
    return {metric: intervals if metric == "step_interval" else steps for metric in TIMES}


def _called(recordings: Sequence[BaselineRecording], name: str) -> tuple[BaselineRun, ...]:
    return tuple(run for recording in recordings for run in recording.runs if run.name == name)


def _check_same(run: BaselineRun, before: BaselineRun, experiment: object, where: str) -> None:
    """Times of two workloads, or of two kinds of GPU, say nothing about one another."""
    for what, own, other in (
        ("workload", run.workload.factory, before.workload.factory),
        ("parameters", _text(run.workload.parameters), _text(before.workload.parameters)),
        ("mode", run.mode.value, before.mode.value),
        ("GPU", run.environment.gpu_name, before.environment.gpu_name),
    ):
        if own != other:
            raise InputError(
                experiment,
                f"{run.name} with {what} {own}",
                f"{what} {other}, as in {where}",
                "Write another baseline for it.",
            )


def _text(parameters: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(parameters.items())) or "none"


def _differences(before: BaselineRun, now: BaselineRun) -> Iterator[str]:
    for field, title in (
        ("driver", "driver"),
        ("cuda_driver", "CUDA of the driver"),
        ("cuda_runtime", "CUDA runtime"),
        ("torch", "torch"),
        ("python", "Python"),
        ("nccl", "NCCL"),
        ("cpu", "CPU"),
        ("cpu_count", "CPU cores"),
        ("os", "system"),
        ("mps", "Multi-Process Service"),
    ):
        own, other = getattr(now.environment, field), getattr(before.environment, field)
        if own != other:
            yield f"{title}: {_known(other)} before, {_known(own)} now"


def _known(value: object) -> str:
    return "unknown" if value is None else str(value)


def _compare(
    run: BaselineRun, befores: Sequence[BaselineRun], limit: float
) -> tuple[list[Broken], list[GatedFigure], list[str]]:
    """What is gone, what was compared, and what could not be."""
    gone, compared, skipped = [], [], []
    for metric in (*TIMES, *COUNTS):
        had = [before for before in befores if metric in before.series or metric in before.counts]
        has = metric in run.series or metric in run.counts
        title = METRICS[metric].title
        if not had:
            if has:
                skipped.append(f"{run.name}: {title}: the baseline does not have it")
        elif not has:
            reason = run.absent.get(metric, "no reason is recorded")
            gone.append(Broken(run.name, f"{title} is gone: {reason}"))
        elif metric in COUNTS:
            most = max(before.counts[metric] for before in had)
            compared.append(hold_count(run.name, metric, most, run.counts[metric], limit))
        else:
            slowest = max(
                (_series(before, metric) for before in had), key=lambda series: series.median
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
    if run.failure is None and not timed and not gone:
        skipped.append(f"{run.name}: no time: {run.absent[TIMES[0]]}")
    return gone, compared, skipped


def _series(run: BaselineRun, metric: str) -> TimeSeries:
    values = run.series[metric]
    ends = [*accumulate(run.processes.get(metric, ()))] or [len(values)]
    return TimeSeries([values[first:last] for first, last in pairwise((0, *ends))])


def limit_text(limit: float) -> str:
    """A limit as it is written: ``5%``, ``2.5%``."""
    return f"{math.floor(limit * 1e6 + 0.5) / 1e4:g}%"
