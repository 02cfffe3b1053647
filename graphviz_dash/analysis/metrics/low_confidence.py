"""Numeric caveats of a run's metrics.

thresholds.py holds the thresholds and graphviz_dash/narrative/low_confidence.py the texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from msgspec import Struct

from graphviz_dash.analysis.metrics.machine_state import MachineCaveat, find_machine_caveats
from graphviz_dash.analysis.metrics.recorded_step import compute_recorded_step_ns
from graphviz_dash.analysis.metrics.run_metrics import MetricValue, get_step_times
from graphviz_dash.analysis.metrics.thresholds import (
    DRIFT,
    FEW_ITERATIONS,
    FEW_STEPS,
    FEW_TRACED_STEPS,
    LARGE_REMAINDER,
    LONG_STEP_MEDIANS,
    MAX_LONG_STEP_SHARE,
    MIN_OBSERVER_EFFECT,
    MUCH_COMMUNICATION,
    STRONG_OBSERVER,
    WIDE_RELATIVE_SPREAD,
)
from graphviz_dash.analysis.sample_statistics import Spread, summarise
from graphviz_dash.analysis.trace.collectives import measure_communication
from graphviz_dash.analysis.trace.device_work import DeviceWork, measure_devices
from graphviz_dash.analysis.trace.gpu_records import find_missing_gpu_work
from graphviz_dash.analysis.trace.integrity import Claim, TraceIntegrity
from graphviz_dash.analysis.trace.steps import Step, StepMethod
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.graph import ConditionalParams, ConditionalType

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run, WorkloadInfo
    from graphviz_dash.model.trace import TraceProblem


_LOST_WORK: Final = "launch-without-work"


class GraphSource(StrEnum):
    """Source of a run's graphs."""

    RECORDER = "recorder"
    """Captures by torch that the recorder watched in a program."""
    IMPORT = "import"
    """Graphs imported with the trace."""
    CAPTURE = "capture"
    """The run's own capture."""
    WHOLE = "whole"
    """A report whose profiler traced graphs as single units, without their kernels."""


class _Caveat:
    """Base class; ``metrics`` holds the affected metric ids, empty for all."""

    metrics: ClassVar[tuple[str, ...]] = ()


class FewIterations(Struct, frozen=True):
    """A clean series of ``count`` iterations, fewer than FEW_ITERATIONS."""

    metric: str
    count: int

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metric of the series."""
        return (self.metric,)


class Drift(Struct, frozen=True):
    """The halves of a clean series differ by more than DRIFT of its median.

    With several processes, the halves of all of them are pooled.
    """

    metric: str
    first_ns: float
    """Median of the first half."""
    second_ns: float
    """Median of the second half."""
    warmup: int

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metric of the series."""
        return (self.metric,)


class WideSpread(Struct, frozen=True):
    """The quartiles of a clean series are further apart than WIDE_RELATIVE_SPREAD of its median."""

    metric: str
    relative: float
    """Distance between the quartiles divided by the median."""
    spread: Spread
    """Quartiles, in ns."""
    iterations: int

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metric of the series."""
        return (self.metric,)


class NoDifference(Struct, frozen=True):
    """The 95% interval of a speedup contains 1."""

    figure: MetricValue

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metric of the speedup."""
        return (self.figure.metric.id,)


class LargeRemainder(Struct, _Caveat, frozen=True):
    """The equation leaves ``ns`` unexplained, ``fraction`` of the baseline's step."""

    metrics: ClassVar[tuple[str, ...]] = ("remainder", "gaps_removed", "kernel_change")
    ns: float
    fraction: float


class WhileLoops(Struct, _Caveat, frozen=True):
    """The trace shows only the last iteration of each of ``nodes`` While nodes."""

    metrics: ClassVar[tuple[str, ...]] = (
        "gpu_busy",
        "busy_fraction",
        "busy_of_clean",
        "kernels",
        "copies",
        "sets",
    )
    nodes: int


class NoGpuWork(Struct, _Caveat, frozen=True):
    """The traced pass contains no GPU work; ``missing`` holds the reason."""

    missing: Missing


class NoSteps(Struct, _Caveat, frozen=True):
    """The traced pass marks no steps; ``full_step`` covers all of it."""

    full_step: Step


class SeveralDevices(Struct, _Caveat, frozen=True):
    """The traced work ran on several GPUs, and the figures cover all of them."""

    devices: tuple[DeviceWork, ...]
    """Work of each GPU, by number."""


class ForeignSteps(Struct, _Caveat, frozen=True):
    """Another program marked the steps, so they may not end synchronised."""

    method: StepMethod


class FewTracedSteps(Struct, _Caveat, frozen=True):
    """``count`` traced steps, fewer than FEW_TRACED_STEPS."""

    metrics: ClassVar[tuple[str, ...]] = (
        "gpu_busy",
        "busy_fraction",
        "busy_of_clean",
        "observer_effect",
    )
    count: int
    imported: bool
    """True if the trace was imported, so that no more steps can be collected."""


class StrongObserver(Struct, _Caveat, frozen=True):
    """A traced step is ``ratio`` times as long as a clean one, at least STRONG_OBSERVER."""

    metrics: ClassVar[tuple[str, ...]] = ("busy_fraction", "traced_step_time")
    ratio: float


class PassMismatch(Struct, _Caveat, frozen=True):
    """A traced step is ``ratio`` times as long as a clean one, below MIN_OBSERVER_EFFECT."""

    metrics: ClassVar[tuple[str, ...]] = ("observer_effect", "busy_of_clean")
    ratio: float


class BusyAboveClean(Struct, _Caveat, frozen=True):
    """Traced GPU busy time is ``fraction`` of the clean step time, above 1.

    ``is_rank``: the run is one of several ranks.
    """

    metrics: ClassVar[tuple[str, ...]] = ("busy_of_clean",)
    fraction: float
    is_rank: bool


class TraceDefect(Struct, _Caveat, frozen=True):
    """A problem of a trace.

    ``trace`` names the affected one of the run's two traces; None if both are, or if there is
    only one.
    """

    problem: TraceProblem
    trace: str | None


class UnsupportedClaims(Struct, _Caveat, frozen=True):
    """Conclusions that the traced pass does not support, with their common reason."""

    claims: tuple[Claim, ...]
    missing: Missing


class MuchCommunication(Struct, _Caveat, frozen=True):
    """Communication is ``share`` of a rank's GPU busy time, above MUCH_COMMUNICATION."""

    metrics: ClassVar[tuple[str, ...]] = (
        "gpu_busy",
        "busy_fraction",
        "kernel_change",
        "gaps_removed",
    )
    share: float


class EnvironmentMismatch(Struct, _Caveat, frozen=True):
    """The run and its baseline come from different machines or software."""

    component: str
    """Difference: GPU, driver, CUDA, torch or CPU."""
    run_value: str | None
    """Value of the run; None if unknown."""
    baseline_value: str | None
    """Value of the baseline; None if unknown."""
    baseline: str


class WorkloadMismatch(Struct, _Caveat, frozen=True):
    """The run and the run ``baseline`` have different workloads or seeds."""

    run_workload: WorkloadInfo
    baseline_workload: WorkloadInfo
    baseline: str


class ParameterMismatch(Struct, _Caveat, frozen=True):
    """Different parameters of a workload; ``differing`` holds (name, run's, baseline's value)."""

    differing: tuple[tuple[str, object, object], ...]
    baseline: str


class FewRecordedSteps(Struct, _Caveat, frozen=True):
    """``count`` timed steps of a recorded program, fewer than FEW_STEPS."""

    metrics: ClassVar[tuple[str, ...]] = ("recorded_step", "recorded_speedup")
    count: int


class UnevenSteps(Struct, _Caveat, frozen=True):
    """A recorded program spends most of its loop in a few long steps.

    Profiled steps are also shorter than the mean by more than MIN_OBSERVER_EFFECT allows, so the
    mean is not representative.
    """

    metrics: ClassVar[tuple[str, ...]] = ("recorded_step", "recorded_speedup")
    long_count: int
    """Number of steps longer than LONG_STEP_MEDIANS medians."""
    count: int
    """Number of timed steps."""
    share: float
    """Fraction of the total time in long steps, 0 to 1."""
    median_ns: float
    """Median of all steps."""
    traced_ns: float
    """Median step under the profiler."""


class CaptureProblem(Struct, _Caveat, frozen=True):
    """A problem with a capture of a recorded program. ``location`` is ``file:line``."""

    graph: str
    location: str | None
    problem: str


class UnknownGraphs(Struct, _Caveat, frozen=True):
    """Graph launches in a trace without a known graph, for which only times are known."""

    count: int
    """Number of such launches."""
    launches: int
    """Number of all graph launches in the trace."""
    time_share: float | None
    """Fraction of the duration of all GPU work, 0 to 1; None if the launches are unidentified."""
    source: GraphSource
    """Source of the run's graphs."""


LowConfidence: TypeAlias = (
    FewIterations
    | SeveralDevices
    | Drift
    | WideSpread
    | NoDifference
    | LargeRemainder
    | WhileLoops
    | NoGpuWork
    | NoSteps
    | ForeignSteps
    | FewTracedSteps
    | StrongObserver
    | PassMismatch
    | BusyAboveClean
    | TraceDefect
    | UnsupportedClaims
    | MuchCommunication
    | EnvironmentMismatch
    | WorkloadMismatch
    | ParameterMismatch
    | FewRecordedSteps
    | UnevenSteps
    | CaptureProblem
    | UnknownGraphs
    | MachineCaveat
)


def find_caveats(
    run: Run,
    baseline: Run | None,
    figures: Mapping[str, MetricValue],
    traced_steps: tuple[Step, ...],
    integrity: TraceIntegrity | None,
) -> tuple[LowConfidence, ...]:
    """Find caveats for the metrics of ``run``, those of the headline first."""
    return (
        *_check_series(run),
        *find_machine_caveats(run, baseline),
        *_check_speedup(figures),
        *_check_equation(figures),
        *_check_steps(run, traced_steps),
        *_check_observer(run, figures),
        *_check_integrity(integrity),
        *_check_traces(run),
        *_check_loops(run),
        *_check_ranks(run, traced_steps),
        *(_check_pair(run, baseline) if baseline is not None else ()),
        *_check_recording(run),
        *_check_uneven_steps(run, figures),
    )


def compute_communication_share(run: Run, traced_steps: tuple[Step, ...]) -> float:
    """Return the fraction of a rank's traced GPU busy time spent in communication.

    0 if the run is not one of several ranks.
    """
    trace = run.replay_trace
    busy = sum(step.busy_ns for step in traced_steps)
    if run.manifest.job_rank is None or trace is None or not busy:
        return 0.0
    return sum(step.total_ns for step in measure_communication(trace, traced_steps)) / busy


def _check_series(run: Run) -> Iterator[LowConfidence]:
    if run.clean is None:
        return
    series: tuple[tuple[str, Sequence[Sequence[int]]], ...] = (
        ("step_time", get_step_times(run.clean)),
        ("step_interval", run.clean.process_back_to_back_ns),
    )
    for metric, processes in series:
        values = [*chain.from_iterable(processes)]
        summary = summarise(values)
        if summary is None:
            continue
        count = len(values)
        if count < FEW_ITERATIONS:
            yield FewIterations(metric, count)
            continue
        firsts = chain.from_iterable(times[: len(times) // 2] for times in processes)
        seconds = chain.from_iterable(times[len(times) // 2 :] for times in processes)
        halves = [summarise([*half]) for half in (firsts, seconds)]
        first, second = (half.median if half else 0.0 for half in halves)
        workload = run.manifest.workload
        if abs(first - second) > DRIFT * summary.median:
            yield Drift(metric, first, second, workload.warmup)
        if summary.relative_spread > WIDE_RELATIVE_SPREAD:
            yield WideSpread(metric, summary.relative_spread, summary.spread, workload.iterations)


def _check_speedup(figures: Mapping[str, MetricValue]) -> Iterator[LowConfidence]:
    for metric in ("speedup", "speedup_interval"):
        if figures[metric].interval_contains_one:
            yield NoDifference(figures[metric])


def _check_equation(figures: Mapping[str, MetricValue]) -> Iterator[LowConfidence]:
    remainder, saving = figures["remainder"].value, figures["step_saving"].value
    step_ns = figures["step_time"].value
    if remainder is None or saving is None or step_ns is None:
        return
    baseline_ns = step_ns + saving
    if baseline_ns > 0 and abs(remainder) > LARGE_REMAINDER * baseline_ns:
        yield LargeRemainder(abs(remainder), abs(remainder) / baseline_ns)


def _check_loops(run: Run) -> Iterator[LowConfidence]:
    loops = sum(
        isinstance(node.params, ConditionalParams) and node.params.type is ConditionalType.WHILE
        for graph in run.graphs
        for node in graph.nodes
    )
    if loops and run.replay_trace is not None:
        yield WhileLoops(loops)


def _check_steps(run: Run, traced_steps: tuple[Step, ...]) -> Iterator[LowConfidence]:
    if not traced_steps or run.replay_trace is None:
        return
    without = find_missing_gpu_work(run.replay_trace)
    if without is not None:
        yield NoGpuWork(without)
    devices = measure_devices(run.replay_trace, traced_steps)
    if len(devices) > 1:
        yield SeveralDevices(devices)
    method = traced_steps[0].method
    if method is StepMethod.WHOLE:
        yield NoSteps(traced_steps[0])
        return
    if method is not StepMethod.MARKED:
        yield ForeignSteps(method)
    if len(traced_steps) < FEW_TRACED_STEPS:
        yield FewTracedSteps(len(traced_steps), bool(run.manifest.sources))


def _check_observer(run: Run, figures: Mapping[str, MetricValue]) -> Iterator[LowConfidence]:
    observer = figures["observer_effect"].value
    if observer is not None and observer >= STRONG_OBSERVER:
        yield StrongObserver(observer)
    if observer is not None and observer < MIN_OBSERVER_EFFECT:
        yield PassMismatch(observer)
    fraction = figures["busy_of_clean"].value
    if fraction is not None and fraction > 1:
        yield BusyAboveClean(fraction, run.manifest.job_rank is not None)


def _check_traces(run: Run) -> Iterator[LowConfidence]:
    replays = () if run.replay_trace is None else (run.replay_trace,)
    passes = {"traced pass": replays, "capture pass": run.capture_traces}
    has_no_work = any(find_missing_gpu_work(trace) is not None for trace in replays)
    for problem in run.problems:
        if has_no_work and problem.code == _LOST_WORK:
            continue  # NoGpuWork counts the launches
        names = [
            name
            for name, traces in passes.items()
            if any(problem in trace.info.problems for trace in traces)
        ]
        is_single = len(names) == 1 and all(passes.values())
        yield TraceDefect(problem, names[0] if is_single else None)


def _check_integrity(integrity: TraceIntegrity | None) -> Iterator[LowConfidence]:
    """Group the unsupported claims by reason. Unmarked steps are a caveat of their own."""
    if integrity is None or not integrity.kernels:
        return  # without any GPU work, NoGpuWork holds the reason
    claims: dict[Missing, list[Claim]] = {}
    for claim in Claim:
        if claim is Claim.STEPS and not integrity.steps:
            continue
        if (missing := integrity.explain(claim)) is not None:
            claims.setdefault(missing, []).append(claim)
    for missing, unsupported in claims.items():
        yield UnsupportedClaims(tuple(unsupported), missing)


def _check_ranks(run: Run, traced_steps: tuple[Step, ...]) -> Iterator[LowConfidence]:
    share = compute_communication_share(run, traced_steps)
    if share > MUCH_COMMUNICATION:
        yield MuchCommunication(share)


def _check_pair(run: Run, baseline: Run) -> Iterator[LowConfidence]:
    environment, other = run.manifest.environment, baseline.manifest.environment
    for component, run_value, baseline_value in (
        ("GPU", environment.gpu_name, other.gpu_name),
        ("driver", environment.driver, other.driver),
        ("CUDA", environment.cuda_runtime, other.cuda_runtime),
        ("torch", environment.torch, other.torch),
        ("CPU", environment.cpu, other.cpu),
    ):
        if run_value != baseline_value:
            yield EnvironmentMismatch(component, run_value, baseline_value, baseline.name)
    work, other_work = run.manifest.workload, baseline.manifest.workload
    if (work.factory, work.seed) != (other_work.factory, other_work.seed):
        yield WorkloadMismatch(work, other_work, baseline.name)
    elif work.parameters != other_work.parameters:
        names = sorted({*work.parameters, *other_work.parameters})
        values = [
            (name, work.parameters.get(name), other_work.parameters.get(name)) for name in names
        ]
        differing = tuple(row for row in values if row[1] != row[2])
        yield ParameterMismatch(differing, baseline.name)


def _check_uneven_steps(run: Run, figures: Mapping[str, MetricValue]) -> Iterator[LowConfidence]:
    mean, traced = figures["recorded_step"].value, figures["traced_step_time"].value
    # If the CPU runs ahead, single recorded steps are meaningless; profiled steps are complete.
    if run.recording is None or mean is None or not traced or traced >= MIN_OBSERVER_EFFECT * mean:
        return
    times = run.recording.step_ns
    summary = summarise(times)
    if summary is None:
        return
    long = [time for time in times if time > LONG_STEP_MEDIANS * summary.median]
    share = sum(long) / sum(times)
    if share > MAX_LONG_STEP_SHARE:
        yield UnevenSteps(len(long), len(times), share, summary.median, traced)


def _check_recording(run: Run) -> Iterator[LowConfidence]:
    recording = run.recording
    if recording is None:
        return
    count = len(recording.step_ns)
    if not isinstance(compute_recorded_step_ns(recording), Missing) and count < FEW_STEPS:
        yield FewRecordedSteps(count)
    for graph in recording.graphs:
        if graph.problem is not None:
            location = graph.captured_at[0] if graph.captured_at else None
            yield CaptureProblem(graph.graph, location, graph.problem)
