"""JSON of a prediction (docs/reference/json.md): nanoseconds, counts and ratios."""

from __future__ import annotations

from msgspec import field

from graphviz_dash.analysis.prediction.capture_blockers import Blocker
from graphviz_dash.analysis.prediction.idle_time import IdleCause
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.exports.documents.integrity import IntegrityDocument, build_integrity_document
from graphviz_dash.exports.documents.values import (
    Count,
    Document,
    Fraction,
    Ns,
    Number,
    Sentence,
    WholeNs,
    build,
    drop_missing,
)
from graphviz_dash.features.prediction.analysis.eager_bounds import compute_eager_bounds
from graphviz_dash.narrative.prediction import (
    format_evidence,
    format_prediction_verdict,
    list_unchecked,
    list_warnings,
)


class EstimateDocument(Document, frozen=True):
    """A value with its 90% interval.

    ``low`` and ``high`` are null without an interval; ``high`` alone is null if unbounded.
    """

    value: Number
    low: Number | None
    high: Number | None


class CalibrationDocument(Document, frozen=True):
    """The calibration behind the prediction."""

    shipped: bool
    gpu: str
    driver: str | None
    torch: str | None
    recorded_at: str = field(name="recorded")
    workloads: Count
    checks: Count


class EagerStepDocument(Document, frozen=True):
    """The eager step and its bottleneck, CPU or GPU."""

    value: Ns
    basis: str


class CostPartDocument(Document, frozen=True):
    """A part of a cost."""

    part: str
    ns: Ns


class OneOffDocument(Document, frozen=True):
    """One-time cost of a graph."""

    total: Ns
    parts: list[CostPartDocument]


class IdlePartDocument(Document, frozen=True):
    """A cause of GPU idle time.

    ``removed`` is true if a graph removes it; ``main_contributor`` causes most of it.
    """

    cause: str
    ns: WholeNs
    share: Fraction
    removed: bool
    source: str | None = field(name="main_contributor")


class IdleDocument(Document, frozen=True):
    """GPU idle time in a traced step by cause; ``remaining`` would remain in the eager step."""

    total_ns: WholeNs = field(name="total")
    remaining: WholeNs
    parts: list[IdlePartDocument]


class GapTermDocument(Document, frozen=True):
    """Gaps of one kind in a replay: their number and total time."""

    term: str
    count: Count
    ns: WholeNs


class ReplayDocument(Document, frozen=True):
    """The predicted replay in parts, in ns."""

    work_ns: WholeNs = field(name="work")
    slowed_ns: WholeNs = field(name="contention_time")
    heat_ns: WholeNs = field(name="power_limit")
    fixed_ns: WholeNs = field(name="fixed")
    random_ns: WholeNs = field(name="random")
    gaps: list[GapTermDocument]


class ReasonsDocument(Document, frozen=True):
    """The numbers behind the prediction."""

    kernels: Count
    copies: Count
    sets: Count
    stream_count: Count = field(name="streams")
    steps: Count
    matching_steps: Count
    method: str = field(name="step_method")
    step_ns: Ns = field(name="traced_step")
    busy_ns: Ns = field(name="busy")
    work_ns: Ns = field(name="work")
    idle: Ns
    replay: ReplayDocument


class BlockerDocument(Document, frozen=True):
    """An operation that blocks capture or makes replays wrong."""

    rule: str
    title: Sentence
    severity: str
    certain: bool
    op: str | None
    module: str | None
    source: str | None
    observation: str
    count: Count = field(name="count_per_step")
    cpu_ns: Ns | None = field(name="cpu_time")
    steps: Count
    advice: Sentence


class ModuleDocument(Document, frozen=True):
    """A module captured as separate graphs; times in ns."""

    name: str | None
    kernels: Count
    eager_ns: WholeNs = field(name="eager")
    busy_ns: WholeNs = field(name="busy")
    graphs: Count
    graphed_ns: WholeNs = field(name="graphed")
    saving_ns: WholeNs = field(name="saving")
    blockers: Count


class EagerBoundsDocument(Document, frozen=True):
    """Bounds of the graph on several streams.

    ``low`` assumes no dependencies; ``value`` uses the known ones.
    """

    streams: Count
    low_ns: WholeNs = field(name="low")
    value_ns: Ns | None = field(name="value")
    high_ns: WholeNs = field(name="high")


class PredictionDocument(Document, frozen=True):
    """Predicted gain from CUDA graphs for an eager step."""

    trace: str
    verdict: Sentence
    recommendation: str = field(name="outcome")
    calibration: CalibrationDocument
    eager_step: EagerStepDocument
    step_ns: EstimateDocument = field(name="graphed_step")
    interval_ns: EstimateDocument = field(name="graphed_interval")
    speedup: EstimateDocument | None
    saving_ns: EstimateDocument | None = field(name="saving")
    on_streams: list[EagerBoundsDocument]
    speedup_reason: Sentence | None
    idle: IdleDocument
    one_off: OneOffDocument
    break_even: EstimateDocument | None
    break_even_reason: Sentence | None
    breakdown: ReasonsDocument
    blockers: list[BlockerDocument]
    not_checked: list[Sentence]
    modules: list[ModuleDocument] | None
    module_source: str | None
    modules_reason: Sentence | None
    integrity: IntegrityDocument
    warnings: list[Sentence]


def build_prediction_document(prediction: Prediction, shipped: bool) -> PredictionDocument:
    """Build the prediction with its reasons; ``shipped`` marks a built-in calibration."""
    calibration, modules = prediction.calibration, drop_missing(prediction.modules)
    return build(
        PredictionDocument,
        prediction,
        trace=prediction.source,
        verdict=format_prediction_verdict(prediction),
        calibration=build(
            CalibrationDocument,
            calibration,
            calibration.environment,
            shipped=shipped,
            gpu=calibration.gpu.name,
            workloads=len(calibration.samples),
            checks=len(calibration.holdout_samples),
        ),
        eager_step=build(EagerStepDocument, value=prediction.eager_ns, basis=prediction.eager_side),
        on_streams=compute_eager_bounds(prediction),
        idle=_build_idle_document(prediction),
        one_off=build(
            OneOffDocument,
            total=prediction.one_off_ns,
            parts=[build(CostPartDocument, part=name, ns=ns) for name, ns in prediction.one_off],
        ),
        breakdown=_build_reasons_document(prediction),
        blockers=[build_blocker_document(blocker) for blocker in prediction.blockers],
        not_checked=list_unchecked(prediction),
        modules=modules
        and [build(ModuleDocument, row, name=row.name or None) for row in modules.modules],
        module_source=modules and modules.source,
        integrity=build_integrity_document(prediction.step.integrity),
        warnings=list_warnings(prediction),
    )


def _build_idle_document(prediction: Prediction) -> IdleDocument:
    idle = prediction.idle
    return build(
        IdleDocument,
        idle,
        remaining=prediction.remaining_idle_ns,
        parts=[
            build(
                IdlePartDocument,
                part,
                share=part.ns / idle.total_ns,
                removed=part.cause is IdleCause.LAUNCHING,
            )
            for part in idle.parts
        ],
    )


def _build_reasons_document(prediction: Prediction) -> ReasonsDocument:
    step, replay = prediction.step, prediction.replay
    gaps = [build(GapTermDocument, term=term, count=n, ns=ns) for term, n, ns in replay.gaps]
    return build(
        ReasonsDocument,
        step,
        kernels=step.kind.count("kernel"),
        copies=step.kind.count("memcpy"),
        sets=step.kind.count("memset"),
        steps=len(step.steps),
        matching_steps=len(step.matching),
        idle=prediction.idle_ns,
        replay=build(ReplayDocument, replay, gaps=gaps),
    )


def build_blocker_document(blocker: Blocker) -> BlockerDocument:
    """Build the document of a capture blocker."""
    return build(
        BlockerDocument,
        blocker,
        blocker.rule,
        rule=blocker.rule.id,
        observation=format_evidence(blocker.evidence),
    )
