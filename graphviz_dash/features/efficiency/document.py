"""Build the JSON of ``graphviz-dash efficiency`` (docs/reference/json.md); times in ns."""

from __future__ import annotations

from msgspec import field

from graphviz_dash.exports.documents.values import (
    Bytes,
    Count,
    Document,
    Fraction,
    Ns,
    Number,
    Sentence,
    build,
    get_reason,
)
from graphviz_dash.features.efficiency.analysis.advice import Advice
from graphviz_dash.features.efficiency.analysis.ceilings_choice import CeilingsChoice
from graphviz_dash.features.efficiency.analysis.limits import UnitLimit
from graphviz_dash.features.efficiency.analysis.rates import Rates
from graphviz_dash.features.efficiency.analysis.report import (
    EfficiencyReport,
    GroupKey,
    group_limits,
)
from graphviz_dash.features.efficiency.narrative import (
    REMEDY_INSTRUCTIONS,
    describe_efficiency,
    format_remedy_title,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.ceilings import Pipe, Traffic


class LimitsDocument(Document, frozen=True):
    """Measured limits of the GPU; rates per second."""

    gpu: str
    origin: str
    date: str
    copy_bytes_per_second: Number
    l2_copy_bytes_per_second: Number
    flops_per_second: dict[str, Number]
    empty_kernel: Ns


class GraphPartDocument(Document, frozen=True):
    """One graph of a report of several; times per step."""

    graph: str
    replays: Number = field(name="replays_per_step")
    time_ns: Ns = field(name="time")
    near_ns: Ns = field(name="near_limit")
    above_ns: Ns = field(name="above_limit")
    unknown: Ns


class CallDocument(Document, frozen=True):
    """Time and limit of one operator call."""

    graph: str | None

    operator: str | None
    name: str = field(name="kernel")
    module: str | None
    source: str | None
    nodes: list[Count]
    time_ns: Ns = field(name="time")
    limit_ns: Ns | None = field(name="limit")
    share: Fraction | None
    above_ns: Ns = field(name="excess")
    term: str | None = field(name="limiter")
    read_bytes: Bytes | None = field(name="reads")
    written_bytes: Bytes | None = field(name="writes")
    bound: str | None
    flops: int | None
    pipe: str | None
    unknown: Sentence | None


class EfficiencyGroupDocument(Document, frozen=True):
    """Operator calls with a common operator, module or source line."""

    name: str
    calls: Count
    kernels: Count
    time_ns: Ns = field(name="time")
    above_ns: Ns = field(name="excess")
    unknown_ns: Ns = field(name="unknown")
    moved_bytes: Number | None = field(name="bytes")
    flops: Number | None


class AdviceDocument(Document, frozen=True):
    """A recommendation with its predicted saving per replay or step."""

    remedy: str
    title: Sentence
    instruction: Sentence
    operators: list[str]
    kernels: Count
    groups: Count
    time_ns: Ns = field(name="time")
    saving_ns: Ns = field(name="saving")
    low_ns: Ns = field(name="saving_low")
    high_ns: Ns = field(name="saving_high")
    module: str | None
    source: str | None


class KernelChainDocument(Document, frozen=True):
    """Kernels that run one after the other, without programmatic edges."""

    first: Count
    last: Count
    kernels: Count
    hideable_ns: Ns = field(name="hideable")


class KernelPairDocument(Document, frozen=True):
    """Two kernels with a programmatic edge."""

    source: Count = field(name="first")
    target: Count = field(name="second")


class ProgrammaticDocument(Document, frozen=True):
    """Programmatic edges of a graph, and the gaps of other edges between kernels."""

    edges: Count
    overlaps: Count
    gap_ns: Ns | None = field(name="gap")
    full_edges: Count
    hideable_ns: Ns = field(name="hideable")
    chains: list[KernelChainDocument]
    without_wait: list[KernelPairDocument]
    without_trigger: list[KernelPairDocument]
    unread: Count


class EfficiencyDocument(Document, frozen=True):
    """Distance of graphs or an eager step from the limits of the GPU."""

    run: str
    graph: str | None
    unit: str
    graphs: list[GraphPartDocument]
    sentence: Sentence
    time_ns: Ns = field(name="time")
    near_ns: Ns = field(name="near_limit")
    above_ns: Ns = field(name="above_limit")
    unknown: Ns
    limits: LimitsDocument | None
    no_limits: Sentence | None
    by_operator: list[EfficiencyGroupDocument]
    by_module: list[EfficiencyGroupDocument]
    by_line: list[EfficiencyGroupDocument]
    advice: list[AdviceDocument]
    programmatic: ProgrammaticDocument | None
    calls: list[CallDocument]


def build_efficiency_document(run: str, report: EfficiencyReport) -> EfficiencyDocument:
    """Build the document of one graph or step of a run."""
    choice = report.choice
    return build(
        EfficiencyDocument,
        report,
        run=run,
        graphs=[
            build(GraphPartDocument, part, unknown=part.time_ns - part.known_ns)
            for part in report.graphs
        ],
        sentence=describe_efficiency(report),
        unknown=report.time_ns - report.known_ns,
        limits=None if isinstance(choice, Missing) else _build_limits(choice),
        no_limits=get_reason(choice),
        by_operator=group_limits(report, GroupKey.OPERATOR),
        by_module=group_limits(report, GroupKey.MODULE),
        by_line=group_limits(report, GroupKey.LINE),
        advice=[_build_advice(advice) for advice in report.advice],
        programmatic=_build_programmatic(report),
        calls=[_build_call(report, limit) for limit in report.limits],
    )


def _build_programmatic(report: EfficiencyReport) -> ProgrammaticDocument | None:
    audit = report.programmatic
    if audit is None:
        return None
    return build(
        ProgrammaticDocument,
        audit,
        chains=[
            build(
                KernelChainDocument,
                chain,
                first=chain.nodes[0],
                last=chain.nodes[-1],
                kernels=len(chain.nodes),
            )
            for chain in audit.chains
        ],
    )


def _build_limits(choice: CeilingsChoice) -> LimitsDocument:
    rates = Rates(choice.ceilings)
    flops = {pipe.value: rates.get_flop_rate(pipe) for pipe in Pipe}
    return build(
        LimitsDocument,
        gpu=choice.ceilings.gpu.name,
        origin=choice.origin.value,
        date=choice.ceilings.date,
        copy_bytes_per_second=rates.compute_bandwidth(Traffic.COPY, l2_hit=False),
        l2_copy_bytes_per_second=rates.compute_bandwidth(Traffic.COPY, l2_hit=True),
        flops_per_second={name: rate for name, rate in flops.items() if rate is not None},
        empty_kernel=rates.launch_ns,
    )


def _build_advice(advice: Advice) -> AdviceDocument:
    return build(
        AdviceDocument,
        advice,
        title=format_remedy_title(advice.remedy),
        instruction=REMEDY_INSTRUCTIONS[advice.remedy],
        groups=len(advice.groups),
    )


def _build_call(report: EfficiencyReport, limit: UnitLimit) -> CallDocument:
    unit = limit.unit
    origin = report.items[unit.items[0]].origin
    return build(
        CallDocument,
        limit,
        origin,
        unit.work,
        graph=report.items[unit.items[0]].graph,
        operator=None if origin is None else origin.call_operator or origin.op,
        nodes=[report.items[position].index for position in unit.items],
        unknown=unit.missing,
    )
