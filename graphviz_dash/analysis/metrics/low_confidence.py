"""What makes a run's metrics less sure than they look, in numbers. Thresholds: registry.py; words
and advice: graphviz_dash/narrative/low_confidence.py.
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
    """Where the graphs of a run are from."""

    RECORDER = "recorder"
    """The captures of a program, by torch, while the recorder watched."""
    IMPORT = "import"
    """What was imported beside the trace."""
    CAPTURE = "capture"
    """The run's own capture."""


class _Doubt:
    """``metrics`` are the ids of what it concerns; empty: all."""

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
    """The halves of a clean series differ by more than DRIFT of its median; of several processes
    the halves of each, taken together."""

    metric: str
    """Of the series."""
    first_ns: float
    """Median of its first half."""
    second_ns: float
    """Median of its second half."""
    warmup: int
    """Warm-up iterations before it."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metric of the series."""
        return (self.metric,)


class WideSpread(Struct, frozen=True):
    """The quartiles of a clean series are further apart than WIDE_SPREAD of its median."""

    metric: str
    """Of the series."""
    relative: float
    """Distance of the quartiles over the median."""
    spread: Spread
    """The quartiles, in ns."""
    iterations: int
    """As many were asked for."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metric of the series."""
        return (self.metric,)


class NoDifference(Struct, frozen=True):
    """The 95% interval of a speedup holds 1."""

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
    """A trace shows the last turn of each of ``nodes`` While nodes alone."""

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
    """The traced pass holds no work of a GPU, as ``missing`` says."""

    missing: Missing


class NoSteps(Struct, _Doubt, frozen=True):
    """The traced pass marks no steps; ``whole`` is all of it."""

    whole: Step


class ForeignSteps(Struct, _Doubt, frozen=True):
    """Its steps are told by the marks of another program, which need not end synchronised."""

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
    """Whether the trace is another program's, of which no more steps can be collected."""


class StrongObserver(Struct, _Doubt, frozen=True):
    """A traced step takes ``ratio`` times the clean one, at least STRONG_OBSERVER."""

    metrics: ClassVar[tuple[str, ...]] = ("busy_fraction", "traced_step_time")
    ratio: float


class PassesUnlike(Struct, _Doubt, frozen=True):
    """A traced step takes ``ratio`` times the clean one, less than UNLIKE_OBSERVER."""

    metrics: ClassVar[tuple[str, ...]] = ("observer_effect", "busy_of_clean")
    ratio: float


class BusyAboveClean(Struct, _Doubt, frozen=True):
    """Traced GPU busy time is ``fraction`` of the clean step time, above 1. ``of_rank``: the run
    is one rank of several."""

    metrics: ClassVar[tuple[str, ...]] = ("busy_of_clean",)
    fraction: float
    of_rank: bool


class TraceDefect(Struct, _Doubt, frozen=True):
    """A problem of a trace. ``trace``: of which of the run's two traces; None where both have it,
    or there is one alone."""

    problem: TraceProblem
    trace: str | None


class MuchCommunication(Struct, _Doubt, frozen=True):
    """``share`` of a rank's GPU busy time is communication, above MUCH_COMMUNICATION."""

    metrics: ClassVar[tuple[str, ...]] = (
        "gpu_busy",
        "busy_fraction",
        "kernel_change",
        "gaps_removed",
    )
    share: float


class OtherEnvironment(Struct, _Doubt, frozen=True):
    """The run and its baseline were collected on unlike machines, or with unlike software."""

    component: str
    """What differs: GPU, driver, CUDA, torch, CPU."""
    own: str | None
    """Of the run; None: unknown."""
    other: str | None
    """Of the baseline; None: unknown."""
    baseline: str
    """Its name."""


class OtherWorkload(Struct, _Doubt, frozen=True):
    """The run and the run called ``baseline`` are of unlike workloads, or seeds."""

    own: WorkloadInfo
    other: WorkloadInfo
    baseline: str


class OtherParameters(Struct, _Doubt, frozen=True):
    """One workload with unlike parameters: ``differing`` has name, own and other value."""

    differing: tuple[tuple[str, object, object], ...]
    baseline: str


class FewRecordedSteps(Struct, _Doubt, frozen=True):
    """``count`` steps of a recorded program were timed, fewer than FEW_STEPS."""

    metrics: ClassVar[tuple[str, ...]] = ("recorded_step", "recorded_speedup")
    count: int


class UnevenSteps(Struct, _Doubt, frozen=True):
    """A recorded program spends most of its loop in few of its steps, and a step under the profiler
    is shorter than the mean by more than UNLIKE_OBSERVER allows: the mean is of no step."""

    metrics: ClassVar[tuple[str, ...]] = ("recorded_step", "recorded_speedup")
    long: int
    """Steps of more than LONG_STEP medians."""
    count: int
    """All that were timed."""
    share: float
    """The part of the time of all that these take, 0 to 1."""
    median_ns: float
    """Of all steps."""
    traced_ns: float
    """The median step under the profiler."""


class CaptureProblem(Struct, _Doubt, frozen=True):
    """What went wrong in a capture of a recorded program. ``location`` is ``file:line``."""

    graph: str
    location: str | None
    problem: str


class UnseenGraphs(Struct, _Doubt, frozen=True):
    """Launches in a trace of graphs that the run does not hold: of them there are times and nothing
    else."""

    count: int
    """So many launches."""
    launches: int
    """Of so many of graphs in the trace."""
    time_share: float | None
    """Their part of the durations of all GPU work in the trace, 0 to 1; None where it is not known
    which launches they are."""
    source: GraphSource
    """Where the run's graphs are from."""


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
    """Why figures of ``run`` are less sure than they look; those of the headline first."""
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
    """The part of a rank's traced GPU busy time that is communication, from 0; 0 where a run is no
    rank of several."""
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
    rest, saving = figures["remainder"].value, figures["step_saving"].value
    own = figures["step_time"].value
    if rest is None or saving is None or own is None:
        return
    before = own + saving
    if before > 0 and abs(rest) > LARGE_REMAINDER * before:
        yield LargeRemainder(abs(rest), abs(rest) / before)


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
        alone = len(names) == 1 and all(passes.values())
        yield TraceDefect(problem, names[0] if alone else None)


def _of_ranks(run: Run, traced_steps: tuple[Step, ...]) -> Iterator[LowConfidence]:
    share = communication_share(run, traced_steps)
    if share > MUCH_COMMUNICATION:
        yield MuchCommunication(share)


def _of_pair(run: Run, against: Run) -> Iterator[LowConfidence]:
    own, other = run.manifest.environment, against.manifest.environment
    for component, mine, theirs in (
        ("GPU", own.gpu_name, other.gpu_name),
        ("driver", own.driver, other.driver),
        ("CUDA", own.cuda_runtime, other.cuda_runtime),
        ("torch", own.torch, other.torch),
        ("CPU", own.cpu, other.cpu),
    ):
        if mine != theirs:
            yield OtherEnvironment(component, mine, theirs, against.name)
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
    # Where the CPU runs ahead single steps say nothing; those under the profiler are whole.
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
