"""Numeric caveats of a run's metrics.

thresholds.py holds the thresholds and graphviz_dash/narrative/low_confidence.py the texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from msgspec import Struct

from graphviz_dash.analysis.metrics.machine_state import MachineDoubt, of_machine
from graphviz_dash.analysis.metrics.recorded_step import recorded_step_ns
from graphviz_dash.analysis.metrics.run_metrics import Figure, step_times
from graphviz_dash.analysis.metrics.thresholds import (
    DRIFT,
    FEW_ITERATIONS,
    FEW_STEPS,
    FEW_TRACED_STEPS,
    LARGE_REMAINDER,
    LONG_STEP,
    MUCH_COMMUNICATION,
    MUCH_OF_THE_LOOP,
    STRONG_OBSERVER,
    UNLIKE_OBSERVER,
    WIDE_SPREAD,
)
from graphviz_dash.analysis.sample_statistics import Spread, summarise
from graphviz_dash.analysis.trace.collectives import communication
from graphviz_dash.analysis.trace.gpu_records import missing_gpu_work
from graphviz_dash.analysis.trace.steps import Step, StepMethod
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.graph import ConditionalParams, ConditionalType

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run, WorkloadInfo
    from graphviz_dash.model.trace import TraceProblem


class GraphSource(StrEnum):
    """Source of a run's graphs."""

    RECORDER = "recorder"
    """Captures by torch that the recorder watched in a program."""
    IMPORT = "import"
    """Graphs imported with the trace."""
    CAPTURE = "capture"
    """The run's own capture."""


class _Doubt:
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

    figure: Figure

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metric of the speedup."""
        return (self.figure.metric.id,)


class LargeRemainder(Struct, _Doubt, frozen=True):
    """The equation leaves ``ns`` unexplained, ``fraction`` of the baseline's step."""

    metrics: ClassVar[tuple[str, ...]] = ("remainder", "gaps_removed", "kernel_change")
    ns: float
    fraction: float


class WhileLoops(Struct, _Doubt, frozen=True):
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


class NoGpuWork(Struct, _Doubt, frozen=True):
    """The traced pass contains no GPU work; ``missing`` holds the reason."""

    missing: Missing


class NoSteps(Struct, _Doubt, frozen=True):
    """The traced pass marks no steps; ``full_step`` covers all of it."""

    whole: Step


class ForeignSteps(Struct, _Doubt, frozen=True):
    """Another program marked the steps, so they may not end synchronised."""

    method: StepMethod


class FewTracedSteps(Struct, _Doubt, frozen=True):
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


class StrongObserver(Struct, _Doubt, frozen=True):
    """A traced step is ``ratio`` times as long as a clean one, at least STRONG_OBSERVER."""

    metrics: ClassVar[tuple[str, ...]] = ("busy_fraction", "traced_step_time")
    ratio: float


class PassesUnlike(Struct, _Doubt, frozen=True):
    """A traced step is ``ratio`` times as long as a clean one, below MIN_OBSERVER_EFFECT."""

    metrics: ClassVar[tuple[str, ...]] = ("observer_effect", "busy_of_clean")
    ratio: float


class BusyAboveClean(Struct, _Doubt, frozen=True):
    """Traced GPU busy time is ``fraction`` of the clean step time, above 1.

    ``is_rank``: the run is one of several ranks.
    """

    metrics: ClassVar[tuple[str, ...]] = ("busy_of_clean",)
    fraction: float
    of_rank: bool


class TraceDefect(Struct, _Doubt, frozen=True):
    """A problem of a trace.

    ``trace`` names the affected one of the run's two traces; None if both are, or if there is
    only one.
    """

    problem: TraceProblem
    trace: str | None


class MuchCommunication(Struct, _Doubt, frozen=True):
    """Communication is ``share`` of a rank's GPU busy time, above MUCH_COMMUNICATION."""

    metrics: ClassVar[tuple[str, ...]] = (
        "gpu_busy",
        "busy_fraction",
        "kernel_change",
        "gaps_removed",
    )
    share: float


class OtherEnvironment(Struct, _Doubt, frozen=True):
    """The run and its baseline come from different machines or software."""

    component: str
    """Difference: GPU, driver, CUDA, torch or CPU."""
    own: str | None
    """Value of the run; None if unknown."""
    other: str | None
    """Value of the baseline; None if unknown."""
    baseline: str


class OtherWorkload(Struct, _Doubt, frozen=True):
    """The run and the run ``baseline`` have different workloads or seeds."""

    own: WorkloadInfo
    other: WorkloadInfo
    baseline: str


class OtherParameters(Struct, _Doubt, frozen=True):
    """Different parameters of a workload; ``differing`` holds (name, run's, baseline's value)."""

    differing: tuple[tuple[str, object, object], ...]
    baseline: str


class FewRecordedSteps(Struct, _Doubt, frozen=True):
    """``count`` timed steps of a recorded program, fewer than FEW_STEPS."""

    metrics: ClassVar[tuple[str, ...]] = ("recorded_step", "recorded_speedup")
    count: int


class UnevenSteps(Struct, _Doubt, frozen=True):
    """A recorded program spends most of its loop in a few long steps.

    Profiled steps are also shorter than the mean by more than MIN_OBSERVER_EFFECT allows, so the
    mean is not representative.
    """

    metrics: ClassVar[tuple[str, ...]] = ("recorded_step", "recorded_speedup")
    long: int
    """Number of steps longer than LONG_STEP_MEDIANS medians."""
    count: int
    """Number of timed steps."""
    share: float
    """Fraction of the total time in long steps, 0 to 1."""
    median_ns: float
    """Median of all steps."""
    traced_ns: float
    """Median step under the profiler."""


class CaptureProblem(Struct, _Doubt, frozen=True):
    """A problem with a capture of a recorded program. ``location`` is ``file:line``."""

    graph: str
    location: str | None
    problem: str


class UnseenGraphs(Struct, _Doubt, frozen=True):
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
    | PassesUnlike
    | BusyAboveClean
    | TraceDefect
    | MuchCommunication
    | OtherEnvironment
    | OtherWorkload
    | OtherParameters
    | FewRecordedSteps
    | UnevenSteps
    | CaptureProblem
    | UnseenGraphs
    | MachineDoubt
)


def low_confidence(
    run: Run, against: Run | None, figures: Mapping[str, Figure], traced_steps: tuple[Step, ...]
) -> tuple[LowConfidence, ...]:
    """Find caveats for the metrics of ``run``, those of the headline first."""
    return (
        *_of_series(run),
        *of_machine(run, against),
        *_of_speedup(figures),
        *_of_equation(figures),
        *_of_steps(run, traced_steps),
        *_of_observer(run, figures),
        *_of_traces(run),
        *_of_loops(run),
        *_of_ranks(run, traced_steps),
        *(_of_pair(run, against) if against is not None else ()),
        *_of_recording(run),
        *_of_uneven_steps(run, figures),
    )


def communication_share(run: Run, traced_steps: tuple[Step, ...]) -> float:
    """Return the fraction of a rank's traced GPU busy time spent in communication.

    0 if the run is not one of several ranks.
    """
    trace = run.replay_trace
    busy = sum(step.busy_ns for step in traced_steps)
    if run.manifest.rank_of_several is None or trace is None or not busy:
        return 0.0
    return sum(step.total_ns for step in communication(trace, traced_steps)) / busy


def _of_series(run: Run) -> Iterator[LowConfidence]:
    if run.clean is None:
        return
    series: tuple[tuple[str, Sequence[Sequence[int]]], ...] = (
        ("step_time", step_times(run.clean)),
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
        if summary.relative_spread > WIDE_SPREAD:
            yield WideSpread(metric, summary.relative_spread, summary.spread, workload.iterations)


def _of_speedup(figures: Mapping[str, Figure]) -> Iterator[LowConfidence]:
    for metric in ("speedup", "speedup_interval"):
        if figures[metric].holds_one:
            yield NoDifference(figures[metric])


def _of_equation(figures: Mapping[str, Figure]) -> Iterator[LowConfidence]:
    remainder, saving = figures["remainder"].value, figures["step_saving"].value
    step_ns = figures["step_time"].value
    if remainder is None or saving is None or step_ns is None:
        return
    baseline_ns = step_ns + saving
    if baseline_ns > 0 and abs(remainder) > LARGE_REMAINDER * baseline_ns:
        yield LargeRemainder(abs(remainder), abs(remainder) / baseline_ns)


def _of_loops(run: Run) -> Iterator[LowConfidence]:
    loops = sum(
        isinstance(node.params, ConditionalParams) and node.params.type is ConditionalType.WHILE
        for graph in run.graphs
        for node in graph.nodes
    )
    if loops and run.replay_trace is not None:
        yield WhileLoops(loops)


def _of_steps(run: Run, traced_steps: tuple[Step, ...]) -> Iterator[LowConfidence]:
    if not traced_steps or run.replay_trace is None:
        return
    without = missing_gpu_work(run.replay_trace)
    if without is not None:
        yield NoGpuWork(without)
    method = traced_steps[0].method
    if method is StepMethod.WHOLE:
        yield NoSteps(traced_steps[0])
        return
    if method is not StepMethod.MARKED:
        yield ForeignSteps(method)
    if len(traced_steps) < FEW_TRACED_STEPS:
        yield FewTracedSteps(len(traced_steps), bool(run.manifest.sources))


def _of_observer(run: Run, figures: Mapping[str, Figure]) -> Iterator[LowConfidence]:
    observer = figures["observer_effect"].value
    if observer is not None and observer >= STRONG_OBSERVER:
        yield StrongObserver(observer)
    if observer is not None and observer < UNLIKE_OBSERVER:
        yield PassesUnlike(observer)
    fraction = figures["busy_of_clean"].value
    if fraction is not None and fraction > 1:
        yield BusyAboveClean(fraction, run.manifest.rank_of_several is not None)


def _of_traces(run: Run) -> Iterator[LowConfidence]:
    replays = () if run.replay_trace is None else (run.replay_trace,)
    passes = {"traced pass": replays, "capture pass": run.captures}
    for problem in run.problems:
        names = [
            name
            for name, traces in passes.items()
            if any(problem in trace.info.problems for trace in traces)
        ]
        is_single = len(names) == 1 and all(passes.values())
        yield TraceDefect(problem, names[0] if is_single else None)


def _of_ranks(run: Run, traced_steps: tuple[Step, ...]) -> Iterator[LowConfidence]:
    share = communication_share(run, traced_steps)
    if share > MUCH_COMMUNICATION:
        yield MuchCommunication(share)


def _of_pair(run: Run, against: Run) -> Iterator[LowConfidence]:
    environment, other = run.manifest.environment, against.manifest.environment
    for component, run_value, baseline_value in (
        ("GPU", environment.gpu_name, other.gpu_name),
        ("driver", environment.driver, other.driver),
        ("CUDA", environment.cuda_runtime, other.cuda_runtime),
        ("torch", environment.torch, other.torch),
        ("CPU", environment.cpu, other.cpu),
    ):
        if run_value != baseline_value:
            yield OtherEnvironment(component, run_value, baseline_value, against.name)
    work, other_work = run.manifest.workload, against.manifest.workload
    if (work.factory, work.seed) != (other_work.factory, other_work.seed):
        yield OtherWorkload(work, other_work, against.name)
    elif work.parameters != other_work.parameters:
        names = sorted({*work.parameters, *other_work.parameters})
        values = [
            (name, work.parameters.get(name), other_work.parameters.get(name)) for name in names
        ]
        differing = tuple(row for row in values if row[1] != row[2])
        yield OtherParameters(differing, against.name)


def _of_uneven_steps(run: Run, figures: Mapping[str, Figure]) -> Iterator[LowConfidence]:
    mean, traced = figures["recorded_step"].value, figures["traced_step_time"].value
    # If the CPU runs ahead, single recorded steps are meaningless; profiled steps are complete.
    if run.recording is None or mean is None or not traced or traced >= UNLIKE_OBSERVER * mean:
        return
    times = run.recording.step_ns
    summary = summarise(times)
    if summary is None:
        return
    long = [time for time in times if time > LONG_STEP * summary.median]
    share = sum(long) / sum(times)
    if share > MUCH_OF_THE_LOOP:
        yield UnevenSteps(len(long), len(times), share, summary.median, traced)


def _of_recording(run: Run) -> Iterator[LowConfidence]:
    recording = run.recording
    if recording is None:
        return
    count = len(recording.step_ns)
    if not isinstance(recorded_step_ns(recording), Missing) and count < FEW_STEPS:
        yield FewRecordedSteps(count)
    for graph in recording.graphs:
        if graph.problem is not None:
            location = graph.captured_at[0] if graph.captured_at else None
            yield CaptureProblem(graph.graph, location, graph.problem)
