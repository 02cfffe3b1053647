"""Reasons for low confidence in metrics, in words, with advice."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graphviz_dash.analysis.metrics.low_confidence import (
    BusyAboveClean,
    CaptureProblem,
    Drift,
    EnvironmentMismatch,
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
    ParameterMismatch,
    PassMismatch,
    SeveralDevices,
    StrongObserver,
    TraceDefect,
    UnevenSteps,
    UnknownGraphs,
    UnsupportedClaims,
    WhileLoops,
    WideSpread,
    WorkloadMismatch,
)
from graphviz_dash.analysis.metrics.machine_state import (
    BusyHost,
    HostMismatch,
    ProcessVariance,
    SlowGpu,
)
from graphviz_dash.analysis.metrics.thresholds import FEW_ITERATIONS, FEW_STEPS
from graphviz_dash.units import (
    format_count,
    format_ns,
    format_percent,
    format_ratio,
    pluralize,
)

if TYPE_CHECKING:
    from graphviz_dash.model.run import WorkloadInfo

_COLLECT_AGAIN: Final = "Collect again on an idle machine"

_TITLES: Final = {
    "step_time": "step time",
    "step_interval": "back-to-back interval",
    "speedup": "speedup",
    "speedup_interval": "back-to-back speedup",
}


class Note(Struct, frozen=True):
    """Reason for low confidence, in words."""

    code: str
    """Stable identifier of its kind, for programs."""
    text: str
    """Statement without a full stop."""
    advice: str = ""
    """Advice in whole sentences; empty if there is none."""
    metrics: tuple[str, ...] = ()
    """Ids of the metrics concerned; empty for all metrics."""

    @property
    def sentence(self) -> str:
        """Text and advice as one sentence each."""
        return f"{self.text}. {self.advice}".strip()


def describe_low_confidence(reasons: tuple[LowConfidence, ...]) -> list[Note]:
    """Describe the reasons in their order."""
    return [Note(*_describe_reason(reason), metrics=reason.metrics) for reason in reasons]


@singledispatch
def _describe_reason(reason: LowConfidence) -> tuple[str, str, str]:
    """Return code, text and advice of a reason."""
    raise NotImplementedError(type(reason).__name__)


@_describe_reason.register
def _describe_few_recorded_steps(reason: FewRecordedSteps) -> tuple[str, str, str]:
    return (
        "few-recorded-steps",
        f"recorded step: only {reason.count} steps",
        f"Collect with --skip {max(FEW_STEPS, 50)}.",
    )


@_describe_reason.register
def _describe_uneven_steps(reason: UnevenSteps) -> tuple[str, str, str]:
    return (
        "uneven-steps",
        f"recorded step: a mean, with {format_count(reason.long_count)} of "
        f"{pluralize(reason.count, 'step')} making up {format_percent(reason.share)}; the "
        "median is "
        f"{format_ns(reason.median_ns)}, and {format_ns(reason.traced_ns)} under the profiler",
        "If the long steps belong to start-up (each new size prepares its kernels), collect "
        "with a larger --skip.",
    )


@_describe_reason.register
def _describe_capture_problem(reason: CaptureProblem) -> tuple[str, str, str]:
    location = f" at {reason.location}" if reason.location else ""
    return "capture-problem", f"{reason.graph}{location}: {reason.problem}", ""


_UNSEEN_ORIGINS: Final = {
    GraphSource.RECORDER: "captured without torch, by a library's own driver calls or before the "
    "recorder started",
    GraphSource.IMPORT: "whose captures were not imported",
    GraphSource.CAPTURE: "from a library, outside the capture of the run",
    GraphSource.WHOLE: "that the profiler traced as single units",
}
_UNSEEN_ADVICE: Final = {
    GraphSource.IMPORT: "Import the trace of the captures too, or the graphs as debug DOT.",
    GraphSource.WHOLE: "Record with --cuda-graph-trace=node to see their kernels.",
}


@_describe_reason.register
def _describe_unseen_graphs(reason: UnknownGraphs) -> tuple[str, str, str]:
    share = reason.time_share
    return (
        "unseen-graphs",
        f"{format_count(reason.count)} of {format_count(reason.launches)} graph launches in the "
        f"trace{'' if share is None else f', {format_percent(share)} of its GPU time,'} belong to "
        f"graphs {_UNSEEN_ORIGINS[reason.source]}: only their times are known",
        _UNSEEN_ADVICE.get(reason.source, ""),
    )


@_describe_reason.register
def _describe_few_iterations(reason: FewIterations) -> tuple[str, str, str]:
    return (
        "few-iterations",
        f"{_TITLES[reason.metric]}: only {reason.count} iterations",
        f"Collect with --iterations {max(200, FEW_ITERATIONS)}.",
    )


@_describe_reason.register
def _describe_drift(reason: Drift) -> tuple[str, str, str]:
    return (
        "drift",
        f"{_TITLES[reason.metric]}: the first half's median is "
        f"{format_ns(reason.first_ns)}, the second's {format_ns(reason.second_ns)}",
        "The machine changed during the measurement or was still warming up: collect "
        f"again with --warmup {reason.warmup * 4}.",
    )


@_describe_reason.register
def _describe_busy_host(reason: BusyHost) -> tuple[str, str, str]:
    loop = reason.loop
    return (
        "busy-host",
        "the host was busy: a fixed Python loop run next to "
        f"{pluralize(loop.processes, 'process')} "
        f"took {format_ratio(loop.slowdown)} its fastest time",
        f"Eager launch times are inflated equally. {_COLLECT_AGAIN}.",
    )


@_describe_reason.register
def _describe_host_mismatch(reason: HostMismatch) -> tuple[str, str, str]:
    return (
        "unlike-hosts",
        "the host's processor was slower: a fixed Python loop took "
        f"{format_ns(reason.run_ns)} here and {format_ns(reason.baseline_ns)} next to "
        f"{reason.baseline}",
        f"{_COLLECT_AGAIN}, all modes with one command, which interleaves them.",
    )


@_describe_reason.register
def _describe_process_variance(reason: ProcessVariance) -> tuple[str, str, str]:
    medians = ", ".join(map(format_ns, reason.medians))
    return (
        "unlike-processes",
        f"{_TITLES[reason.metric]}: its processes have medians of {medians}",
        f"The interval includes this variation; {_COLLECT_AGAIN.lower()} for a narrower interval.",
    )


@_describe_reason.register
def _describe_slow_gpu(reason: SlowGpu) -> tuple[str, str, str]:
    clocks = f"{format_count(reason.lowest_mhz)} MHz"
    if reason.highest_mhz != reason.lowest_mhz:
        clocks = f"{format_count(reason.lowest_mhz)} to {format_count(reason.highest_mhz)} MHz"
    range_text = f"{clocks} of {format_count(reason.maximum_mhz)} MHz"
    if not reason.causes:
        text = f"the GPU clock differed between processes: {range_text}"
        return (
            "unlike-clocks",
            text,
            "Lock the clock (nvidia-smi --lock-gpu-clocks) to compare runs.",
        )
    text = f"the GPU clock was throttled ({', '.join(reason.causes)}): {range_text}"
    return "slow-gpu", text, "Kernels run slower than at this GPU's maximum clock."


@_describe_reason.register
def _describe_wide_spread(reason: WideSpread) -> tuple[str, str, str]:
    low, high = reason.spread.low, reason.spread.high
    return (
        "wide-spread",
        f"{_TITLES[reason.metric]}: p25 to p75 is {format_percent(reason.relative)} of the "
        f"median ({format_ns(low)} to {format_ns(high)}, {reason.spread.samples} "
        "iterations)",
        f"{_COLLECT_AGAIN}; --iterations {reason.iterations * 4} narrows the interval.",
    )


@_describe_reason.register
def _describe_no_difference(reason: NoDifference) -> tuple[str, str, str]:
    figure, spread = reason.figure, reason.figure.spread
    ends = f"{format_ratio(spread.low)} to {format_ratio(spread.high)}" if spread else ""
    return (
        "no-difference",
        f"{_TITLES[figure.metric.id]}: {figure.text} with a 95% interval of {ends}, which "
        "includes 1: no significant difference",
        "More iterations narrow the interval.",
    )


@_describe_reason.register
def _describe_large_remainder(reason: LargeRemainder) -> tuple[str, str, str]:
    return (
        "large-remainder",
        f"the traced passes do not explain {format_ns(reason.ns)} of the difference, "
        f"{format_percent(reason.fraction)} of the baseline's step",
        f"The two passes behaved differently: {_COLLECT_AGAIN.lower()}.",
    )


@_describe_reason.register
def _describe_no_gpu_work(reason: NoGpuWork) -> tuple[str, str, str]:
    return "no-gpu-work", reason.missing.reason, ""


@_describe_reason.register
def _describe_no_steps(reason: NoSteps) -> tuple[str, str, str]:
    totals = reason.full_step
    if not len(totals.gpu_rows):
        return "no-steps", "the trace marks no steps, so there are no per-step figures", ""
    copies = f"{totals.copies:,} {'copy' if totals.copies == 1 else 'copies'}"
    text = (
        "the trace marks no steps, so there are no per-step figures. In total: "
        f"{pluralize(totals.kernels, 'kernel')}, {copies}, {pluralize(totals.sets, 'set')}"
    )
    if totals.whole_graphs:
        text += f", {pluralize(totals.whole_graphs, 'graph')} traced as a whole"
    if totals.launches:
        text += f", {pluralize(totals.launches, 'launch')}"
        text += f" ({totals.graph_launches:,} of graphs)" if totals.graph_launches else ""
    if totals.duration_ns > 0:
        text += (
            f" in {format_ns(totals.duration_ns)}, with the GPU busy for "
            f"{format_ns(totals.busy_ns)} ({format_percent(totals.busy_ns / totals.duration_ns)})"
        )
    return "no-steps", text, ""


@_describe_reason.register
def _describe_several_devices(reason: SeveralDevices) -> tuple[str, str, str]:
    devices = ", ".join(
        f"{format_count(round(work.kernels))} kernels on GPU {work.device} "
        f"(busy {format_percent(work.busy_share)})"
        for work in reason.devices
    )
    text = f"each step runs on {len(reason.devices):,} GPUs, and figures cover all: {devices}"
    return "several-gpus", text, ""


@_describe_reason.register
def _describe_foreign_steps(reason: ForeignSteps) -> tuple[str, str, str]:
    text = f"steps are separated by {reason.method.value}, which may end without synchronisation"
    return "profiler-steps", text, ""


@_describe_reason.register
def _describe_few_traced_steps(reason: FewTracedSteps) -> tuple[str, str, str]:
    return (
        "few-traced-steps",
        f"traced pass: only {pluralize(reason.count, 'step')}",
        "" if reason.imported else "Collect with --traced-iterations 20.",
    )


@_describe_reason.register
def _describe_strong_observer(reason: StrongObserver) -> tuple[str, str, str]:
    return (
        "observer",
        f"a step under the profiler took {format_ratio(reason.ratio)} its clean time",
        "Read gaps and launch times in the timeline with care; kernel durations are "
        "less distorted.",
    )


@_describe_reason.register
def _describe_pass_mismatch(reason: PassMismatch) -> tuple[str, str, str]:
    return (
        "passes-unlike",
        f"a step under the profiler took only {format_ratio(reason.ratio)} its clean time: "
        "the two passes behaved differently",
        f"{_COLLECT_AGAIN}; until then, do not compare the two passes.",
    )


@_describe_reason.register
def _describe_busy_above_clean(reason: BusyAboveClean) -> tuple[str, str, str]:
    return (
        "busy-above-clean",
        f"GPU busy time of the traced pass is {format_percent(reason.fraction)} of the "
        "clean step time: kernels ran slower under the profiler"
        + (", or waited longer for other ranks" if reason.is_rank else ""),
        "",
    )


@_describe_reason.register
def _describe_trace_defect(reason: TraceDefect) -> tuple[str, str, str]:
    prefix = f"{reason.trace}: " if reason.trace else ""
    text = f"{prefix}{reason.problem.text.rstrip('.')}"
    return f"trace-{reason.problem.code}", text, ""


@_describe_reason.register
def _describe_while_loops(reason: WhileLoops) -> tuple[str, str, str]:
    return (
        "loops",
        f"{pluralize(reason.nodes, 'While node')}: the profiler shows only the last iteration of "
        "each launch, so counts and times of GPU work exclude the other iterations",
        "Step times of the clean pass include all iterations.",
    )


@_describe_reason.register
def _describe_unsupported(reason: UnsupportedClaims) -> tuple[str, str, str]:
    claims = ", ".join(claim.value for claim in reason.claims)
    return "trace-integrity", f"{reason.missing.reason}. Not supported: {claims}", ""


@_describe_reason.register
def _describe_much_communication(reason: MuchCommunication) -> tuple[str, str, str]:
    return (
        "communication",
        f"{format_percent(reason.share)} of its GPU busy time is communication, which may "
        "only be waiting for other ranks",
        "Comparing all ranks separates waiting from transfer.",
    )


@_describe_reason.register
def _describe_other_environment(reason: EnvironmentMismatch) -> tuple[str, str, str]:
    return (
        "environment",
        f"{reason.component} is {reason.run_value or 'unknown'} here and "
        f"{reason.baseline_value or 'unknown'} in {reason.baseline}",
        "Collect both modes on one machine with one set of software.",
    )


@_describe_reason.register
def _describe_other_workload(reason: WorkloadMismatch) -> tuple[str, str, str]:
    return (
        "workload",
        (
            f"this is {_format_workload(reason.run_workload)}, {reason.baseline} is "
            f"{_format_workload(reason.baseline_workload)}"
        ),
        "Compare runs of one workload.",
    )


@_describe_reason.register
def _describe_other_parameters(reason: ParameterMismatch) -> tuple[str, str, str]:
    different = [
        (
            f"{name} is {_format_parameter(own)} here and {_format_parameter(other)} in "
            f"{reason.baseline}"
        )
        for name, own, other in reason.differing
    ]
    advice = "Compare runs with the same parameters (--set)."
    return "workload", ", ".join(different), advice


def _format_parameter(parameter: object) -> str:
    return "absent" if parameter is None else str(parameter)


def _format_workload(work: WorkloadInfo) -> str:
    seed = "an unrecorded seed" if work.seed is None else f"seed {work.seed}"
    return f"{work.factory} with {seed}"
