"""Distance from the hardware limit in sentences, and recommendations as instructions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from graphviz_dash.features.efficiency.analysis.advice import Advice
from graphviz_dash.features.efficiency.analysis.ceilings_choice import (
    CeilingsChoice,
    CeilingsOrigin,
)
from graphviz_dash.features.efficiency.analysis.limits import LimitTerm, UnitLimit
from graphviz_dash.features.efficiency.analysis.programmatic import ProgrammaticEdges
from graphviz_dash.features.efficiency.analysis.rates import Rates
from graphviz_dash.features.efficiency.analysis.report import (
    EfficiencyGroup,
    EfficiencyReport,
    GraphPart,
)
from graphviz_dash.features.efficiency.analysis.rules.search import Remedy
from graphviz_dash.features.efficiency.analysis.work import Bound, Work
from graphviz_dash.guidance.narrative import explain_missing_shapes
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.ceilings import Pipe, Traffic
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.columns import COUNT, MICROSECONDS, SHARE, Column, Unit
from graphviz_dash.narrative.numbers import format_in_same_unit
from graphviz_dash.units import (
    format_bytes,
    format_count,
    format_flops,
    format_ns,
    format_percent,
    pluralize,
)

MEASURE_COMMAND: Final = "graphviz-dash bench limits"

_SHAPES_CALL: Final = "torch.profiler.profile(record_shapes=True)"

_MAX_TEXTS: Final = 3

_REMEDY_TITLES: Final[Mapping[Remedy, str]] = {
    Remedy.KERNEL: "Use the eager run's kernels",
    Remedy.OPTIMIZER: "Use a fused optimizer",
    Remedy.CASTS: "Remove casts that undo each other",
    Remedy.FUSE: "Fuse memory-bound kernels",
    Remedy.FOREACH: "Use one foreach operator",
    Remedy.DTYPE: "Use TF32 or bfloat16",
    Remedy.MERGE: "Merge small matrix products",
    Remedy.WAVES: "Fill the last wave",
    Remedy.LAUNCH: "Launch fewer tiny kernels",
}

_ADVICE_TITLES: Final[Mapping[Remedy, str]] = {
    Remedy.KERNEL: "the eager run's kernels for {operators} ({count})",
    Remedy.OPTIMIZER: "a fused optimizer ({count})",
    Remedy.CASTS: "removing {count} that cast and cast back",
    Remedy.FUSE: "fusing {operators} ({count})",
    Remedy.FOREACH: "one foreach operator for {count} of {operators}",
    Remedy.DTYPE: "TF32 in {count} of {operators}",
    Remedy.MERGE: "merging products with the same input ({count})",
    Remedy.WAVES: "full waves in {count} of {operators}",
    Remedy.LAUNCH: "launching fewer tiny kernels ({count})",
}

REMEDY_INSTRUCTIONS: Final[Mapping[Remedy, str]] = {
    Remedy.KERNEL: (
        "Warm up on the stream of the capture, with the same precision, cudnn.benchmark and cuBLAS "
        "workspace as in eager steps."
    ),
    Remedy.OPTIMIZER: "Pass fused=True to the optimizer.",
    Remedy.CASTS: "Keep the narrow type between these operators.",
    Remedy.FUSE: "Compile this code with torch.compile, or call a fused operator.",
    Remedy.FOREACH: "Replace the loop with a torch._foreach operator, or pass foreach=True.",
    Remedy.DTYPE: (
        "Call torch.set_float32_matmul_precision('high') and set "
        "torch.backends.cudnn.allow_tf32 = True, or run the model in bfloat16."
    ),
    Remedy.MERGE: "Concatenate the weights of products with the same input.",
    Remedy.WAVES: "Change a size by a few percent, so that the blocks fill all multiprocessors.",
    Remedy.LAUNCH: "Fuse them with their neighbours. Nothing else shortens them.",
}

LIMIT_METHOD: Final = (
    "The limit of an operator is the longest of three times: moving its bytes, its arithmetic at "
    "the measured rate, and an empty kernel. Each input is read once and each output written once."
)

RATE_METHOD: Final = (
    "Achieved rates count each input read once and each output written once. Without measured "
    "limits of this GPU model, possible rates are unknown."
)

BOUND_NOTES: Final[Mapping[Bound, str]] = {
    Bound.EXACT: "",
    Bound.LOWER: "at least",
    Bound.UPPER: "at most",
}


def describe_efficiency(report: EfficiencyReport) -> str:
    """Describe the share of time near the limit, and the largest savings."""
    subject, spend = _name_subject(report), "spend" if report.graphs else "spends"
    if isinstance(report.choice, Missing):
        text = f"Limits are unknown: {report.choice.reason}. Measure them: {MEASURE_COMMAND}."
        return f"{text} {_format_savings(report)}." if report.advice else text
    if not report.known_ns:
        return (
            f"No operator of {subject[:1].lower()}{subject[1:]} has a known limit: "
            f"{find_missing_input(report)}."
        )
    near_text, total = format_ns(report.near_ns), format_ns(report.time_ns)
    if is_mostly_unknown(report):
        text = (
            f"{format_ns(report.time_ns - report.known_ns)} of {total} {format_unit(report)} have "
            f"no known limit: {find_missing_input(report)}"
        )
        return f"{text}; {_format_savings(report)}." if report.advice else f"{text}."
    total = f"{total} {format_unit(report)}" if report.graphs else total
    text = f"{subject} {spend} {near_text} of {total} within 20% of the hardware limit"
    if not report.advice:
        return f"{text}; no change with a predictable saving was found."
    return f"{text}; {_format_savings(report)}."


def _name_subject(report: EfficiencyReport) -> str:
    if report.graphs:
        return "The graphs"
    return "The step" if report.graph is None else "The graph"


def format_unit(report: EfficiencyReport) -> str:
    """Format the unit of the times."""
    return "in the trace" if report.is_whole_trace else f"per {report.unit}"


def _format_savings(report: EfficiencyReport) -> str:
    if len(report.advice) == 1:
        return f"{format_ns(report.saving_ns)} could go by {format_advice_title(report.advice[0])}"
    texts = "; ".join(_format_saving(entry) for entry in report.advice[:_MAX_TEXTS])
    remaining = len(report.advice) - _MAX_TEXTS
    suffix = f"; {remaining} more" if remaining > 0 else ""
    return f"{format_ns(report.saving_ns)} could go: {texts}{suffix}"


def _format_saving(advice: Advice) -> str:
    return f"{format_ns(advice.saving_ns)} by {format_advice_title(advice)}"


def format_advice_title(advice: Advice) -> str:
    """Format a recommendation as a noun phrase."""
    return _ADVICE_TITLES[advice.remedy].format(
        count=pluralize(advice.kernels, "kernel"), operators=format_operators(advice.operators)
    )


def format_remedy_title(remedy: Remedy) -> str:
    """Format a kind of recommendation as an instruction."""
    return _REMEDY_TITLES[remedy]


def format_operators(operators: Sequence[str], count: int = 4) -> str:
    """Format the first ``count`` operators in order, repetitions as counts."""
    groups: list[tuple[str, int]] = []
    for name in operators:
        if groups and groups[-1][0] == name:
            groups[-1] = (name, groups[-1][1] + 1)
        else:
            groups.append((name, 1))
    texts = [name if number == 1 else f"{name} x{number}" for name, number in groups]
    suffix = ", …" if len(texts) > count else ""
    return ", ".join(texts[:count]) + suffix


def format_range(advice: Advice) -> str:
    """Format the interval of a predicted saving."""
    if advice.low_ns <= 0:
        return f"up to {format_ns(advice.high_ns)}"
    low, high = format_in_same_unit(advice.low_ns, advice.high_ns)
    return f"{low.rsplit(' ', 1)[0]} to {high}"


def describe_ceilings(choice: CeilingsChoice) -> str:
    """Describe the limits with their origin."""
    rates = Rates(choice.ceilings)
    parts = [
        f"device memory {format_bandwidth(rates.compute_bandwidth(Traffic.COPY, l2_hit=False))}",
        f"L2 {format_bandwidth(rates.compute_bandwidth(Traffic.COPY, l2_hit=True))}",
    ]
    for pipe in (Pipe.BF16, Pipe.TF32, Pipe.FP32):
        rate = rates.get_flop_rate(pipe)
        if rate is not None:
            parts.append(f"{pipe.value} {format_flops(rate)}")
    parts.append(f"empty kernel {format_ns(rates.launch_ns)}")
    name = choice.ceilings.gpu.name
    origin = (
        f"{CeilingsOrigin.SAME_MODEL.value} ({choice.ceilings.date[:10]})"
        if choice.origin is CeilingsOrigin.SAME_MODEL
        else choice.origin.value
    )
    return f"Limits of {name}, {origin}: {', '.join(parts)}."


def format_bandwidth(rate: float) -> str:
    """Format bytes per second in decimal units, as vendors do."""
    return f"{rate / 1e12:.3g} TB/s" if rate >= 1e12 else f"{rate / 1e9:.3g} GB/s"


def find_missing_input(report: EfficiencyReport) -> str:
    """Return the most frequent reason for unknown limits."""
    reasons = Counter(
        limit.unit.missing for limit in report.limits if limit.unit.missing is not None
    )
    return reasons.most_common(1)[0][0] if reasons else "the work of no operator is recorded"


def is_mostly_unknown(report: EfficiencyReport) -> bool:
    """Return whether the limits of more than half of the time are unknown."""
    return isinstance(report.choice, Missing) or report.known_ns < report.time_ns / 2


def describe_unknown(report: EfficiencyReport) -> str | None:
    """Describe time without a known limit; None if all are known, or most are not."""
    unknown_ns = report.time_ns - report.known_ns
    if unknown_ns <= 0 or is_mostly_unknown(report):
        return None
    return f"{format_ns(unknown_ns)} have no known limit: {find_missing_input(report)}."


def describe_missing_shapes(
    report: EfficiencyReport, run: Run | None = None
) -> tuple[str, str | None] | None:
    """Return instruction and command to record shapes. None if any are known.

    ``run`` is that of a graph.
    """
    if any(limit.unit.call for limit in report.limits):
        return None
    if report.graph is None and not report.graphs:
        return "The trace has no shapes. Record them:", _SHAPES_CALL
    return None if run is None else explain_missing_shapes(run, ())


def describe_programmatic(report: EfficiencyReport) -> str | None:
    """Describe programmatic edges and hideable gaps; None without any."""
    audit = report.programmatic
    if audit is None:
        return None
    hideable = (
        f"Programmatic launch could hide up to {format_ns(audit.hideable_ns)} between the kernels "
        f"of {pluralize(audit.full_edges, 'other edge')}, if the kernels support it"
    )
    chains = describe_chains(audit)
    hideable = f"{hideable}. {chains}" if chains else f"{hideable}."
    if not audit.edges:
        return f"No edge is programmatic. {hideable}"
    edges = pluralize(audit.edges, "programmatic edge")
    if audit.gap_ns is None:
        return f"{edges}, not timed. {hideable}"
    overlaps = audit.overlaps or "none"
    effect = f"median gap {format_ns(audit.gap_ns)}; {overlaps} of them overlap in replays"
    return f"{edges}, {effect}. {describe_device_half(audit)} {hideable}"


def describe_device_half(audit: ProgrammaticEdges) -> str:
    """Describe which kernels wait and trigger, by their code."""
    if audit.unread == audit.edges:
        return "It is unknown whether their kernels wait and trigger: their code was not read."
    texts = []
    if audit.without_trigger:
        count = pluralize(len(audit.without_trigger), "first kernel")
        texts.append(
            f"{count} without griddepcontrol.launch_dependents: the next kernel starts at its end"
        )
    if audit.without_wait:
        count = pluralize(len(audit.without_wait), "second kernel")
        nodes = ", ".join(str(edge.target) for edge in audit.without_wait[:_MAX_TEXTS])
        texts.append(
            f"{count} without griddepcontrol.wait (node {nodes}): nothing orders its reads after "
            "the writes of the first one"
        )
    if audit.unread:
        texts.append(f"the code of {pluralize(audit.unread, 'edge')} was not read")
    return f"{'; '.join(texts)}." if texts else "All their kernels wait and trigger."


def describe_chains(audit: ProgrammaticEdges) -> str | None:
    """Describe the longest chains without programmatic edges; None without any."""
    if not audit.chains:
        return None
    texts = [
        f"nodes {chain.nodes[0]} to {chain.nodes[-1]} ({pluralize(len(chain.nodes), 'kernel')}, "
        f"up to {format_ns(chain.hideable_ns)})"
        for chain in audit.chains[:_MAX_TEXTS]
    ]
    remaining = len(audit.chains) - len(texts)
    suffix = f"; {remaining} more" if remaining else ""
    return f"Longest chains: {'; '.join(texts)}{suffix}."


def describe_limit(limit: UnitLimit) -> str:
    """Describe time, limit and work of one operator call."""
    work = limit.unit.work
    if work is None:
        return f"{format_ns(limit.time_ns)}; limit unknown: {limit.unit.missing}"
    if limit.limit_ns is None or limit.term is None:
        return f"{format_ns(limit.time_ns)}; {format_work(work)}"
    return (
        f"{format_ns(limit.time_ns)}, {format_percent(limit.share)} of the limit of "
        f"{format_ns(limit.limit_ns)} ({format_term(limit)}); {format_work(work)}"
    )


def format_work(work: Work) -> str:
    """Format bytes and operations."""
    size = f"{BOUND_NOTES[work.bound]} {format_bytes(work.total_bytes)}".strip()
    return f"{size}, {work.flops / 1e9:.3g} GFLOP" if work.flops else size


def format_term(limit: UnitLimit) -> str:
    """Format what limits a call."""
    if limit.term is LimitTerm.ARITHMETIC and limit.pipe is not None:
        return f"{limit.pipe.value} arithmetic"
    return limit.term.value if limit.term is not None else "unknown"


def _format_replays(replays: float) -> str:
    return f"{replays:.3g}"


def format_savings_heading(report: EfficiencyReport) -> str:
    """Format the heading of the recommendations."""
    return f"Predicted savings {format_unit(report)}"


GRAPH_COLUMNS: Final[Sequence[Column[GraphPart]]] = (
    Column("Graph", lambda part: part.graph),
    Column("Replays", lambda part: part.replays, Unit(_format_replays, pattern="%.2f")),
    Column("Time", lambda part: part.time_ns, MICROSECONDS),
    Column("Near the limit", lambda part: part.near_ns if part.known_ns else None, MICROSECONDS),
    Column("Above the limit", lambda part: part.above_ns if part.known_ns else None, MICROSECONDS),
)


def list_group_columns(report: EfficiencyReport, title: str) -> list[Column[EfficiencyGroup]]:
    """List the columns of groups called ``title``; time above the limit needs known limits."""
    limits: list[Column[EfficiencyGroup]] = [
        Column("Above the limit", _get_excess_ns, MICROSECONDS, "above"),
        Column("Unknown limit", lambda group: group.unknown_ns, MICROSECONDS, None),
        Column(None, lambda group: _get_excess_share(report, group), SHARE, "share"),
    ]
    return [
        Column(title, lambda group: group.name),
        Column("Kernels", lambda group: group.kernels, COUNT),
        Column("Time", lambda group: group.time_ns, MICROSECONDS),
        *(() if isinstance(report.choice, Missing) else limits),
        Column("Achieved GB/s", lambda group: group.bandwidth, _GIGA, None),
        Column("Achieved TFLOP/s", lambda group: group.flop_rate, _TERA, None),
    ]


_GIGA: Final = Unit(format_count, scale=1e9, pattern="%.0f")
_TERA: Final = Unit(format_count, scale=1e12, pattern="%.2f")


def _get_excess_ns(group: EfficiencyGroup) -> float | None:
    return group.above_ns if group.unknown_ns < group.time_ns else None


def _get_excess_share(report: EfficiencyReport, group: EfficiencyGroup) -> float | None:
    excess_ns = _get_excess_ns(group)
    return None if excess_ns is None or not report.above_ns else excess_ns / report.above_ns
