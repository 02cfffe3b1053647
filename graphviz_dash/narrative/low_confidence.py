"""Reasons for low confidence in metrics, in words, with advice."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct

from graphviz_dash.analysis.metrics.caveats import Caveat, CaveatCode
from graphviz_dash.analysis.metrics.low_confidence import GraphSource
from graphviz_dash.analysis.metrics.thresholds import FEW_ITERATIONS, FEW_STEPS
from graphviz_dash.model.run import WorkloadInfo
from graphviz_dash.units import (
    format_count,
    format_ns,
    format_percent,
    format_ratio,
    pluralize,
)

Values: TypeAlias = Mapping[str, Any]
Text: TypeAlias = str | Callable[[Values], str]
"""A template whose fields are values of the caveat, or a function for texts with cases."""

_COLLECT_AGAIN: Final = "Collect again on an idle machine"

_TITLES: Final = {
    "step_time": "step time",
    "step_interval": "back-to-back interval",
    "speedup": "speedup",
    "speedup_interval": "back-to-back speedup",
    "recorded_speedup": "speedup in the program loop",
}

_FORMATS: Final[dict[str, Callable[[Any], str]]] = {
    "title": _TITLES.__getitem__,
    "ns": format_ns,
    "percent": format_percent,
    "ratio": format_ratio,
    "count": format_count,
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
    """Ids of the metrics; empty for all."""

    @property
    def sentence(self) -> str:
        """Text and advice as one sentence each."""
        return f"{self.text}. {self.advice}".strip()


def describe_low_confidence(reasons: tuple[Caveat, ...]) -> list[Note]:
    """Describe the reasons in their order."""
    return [_describe_reason(reason) for reason in reasons]


class _Formatter(string.Formatter):
    """Formats with the names in _FORMATS; ``plural NOUN`` counts."""

    def format_field(self, value: Any, format_spec: str) -> str:
        kind, _, noun = format_spec.partition(" ")
        if kind == "plural":
            return pluralize(value, noun)
        return _FORMATS[kind](value) if kind in _FORMATS else str(value)


_FORMATTER: Final = _Formatter()


def _describe_reason(reason: Caveat) -> Note:
    code = reason.code
    text, advice = (
        part(reason.values) if callable(part) else _FORMATTER.vformat(part, (), reason.values)
        for part in _TEXTS[code]
    )
    name = code.value
    if code is CaveatCode.TRACE_DEFECT:
        name = f"trace-{reason.values['problem'].code}"
    elif code is CaveatCode.PARAMETERS:
        name = CaveatCode.WORKLOAD.value
    return Note(name, text, advice, reason.metrics)


def _describe_capture_problem(values: Values) -> str:
    location = f" at {values['location']}" if values["location"] else ""
    return f"{values['graph']}{location}: {values['problem']}"


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


def _describe_unseen_graphs(values: Values) -> str:
    share = values["time_share"]
    return (
        f"{format_count(values['count'])} of {format_count(values['launches'])} graph launches in "
        f"the trace{'' if share is None else f', {format_percent(share)} of its GPU time,'} belong "
        f"to graphs {_UNSEEN_ORIGINS[values['source']]}: only their times are known"
    )


def _describe_clocks(values: Values) -> str:
    lowest, highest = format_count(values["lowest"]), format_count(values["highest"])
    clocks = f"{lowest} MHz" if lowest == highest else f"{lowest} to {highest} MHz"
    cause = (
        f"was throttled ({', '.join(values['causes'])})"
        if values["causes"]
        else "differed between processes"
    )
    return f"the GPU clock {cause}: {clocks} of {format_count(values['maximum'])} MHz"


def _describe_total(values: Values) -> str:
    totals = values["step"]
    text = "the trace marks no steps, so there are no per-step figures"
    if not len(totals.gpu_rows):
        return text
    copies = f"{totals.copies:,} {'copy' if totals.copies == 1 else 'copies'}"
    text += (
        f". In total: {pluralize(totals.kernels, 'kernel')}, {copies}, "
        f"{pluralize(totals.sets, 'set')}"
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
    return text


def _describe_several_devices(values: Values) -> str:
    devices = ", ".join(
        f"{format_count(round(work.kernels))} kernels on GPU {work.device} "
        f"(busy {format_percent(work.busy_share)})"
        for work in values["devices"]
    )
    return f"each step runs on {len(values['devices']):,} GPUs, and figures cover all: {devices}"


def _describe_trace_defect(values: Values) -> str:
    prefix = f"{values['trace']}: " if values["trace"] else ""
    return f"{prefix}{values['problem'].text.rstrip('.')}"


def _describe_other_workload(values: Values) -> str:
    baseline = f"{values['baseline']} is {_format_workload(values['baseline_work'])}"
    return f"this is {_format_workload(values['work'])}, {baseline}"


def _format_workload(work: WorkloadInfo) -> str:
    seed = "an unrecorded seed" if work.seed is None else f"seed {work.seed}"
    return f"{work.factory} with {seed}"


def _describe_other_parameters(values: Values) -> str:
    return ", ".join(
        f"{name} is {'absent' if value is None else value} here and "
        f"{'absent' if other is None else other} in {values['baseline']}"
        for name, value, other in values["rows"]
    )


_TEXTS: Final[dict[CaveatCode, tuple[Text, Text]]] = {
    CaveatCode.FEW_RECORDED_STEPS: (
        "recorded step: only {count} steps",
        f"Collect with --skip {max(FEW_STEPS, 50)}.",
    ),
    CaveatCode.UNEVEN_STEPS: (
        "recorded steps: {long_count:count} of {count:plural step} make up {share:percent} of the "
        "time; the median of all {count:count} is {median:ns}, the mean {mean:ns}, and {traced:ns} "
        "under the profiler",
        lambda values: (
            "The steps by mode show which ones are long."
            if values["has_engine"]
            else "If the long steps belong to start-up (each new size prepares its kernels), "
            "collect with a larger --skip."
        ),
    ),
    CaveatCode.CAPTURE_PROBLEM: (_describe_capture_problem, ""),
    CaveatCode.UNKNOWN_GRAPHS: (
        _describe_unseen_graphs,
        lambda values: _UNSEEN_ADVICE.get(values["source"], ""),
    ),
    CaveatCode.FEW_ITERATIONS: (
        "{metric:title}: only {count} iterations",
        f"Collect with --iterations {max(200, FEW_ITERATIONS)}.",
    ),
    CaveatCode.DRIFT: (
        "{metric:title}: the first half's median is {first:ns}, the second's {second:ns}",
        lambda values: (
            "The machine changed during the measurement or was still warming up: "
            f"collect again with --warmup {values['warmup'] * 4}."
        ),
    ),
    CaveatCode.BUSY_HOST: (
        "the host was busy: a fixed Python loop run next to {loop.processes:plural process} took "
        "{loop.slowdown:ratio} its fastest time",
        f"Eager launch times are inflated equally. {_COLLECT_AGAIN}.",
    ),
    CaveatCode.HOST_MISMATCH: (
        "the host's processor was slower: a fixed Python loop took {run_ns:ns} here and "
        "{baseline_ns:ns} next to {baseline}",
        f"{_COLLECT_AGAIN}, all modes with one command, which interleaves them.",
    ),
    CaveatCode.PROCESS_VARIANCE: (
        lambda values: (
            f"{_TITLES[values['metric']]}: its processes have medians of "
            + ", ".join(map(format_ns, values["medians"]))
        ),
        f"The interval includes this variation; {_COLLECT_AGAIN.lower()} for a narrower interval.",
    ),
    CaveatCode.CLOCK_VARIANCE: (
        _describe_clocks,
        "Lock the clock (nvidia-smi --lock-gpu-clocks) to compare runs.",
    ),
    CaveatCode.SLOW_GPU: (
        _describe_clocks,
        "Kernels run slower than at this GPU's maximum clock.",
    ),
    CaveatCode.WIDE_SPREAD: (
        "{metric:title}: p25 to p75 is {share:percent} of the median ({spread.low:ns} to "
        "{spread.high:ns}, {spread.samples} iterations)",
        lambda values: (
            f"{_COLLECT_AGAIN}; --iterations {values['iterations'] * 4} narrows the interval."
        ),
    ),
    CaveatCode.NO_DIFFERENCE: (
        "{metric:title}: {value} with a 95% interval of {spread.low:ratio} to {spread.high:ratio}, "
        "which includes 1: no significant difference",
        "More iterations narrow the interval.",
    ),
    CaveatCode.EXTENDED_SPREAD: (
        "{metric:title}: the interval of its samples misses {value} and was extended to it, so it "
        "is less certain than it looks",
        "More iterations make the interval reliable.",
    ),
    CaveatCode.LARGE_REMAINDER: (
        "the traced passes do not explain {ns:ns} of the difference, {share:percent} of the "
        "baseline's step",
        f"The two passes behaved differently: {_COLLECT_AGAIN.lower()}.",
    ),
    CaveatCode.NO_GPU_WORK: ("{reason}", ""),
    CaveatCode.NO_STEPS: (_describe_total, ""),
    CaveatCode.SEVERAL_GPUS: (_describe_several_devices, ""),
    CaveatCode.FOREIGN_STEPS: (
        "steps are separated by {method}, which may end without synchronisation",
        "",
    ),
    CaveatCode.FEW_TRACED_STEPS: (
        "traced pass: only {count:plural step}",
        lambda values: "" if values["imported"] else "Collect with --traced-iterations 20.",
    ),
    CaveatCode.OBSERVER: (
        "a step under the profiler took {ratio:ratio} its clean time",
        "Read gaps and launch times in the timeline with care; kernel durations are less "
        "distorted.",
    ),
    CaveatCode.PASS_MISMATCH: (
        "a step under the profiler took only {ratio:ratio} its clean time: the two passes behaved "
        "differently",
        f"{_COLLECT_AGAIN}; until then, do not compare the two passes.",
    ),
    CaveatCode.BUSY_ABOVE_CLEAN: (
        lambda values: (
            f"GPU busy time of the traced pass is {format_percent(values['share'])} of "
            "the clean step time: kernels ran slower under the profiler"
            + (", or waited longer for other ranks" if values["is_rank"] else "")
        ),
        "",
    ),
    CaveatCode.TRACE_DEFECT: (_describe_trace_defect, ""),
    CaveatCode.WHILE_LOOPS: (
        "{nodes:plural While node}: the profiler shows only the last iteration of each launch, so "
        "counts and times of GPU work exclude the other iterations",
        "Unprofiled and recorded step times include all iterations.",
    ),
    CaveatCode.UNSUPPORTED_CLAIMS: (
        lambda values: f"{values['reason']}. Not supported: {', '.join(values['claims'])}",
        "",
    ),
    CaveatCode.EMPTY_STEPS: (
        "{count:plural traced step} of {steps:count} without any work, call or operator: figures "
        "exclude such steps",
        "",
    ),
    CaveatCode.INCOMPLETE_LAUNCHES: (
        "{count:plural traced step} of {steps:count} without work of others with the same "
        "operators, as if calls were lost: figures exclude such steps",
        "",
    ),
    CaveatCode.PARTIAL_REPLAYS: (
        "{count:plural graph launch} without kernels that other launches of the same graph have: "
        "records were lost",
        "",
    ),
    CaveatCode.COMMUNICATION: (
        "{share:percent} of its GPU busy time is communication, which may only be waiting for "
        "other ranks",
        "Comparing all ranks separates waiting from transfer.",
    ),
    CaveatCode.ENVIRONMENT: (
        lambda values: (
            f"{values['component']} is {values['value'] or 'unknown'} here and "
            f"{values['baseline_value'] or 'unknown'} in {values['baseline']}"
        ),
        "Collect both modes on one machine with one set of software.",
    ),
    CaveatCode.WORKLOAD: (_describe_other_workload, "Compare runs of one workload."),
    CaveatCode.PARAMETERS: (
        _describe_other_parameters,
        "Compare runs with the same parameters (--set).",
    ),
}
