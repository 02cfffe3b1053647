"""JSON of ``graphviz-dash ladder`` (docs/reference/json.md), in ns and bytes."""

from __future__ import annotations

import math

from msgspec import field

from graphviz_dash.analysis.loop.family_report import FamilyReport, LoopReport
from graphviz_dash.analysis.sample_statistics import Spread
from graphviz_dash.exports.documents.values import (
    Bytes,
    Count,
    Document,
    Fraction,
    Ns,
    Sentence,
    WholeNs,
    build,
    drop_missing,
    get_reason,
)
from graphviz_dash.features.ladder.analysis.coverage import Coverage
from graphviz_dash.features.ladder.analysis.ladder_advice import LadderAdvice, LadderPoint
from graphviz_dash.features.ladder.analysis.ladder_problem import LadderCost
from graphviz_dash.features.ladder.narrative import (
    describe_advice,
    describe_ceiling,
    describe_coverage,
    list_coverage_options,
    list_size_options,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.engine_steps import describe_eager_steps


class MemberDocument(Document, frozen=True):
    """A graph of a family, or its segments, and its cost."""

    key: list[int] | None
    method: str | None
    size: int | None
    graphs: list[str]
    steps: Count
    gpu_time: Ns | None
    gpu_samples: Count
    capture_ns: Ns = field(name="capture_time")
    first_launch_ns: Ns | None = field(name="first_launch_time")
    exclusive_bytes: Bytes | None = field(name="own_memory")
    pool_growth_bytes: Bytes | None = field(name="pool_growth")
    executable_bytes: Bytes | None = field(name="executable_memory")


class SizeLossDocument(Document, frozen=True):
    """Total padding and fallback cost of the requests of one real size; null if no fallback was
    timed.
    """

    size: int
    requests: Count
    fallbacks: Count
    padding_ns: WholeNs = field(name="padding")
    fallback_ns: WholeNs | None = field(name="fallback")


class LadderUseDocument(Document, frozen=True):
    """A set of sizes and its totals for the requests; null times are unknown."""

    sizes: list[int]
    time: WholeNs | None
    padding_ns: WholeNs = field(name="padding")
    fallback: WholeNs | None
    fallbacks: Count
    memory: Bytes
    startup_ns: WholeNs = field(name="startup")
    rate: float | None


class LadderPointDocument(Document, frozen=True):
    """A set of sizes that no other beats in time, memory and startup time."""

    sizes: list[int]
    untimed_count: Count = field(name="untimed")
    time: WholeNs | None
    memory: Bytes
    startup_ns: WholeNs = field(name="startup")


class GainDocument(Document, frozen=True):
    """Saving of a set of sizes in the time per request, with its 95% interval."""

    value: WholeNs | None
    low: WholeNs
    high: WholeNs | None


class CeilingDocument(Document, frozen=True):
    """Largest size of the best ladder, and the requests above it."""

    size: int
    replay_ns: Ns | None = field(name="replay_time")
    fallback_ns: Ns | None = field(name="above_time")
    requests_above: Count
    largest_request: int
    extended_ns: Ns | None = field(name="raised_time")
    extended_gain_ns: Ns | None = field(name="raised_gain")


class AdviceDocument(Document, frozen=True):
    """The fastest set of sizes within the budget, and the smallest set within noise of it, next to
    the current one."""

    graphs: Count | None
    memory_bytes: Bytes | None = field(name="memory")
    startup_ns: Ns | None = field(name="startup")
    requests: Count
    current: LadderUseDocument
    best: LadderUseDocument
    smallest: LadderUseDocument
    untimed_count: Count = field(name="untimed")
    lower_bound: WholeNs
    interpolated: list[int]
    gain: GainDocument
    smallest_gain: GainDocument
    is_better: bool = field(name="is_significant")
    ceiling: CeilingDocument
    by_count: list[tuple[Count, Ns]]
    front: list[LadderPointDocument]
    sentence: Sentence
    ceiling_sentence: Sentence


class StepModeDocument(Document, frozen=True):
    """Steps of one phase that ran in the same way; ``steps_above`` of them exceed the largest graph
    of their family.
    """

    phase: str | None
    kind: str
    family: str | None
    steps: Count
    sizes: tuple[int, int] | None
    steps_above: Count
    requests: tuple[int, int] | None
    median: Ns | None
    low: Ns | None
    high: Ns | None
    time_share: Fraction | None


class CoverageDocument(Document, frozen=True):
    """Sizes that would cover the requests above the largest graph; the gain is per such request."""

    new_sizes: list[int]
    requests_above: Count
    gain_ns: Ns | None = field(name="gain")
    gain_share: Fraction | None
    eager_step_ns: Ns | None = field(name="step_time")
    step_low: Ns | None
    step_high: Ns | None
    graph_step_ns: Ns | None = field(name="predicted_step_time")
    predicted_low: Ns | None
    predicted_high: Ns | None
    throughput_gain: Fraction | None
    throughput_low: Fraction | None
    throughput_high: Fraction | None
    memory: Bytes
    memory_limit_reason: Sentence | None
    startup_ns: WholeNs = field(name="startup")
    options: list[str]
    sentence: Sentence


class LadderDocument(Document, frozen=True):
    """A graph family of a recorded program, and the recommended capture sizes."""

    run: str
    engine: str | None
    engine_capture_memory: Bytes | None
    modes: list[StepModeDocument]
    steps_per_recorded_step: float | None
    eager_sentences: list[Sentence]
    family: str
    axes: list[str]
    families: list[str]
    members: list[MemberDocument]
    real_sizes: dict[str, Count]
    losses: list[SizeLossDocument]
    step_ns: Ns | None = field(name="step_time")
    traffic: str | None
    advice: AdviceDocument | None
    options: list[str]
    coverage: CoverageDocument | None
    reason: Sentence | None


def build_ladder_document(
    report: LoopReport,
    family: FamilyReport,
    advice: LadderAdvice | Missing,
    coverage: Coverage | None,
    traffic: str | None,
) -> LadderDocument:
    """Build the document of a graph family and its best ladder.

    ``traffic`` is the file that the requests come from, or None for the program's own requests.
    """
    recommendation = drop_missing(advice)
    return build(
        LadderDocument,
        family,
        run=report.run,
        engine=report.engine,
        engine_capture_memory=report.engine_capture_bytes,
        modes=_build_modes(report),
        steps_per_recorded_step=report.recorded_step and report.recorded_step.steps,
        eager_sentences=describe_eager_steps(report),
        family=family.family.name,
        axes=family.family.axes,
        families=[other.family.name for other in report.families],
        members=[
            build(
                MemberDocument,
                member,
                member.member,
                gpu_time=member.gpu and member.gpu.median,
                gpu_samples=len(member.gpu_ns),
            )
            for member in family.members
        ],
        real_sizes=dict(family.real_sizes),
        losses=drop_missing(family.losses) or [],
        traffic=traffic,
        advice=recommendation and _build_advice(recommendation),
        options=[]
        if recommendation is None
        else list_size_options(report, family, recommendation.smallest.sizes),
        coverage=coverage and _build_coverage(report, family, coverage),
        reason=get_reason(advice),
    )


def _build_modes(report: LoopReport) -> list[StepModeDocument]:
    names = {family.index: family.family.name for family in report.families}
    return [
        build(
            StepModeDocument,
            mode,
            family=None if mode.family is None else names[mode.family],
            median=mode.step_time and mode.step_time.median,
            low=mode.step_time and mode.step_time.spread.low,
            high=mode.step_time and mode.step_time.spread.high,
        )
        for mode in report.modes
    ]


def _build_coverage(
    report: LoopReport, family: FamilyReport, coverage: Coverage
) -> CoverageDocument:
    eager, graph = coverage.eager_step_spread, coverage.graph_step_spread
    throughput = coverage.throughput_spread
    return build(
        CoverageDocument,
        coverage,
        step_low=eager and eager.low,
        step_high=eager and eager.high,
        predicted_low=graph and graph.low,
        predicted_high=graph and graph.high,
        throughput_low=throughput and throughput.low,
        throughput_high=throughput and throughput.high,
        memory=round(coverage.memory_bytes),
        memory_limit_reason=coverage.memory_limit and coverage.memory_limit.reason,
        options=list_coverage_options(report, family, coverage),
        sentence=describe_coverage(family, coverage),
    )


def _build_advice(advice: LadderAdvice) -> AdviceDocument:
    return build(
        AdviceDocument,
        advice,
        advice.budget,
        current=_build_use(advice, advice.current_sizes, advice.current_use),
        best=_build_use(advice, advice.ladder.sizes, advice.use),
        smallest=_build_use(advice, advice.smallest.sizes, advice.smallest.use),
        untimed_count=advice.smallest.untimed_count,
        lower_bound=advice.ladder.bound_ns,
        gain=_build_gain(advice.gain_ns, advice.gain_interval),
        smallest_gain=_build_gain(advice.smallest_gain_ns, advice.smallest_interval),
        by_count=[(count, round(time)) for count, time in advice.curve],
        front=[_build_point(point) for point in advice.front],
        sentence=describe_advice(advice),
        ceiling_sentence=describe_ceiling(advice),
    )


def _build_gain(gain_ns: float, interval: Spread) -> GainDocument:
    return build(
        GainDocument,
        value=_drop_infinite(gain_ns),
        low=interval.low,
        high=_drop_infinite(interval.high),
    )


def _build_point(point: LadderPoint) -> LadderPointDocument:
    return build(
        LadderPointDocument,
        point,
        point.use,
        time=_drop_infinite(point.use.total_ns),
        memory=round(point.use.memory_bytes),
    )


def _build_use(advice: LadderAdvice, sizes: tuple[int, ...], use: LadderCost) -> LadderUseDocument:
    return build(
        LadderUseDocument,
        use,
        sizes=sizes,
        time=_drop_infinite(use.total_ns),
        fallback=_drop_infinite(use.fallback_ns),
        fallbacks=round(use.fallbacks),
        memory=round(use.memory_bytes),
        rate=advice.compute_throughput(use),
    )


def _drop_infinite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
