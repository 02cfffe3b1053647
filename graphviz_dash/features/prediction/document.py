"""Build the JSON of a prediction (docs/reference/json.md): nanoseconds, counts and ratios."""

from __future__ import annotations

from typing import TypedDict

from graphviz_dash.analysis.prediction.capture_blockers import Blocker
from graphviz_dash.analysis.prediction.idle_time import IdleCause
from graphviz_dash.analysis.prediction.module_prediction import ModulePrediction
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.analysis.prediction.uncertainty import Estimate
from graphviz_dash.exports.documents.integrity import (
    IntegrityDocument,
    build_integrity_document,
)
from graphviz_dash.exports.documents.values import (
    Count,
    Fraction,
    Ns,
    Sentence,
    get_reason,
    simplify_number,
)
from graphviz_dash.features.prediction.analysis.eager_bounds import compute_eager_bounds
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.prediction import (
    format_evidence,
    format_prediction_verdict,
    list_unchecked,
    list_warnings,
)


class EstimateDocument(TypedDict):
    """A value with its 90% interval.

    ``low`` and ``high`` are null without an interval; ``high`` alone is null if unbounded.
    """

    value: float
    low: float | None
    high: float | None


class CalibrationDocument(TypedDict):
    """The calibration behind the prediction."""

    shipped: bool
    gpu: str
    driver: str | None
    torch: str | None
    recorded: str
    workloads: Count
    checks: Count


class EagerStepDocument(TypedDict):
    """The eager step and its bottleneck, CPU or GPU."""

    value: Ns
    basis: str


class CostPartDocument(TypedDict):
    """A part of a cost."""

    part: str
    ns: Ns


class OneOffDocument(TypedDict):
    """One-time cost of a graph."""

    total: Ns
    parts: list[CostPartDocument]


class IdlePartDocument(TypedDict):
    """A cause of GPU idle time.

    ``removed`` is true if a graph removes it; ``main_contributor`` causes most of it.
    """

    cause: str
    ns: Ns
    share: Fraction
    removed: bool
    main_contributor: str | None


class IdleDocument(TypedDict):
    """GPU idle time in a traced step by cause; ``remaining`` would remain in the eager step."""

    total: Ns
    remaining: Ns
    parts: list[IdlePartDocument]


class GapTermDocument(TypedDict):
    """Gaps of one kind in a replay: their number and total time."""

    term: str
    count: Count
    ns: Ns


class ReplayDocument(TypedDict):
    """The predicted replay in parts, in ns."""

    work: Ns
    contention_time: Ns
    power_limit: Ns
    fixed: Ns
    random: Ns
    gaps: list[GapTermDocument]


class ReasonsDocument(TypedDict):
    """The numbers behind the prediction."""

    kernels: Count
    copies: Count
    sets: Count
    streams: Count
    steps: Count
    matching_steps: Count
    step_method: str
    traced_step: Ns
    busy: Ns
    work: Ns
    idle: Ns
    replay: ReplayDocument


class BlockerDocument(TypedDict):
    """An operation that would stop a capture or make replays wrong."""

    rule: str
    title: Sentence
    severity: str
    certain: bool
    op: str | None
    module: str | None
    source: str | None
    observation: str
    count_per_step: Count
    cpu_time: Ns | None
    steps: Count
    advice: Sentence


class ModuleDocument(TypedDict):
    """A module captured as separate graphs; times in ns."""

    name: str | None
    kernels: Count
    eager: Ns
    busy: Ns
    graphs: Count
    graphed: Ns
    saving: Ns
    blockers: Count


class EagerBoundsDocument(TypedDict):
    """Bounds of the graph on several streams.

    ``low`` assumes no dependencies; ``value`` uses the known ones.
    """

    streams: Count
    low: Ns
    value: Ns | None
    high: Ns


class PredictionDocument(TypedDict):
    """Predicted gain from CUDA graphs for an eager step."""

    trace: str
    verdict: Sentence
    outcome: str
    calibration: CalibrationDocument
    eager_step: EagerStepDocument
    graphed_step: EstimateDocument
    graphed_interval: EstimateDocument
    speedup: EstimateDocument | None
    saving: EstimateDocument | None
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
    machine = prediction.calibration.environment
    modules = prediction.modules
    return {
        "trace": prediction.source,
        "verdict": format_prediction_verdict(prediction),
        "outcome": prediction.recommendation.value,
        "calibration": {
            "shipped": shipped,
            "gpu": prediction.calibration.gpu.name,
            "driver": machine.driver,
            "torch": machine.torch,
            "recorded": prediction.calibration.recorded,
            "workloads": len(prediction.calibration.samples),
            "checks": len(prediction.calibration.checks),
        },
        "eager_step": {
            "value": simplify_number(prediction.eager_ns),
            "basis": prediction.eager_side.value,
        },
        "graphed_step": _build_estimate_document(prediction.step_ns),
        "graphed_interval": _build_estimate_document(prediction.interval_ns),
        "speedup": _build_optional_estimate(prediction.speedup),
        "saving": _build_optional_estimate(prediction.saving_ns),
        "on_streams": [
            {
                "streams": bounds.streams,
                "low": round(bounds.low_ns),
                "value": simplify_number(bounds.value_ns),
                "high": round(bounds.high_ns),
            }
            for bounds in compute_eager_bounds(prediction)
        ],
        "speedup_reason": get_reason(prediction.speedup),
        "idle": _build_idle_document(prediction),
        "one_off": {
            "total": simplify_number(prediction.one_off_ns),
            "parts": [{"part": name, "ns": simplify_number(ns)} for name, ns in prediction.one_off],
        },
        "break_even": _build_optional_estimate(prediction.break_even),
        "break_even_reason": get_reason(prediction.break_even),
        "breakdown": _build_reasons_document(prediction),
        "blockers": [build_blocker_document(blocker) for blocker in prediction.blockers],
        "not_checked": list(list_unchecked(prediction)),
        "modules": None
        if isinstance(modules, Missing)
        else [_build_module_document(module) for module in modules.modules],
        "module_source": None if isinstance(modules, Missing) else modules.source,
        "modules_reason": modules.reason if isinstance(modules, Missing) else None,
        "integrity": build_integrity_document(prediction.step.integrity),
        "warnings": list(list_warnings(prediction)),
    }


def _build_idle_document(prediction: Prediction) -> IdleDocument:
    idle = prediction.idle
    return {
        "total": round(idle.total_ns),
        "remaining": round(prediction.remaining_idle_ns),
        "parts": [
            {
                "cause": part.cause.value,
                "ns": round(part.ns),
                "share": part.ns / idle.total_ns,
                "removed": part.cause is IdleCause.LAUNCHING,
                "main_contributor": part.source,
            }
            for part in idle.parts
        ],
    }


def _build_reasons_document(prediction: Prediction) -> ReasonsDocument:
    step, replay = prediction.step, prediction.replay
    return {
        "kernels": step.count("kernel"),
        "copies": step.count("memcpy"),
        "sets": step.count("memset"),
        "streams": step.stream_count,
        "steps": len(step.steps),
        "matching_steps": len(step.matching),
        "step_method": step.method.value,
        "traced_step": step.step_ns,
        "busy": step.busy_ns,
        "work": step.work_ns,
        "idle": simplify_number(prediction.idle_ns),
        "replay": {
            "work": round(replay.work_ns),
            "contention_time": round(replay.slowed_ns),
            "power_limit": round(replay.heat_ns),
            "fixed": round(replay.fixed_ns),
            "random": round(replay.random_ns),
            "gaps": [
                {"term": term.value, "count": count, "ns": round(ns)}
                for term, count, ns in replay.gaps
            ],
        },
    }


def build_blocker_document(blocker: Blocker) -> BlockerDocument:
    """Build the document of a capture blocker."""
    return {
        "rule": blocker.rule.id.value,
        "title": blocker.rule.title,
        "severity": blocker.rule.severity.value,
        "certain": blocker.certain,
        "op": blocker.op,
        "module": blocker.module,
        "source": blocker.source,
        "observation": format_evidence(blocker.evidence),
        "count_per_step": blocker.count,
        "cpu_time": blocker.cpu_ns,
        "steps": blocker.steps,
        "advice": blocker.rule.advice,
    }


def _build_module_document(module: ModulePrediction) -> ModuleDocument:
    return {
        "name": module.name or None,
        "kernels": module.kernels,
        "eager": round(module.eager_ns),
        "busy": round(module.busy_ns),
        "graphs": module.graphs,
        "graphed": round(module.graphed_ns),
        "saving": round(module.saving_ns),
        "blockers": module.blockers,
    }


def _build_optional_estimate(value: Estimate | Missing) -> EstimateDocument | None:
    return None if isinstance(value, Missing) else _build_estimate_document(value)


def _build_estimate_document(value: Estimate) -> EstimateDocument:
    return {
        "value": simplify_number(value.value),
        "low": simplify_number(value.low),
        "high": simplify_number(value.high),
    }
