"""Why metrics are less sure than they look, in words, and what to do about it."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graphviz_dash.analysis.metrics.low_confidence import (
    BusyAboveClean,
    CaptureProblem,
    Drift,
    FewIterations,
    FewRecordedSteps,
    FewTracedSteps,
    ForeignSteps,
    GraphSource,
    LargeRemainder,
    LowConfidence,
    MuchCommunication,
    NoDifference,
    NoGpuWork,
    NoSteps,
    OtherEnvironment,
    OtherParameters,
    OtherWorkload,
    PassesUnlike,
    StrongObserver,
    TraceDefect,
    UnevenSteps,
    UnseenGraphs,
    WhileLoops,
    WideSpread,
)
from graphviz_dash.analysis.metrics.machine_state import (
    BusyHost,
    SlowGpu,
    UnlikeHosts,
    UnlikeProcesses,
)
from graphviz_dash.analysis.metrics.thresholds import FEW_ITERATIONS, FEW_STEPS
from graphviz_dash.units import (
    counted,
    format_count,
    format_ns,
    format_percent,
    format_ratio,
)

if TYPE_CHECKING:
    from graphviz_dash.model.run import WorkloadInfo

_QUIET: Final = "Collect again on a quiet machine"

_TITLES: Final = {
    "step_time": "step time",
    "step_interval": "back-to-back interval",
    "speedup": "speedup",
    "speedup_interval": "back-to-back speedup",
}


class Note(Struct, frozen=True):
    """One reason in words."""

    code: str
    """Its kind: stable, for programs."""
    text: str
    """What is so, without a full stop, for what follows it."""
    advice: str = ""
    """What to do, in whole sentences; empty where there is nothing to do."""
    metrics: tuple[str, ...] = ()
    """Ids of the metrics that it concerns; empty: all."""

    @property
    def sentence(self) -> str:
        """Text and advice."""
        return f"{self.text}. {self.advice}".strip()


def low_confidence_notes(reasons: tuple[LowConfidence, ...]) -> list[Note]:
    """The reasons in words, in their order."""
    return [Note(*_worded(reason), metrics=reason.metrics) for reason in reasons]


@singledispatch
def _worded(reason: LowConfidence) -> tuple[str, str, str]:
    """Code, text and advice."""
    raise NotImplementedError(type(reason).__name__)


@_worded.register
def _few_recorded_steps(reason: FewRecordedSteps) -> tuple[str, str, str]:
    return (
        "few-recorded-steps",
        f"recorded step: only {reason.count} steps",
        f"Collect with --skip {max(FEW_STEPS, 50)}.",
    )


@_worded.register
def _uneven_steps(reason: UnevenSteps) -> tuple[str, str, str]:
    return (
        "uneven-steps",
        f"recorded step: a mean, of which {format_count(reason.long)} of "
        f"{counted(reason.count, 'step')} make up {format_percent(reason.share)}; the median is "
        f"{format_ns(reason.median_ns)}, and {format_ns(reason.traced_ns)} under the profiler",
        "Where the long steps belong to the start (each new size prepares its kernels), collect "
        "with a larger --skip.",
    )


@_worded.register
def _capture_problem(reason: CaptureProblem) -> tuple[str, str, str]:
    where = f" at {reason.location}" if reason.location else ""
    return "capture-problem", f"{reason.graph}{where}: {reason.problem}", ""


_UNSEEN: Final = {
    GraphSource.RECORDER: "that were captured without torch, by a library's own calls of the "
    "driver, or before the recorder began",
    GraphSource.IMPORT: "whose captures were not imported",
    GraphSource.CAPTURE: "that its capture did not make: a library's own",
}


@_worded.register
def _unseen_graphs(reason: UnseenGraphs) -> tuple[str, str, str]:
    share = reason.time_share
    return (
        "unseen-graphs",
        f"{format_count(reason.count)} of {format_count(reason.launches)} graph launches in the "
        f"trace{'' if share is None else f', {format_percent(share)} of its GPU time,'} are of "
        f"graphs {_UNSEEN[reason.source]}: of them there are times and nothing else",
        "Import the trace of the captures too, or the graphs as debug DOT."
        if reason.source is GraphSource.IMPORT
        else "",
    )


@_worded.register
def _few_iterations(reason: FewIterations) -> tuple[str, str, str]:
    return (
        "few-iterations",
        f"{_TITLES[reason.metric]}: only {reason.count} iterations",
        f"Collect with --iterations {max(200, FEW_ITERATIONS)}.",
    )


@_worded.register
def _drift(reason: Drift) -> tuple[str, str, str]:
    return (
        "drift",
        f"{_TITLES[reason.metric]}: the first half's median is "
        f"{format_ns(reason.first_ns)}, the second's {format_ns(reason.second_ns)}",
        "The machine changed while it was measured, or was still warming up: collect "
        f"again with --warmup {reason.warmup * 4}.",
    )


@_worded.register
def _busy_host(reason: BusyHost) -> tuple[str, str, str]:
    loop = reason.loop
    return (
        "busy-host",
        f"the host was busy: a fixed loop of Python beside {counted(loop.processes, 'process')} "
        f"took {format_ratio(loop.slowdown)} its fastest time",
        f"What launches take eagerly is as much too long. {_QUIET}.",
    )


@_worded.register
def _unlike_hosts(reason: UnlikeHosts) -> tuple[str, str, str]:
    return (
        "unlike-hosts",
        "the host's processor was not as fast: a fixed loop of Python took "
        f"{format_ns(reason.own_ns)} here and {format_ns(reason.other_ns)} beside "
        f"{reason.baseline}",
        f"{_QUIET}, all modes with one command, which times them in turns.",
    )


@_worded.register
def _unlike_processes(reason: UnlikeProcesses) -> tuple[str, str, str]:
    medians = ", ".join(map(format_ns, reason.medians))
    return (
        "unlike-processes",
        f"{_TITLES[reason.metric]}: its processes have medians of {medians}",
        f"The interval covers that; {_QUIET.lower()} for a narrower one.",
    )


@_worded.register
def _slow_gpu(reason: SlowGpu) -> tuple[str, str, str]:
    clocks = f"{format_count(reason.lowest_mhz)} MHz"
    if reason.highest_mhz != reason.lowest_mhz:
        clocks = f"{format_count(reason.lowest_mhz)} to {format_count(reason.highest_mhz)} MHz"
    of = f"{clocks} of {format_count(reason.maximum_mhz)} MHz"
    if not reason.causes:
        text = f"the GPU's clock was not the same beside all processes: {of}"
        return "unlike-clocks", text, "Lock it (nvidia-smi --lock-gpu-clocks) to compare runs."
    text = f"the GPU's clock was held down ({', '.join(reason.causes)}): {of}"
    return "slow-gpu", text, "Kernels take longer than this GPU needs for them at its best."


@_worded.register
def _wide_spread(reason: WideSpread) -> tuple[str, str, str]:
    low, high = reason.spread.low, reason.spread.high
    return (
        "wide-spread",
        f"{_TITLES[reason.metric]}: p25 to p75 is {format_percent(reason.relative)} of the "
        f"median ({format_ns(low)} to {format_ns(high)}, {reason.spread.samples} "
        "iterations)",
        f"{_QUIET}; --iterations {reason.iterations * 4} makes the median surer.",
    )


@_worded.register
def _no_difference(reason: NoDifference) -> tuple[str, str, str]:
    figure, spread = reason.figure, reason.figure.spread
    ends = f"{format_ratio(spread.low)} to {format_ratio(spread.high)}" if spread else ""
    return (
        "no-difference",
        f"{_TITLES[figure.metric.id]}: {figure.text} with a 95% interval of {ends}, which "
        "holds 1: no significant difference",
        "More iterations narrow the interval.",
    )


@_worded.register
def _large_remainder(reason: LargeRemainder) -> tuple[str, str, str]:
    return (
        "large-remainder",
        f"the traced passes leave {format_ns(reason.ns)} of the difference unexplained, "
        f"{format_percent(reason.fraction)} of the baseline's step",
        f"The two passes did not run alike: {_QUIET.lower()}.",
    )


@_worded.register
def _no_gpu_work(reason: NoGpuWork) -> tuple[str, str, str]:
    return "no-gpu-work", reason.missing.reason, ""


@_worded.register
def _no_steps(reason: NoSteps) -> tuple[str, str, str]:
    whole = reason.whole
    if not len(whole.gpu_rows):
        return "no-steps", "the trace marks no steps, so there are no figures per step", ""
    copies = f"{whole.copies:,} {'copy' if whole.copies == 1 else 'copies'}"
    text = (
        "the trace marks no steps, so there are no figures per step. All of it: "
        f"{counted(whole.kernels, 'kernel')}, {copies}, {counted(whole.sets, 'set')}"
    )
    if whole.launches:
        text += f", {counted(whole.launches, 'launch')}"
        text += f" ({whole.graph_launches:,} of graphs)" if whole.graph_launches else ""
    if whole.duration_ns > 0:
        text += (
            f" in {format_ns(whole.duration_ns)}, of which the GPU was busy "
            f"{format_ns(whole.busy_ns)} ({format_percent(whole.busy_ns / whole.duration_ns)})"
        )
    return "no-steps", text, ""


@_worded.register
def _foreign_steps(reason: ForeignSteps) -> tuple[str, str, str]:
    text = f"steps are separated by {reason.method.value}, which need not end synchronised"
    return "profiler-steps", text, ""


@_worded.register
def _few_traced_steps(reason: FewTracedSteps) -> tuple[str, str, str]:
    return (
        "few-traced-steps",
        f"traced pass: only {counted(reason.count, 'step')}",
        "" if reason.imported else "Collect with --traced-iterations 20.",
    )


@_worded.register
def _strong_observer(reason: StrongObserver) -> tuple[str, str, str]:
    return (
        "observer",
        f"a step under the profiler took {format_ratio(reason.ratio)} its clean time",
        "Read gaps and launch times in the timeline with care; durations of kernels are "
        "less distorted.",
    )


@_worded.register
def _passes_unlike(reason: PassesUnlike) -> tuple[str, str, str]:
    return (
        "passes-unlike",
        f"a step under the profiler took only {format_ratio(reason.ratio)} its clean time: "
        "the two passes did not run alike",
        f"{_QUIET}; until then do not divide one by the other.",
    )


@_worded.register
def _busy_above_clean(reason: BusyAboveClean) -> tuple[str, str, str]:
    return (
        "busy-above-clean",
        f"GPU busy time of the traced pass is {format_percent(reason.fraction)} of the "
        "clean step time: kernels ran slower under the profiler than without it"
        + (", or waited longer for other ranks" if reason.of_rank else ""),
        "",
    )


@_worded.register
def _trace_defect(reason: TraceDefect) -> tuple[str, str, str]:
    whose = f"{reason.trace}: " if reason.trace else ""
    text = f"{whose}{reason.problem.text.rstrip('.')}"
    return f"trace-{reason.problem.code}", text, ""


@_worded.register
def _while_loops(reason: WhileLoops) -> tuple[str, str, str]:
    return (
        "loops",
        f"{counted(reason.nodes, 'While node')}: the profiler shows the last turn of each "
        "launch alone, so that counts and times of GPU work leave the others out",
        "Step times of the clean pass have all turns.",
    )


@_worded.register
def _much_communication(reason: MuchCommunication) -> tuple[str, str, str]:
    return (
        "communication",
        f"{format_percent(reason.share)} of its GPU busy time is communication, in which "
        "it may only wait for other ranks",
        "Comparing all ranks separates waiting from transfer.",
    )


@_worded.register
def _other_environment(reason: OtherEnvironment) -> tuple[str, str, str]:
    return (
        "environment",
        f"{reason.component} is {reason.own or 'unknown'} here and "
        f"{reason.other or 'unknown'} in {reason.baseline}",
        "Collect both modes on one machine with one set of software.",
    )


@_worded.register
def _other_workload(reason: OtherWorkload) -> tuple[str, str, str]:
    return (
        "workload",
        f"this is {_with_seed(reason.own)}, {reason.baseline} is {_with_seed(reason.other)}",
        "Compare runs of one workload.",
    )


@_worded.register
def _other_parameters(reason: OtherParameters) -> tuple[str, str, str]:
    different = [
        f"{name} is {_value(own)} here and {_value(other)} in {reason.baseline}"
        for name, own, other in reason.differing
    ]
    advice = "Compare runs with the same parameters (--set)."
    return "workload", ", ".join(different), advice


def _value(parameter: object) -> str:
    return "absent" if parameter is None else str(parameter)


def _with_seed(work: WorkloadInfo) -> str:
    seed = "a seed of its own" if work.seed is None else f"seed {work.seed}"
    return f"{work.factory} with {seed}"
