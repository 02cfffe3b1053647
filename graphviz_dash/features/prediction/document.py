"""The JSON of a prediction (docs/reference/json.md): nanoseconds, counts and ratios."""

from __future__ import annotations

from typing import TypedDict

from graphviz_dash.analysis.prediction.capture_blockers import Blocker
from graphviz_dash.analysis.prediction.idle_time import IdleCause
from graphviz_dash.analysis.prediction.module_prediction import ModulePrediction
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.analysis.prediction.uncertainty import Estimate
from graphviz_dash.exports.documents.values import (
    Count,
    Fraction,
    Ns,
    Sentence,
    number,
    reason_of,
)
from graphviz_dash.features.prediction.analysis.eager_bounds import eager_bounds
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.prediction import (
    not_checked_texts,
    prediction_verdict,
    seen_text,
    warning_texts,
)


class EstimateDocument(TypedDict):
    """A value with its 90% interval; no ``low`` and ``high`` where there is none, no ``high`` where
    it may be endless."""

    value: float
    low: float | None
    high: float | None


class CalibrationDocument(TypedDict):
    """The calibration that the prediction rests on."""

    shipped: bool
    gpu: str
    driver: str | None
    torch: str | None
    recorded: str
    workloads: Count
    checks: Count


class EagerStepDocument(TypedDict):
    """The eager step, and which of CPU and GPU bounds it."""

    value: Ns
    side: str


class CostPartDocument(TypedDict):
    """A part of a cost."""

    part: str
    ns: Ns


class OneOffDocument(TypedDict):
    """What a graph costs once."""

    total: Ns
    parts: list[CostPartDocument]


class IdlePartDocument(TypedDict):
    """A cause of idle time of the GPU; ``removed`` says whether a graph removes it, ``by`` what
    most of it lies in."""

    cause: str
    ns: Ns
    share: Fraction
    removed: bool
    by: str | None


class IdleDocument(TypedDict):
    """The idle time of the GPU in a traced step by its causes; ``kept`` is what of the eager step
    would remain."""

    total: Ns
    kept: Ns
    parts: list[IdlePartDocument]


class GapTermDocument(TypedDict):
    """Gaps of one kind in a replay: how many, and their time in all."""

    term: str
    count: Count
    ns: Ns


class ReplayDocument(TypedDict):
    """The predicted replay in parts, in ns."""

    work: Ns
    slowed: Ns
    heat: Ns
    fixed: Ns
    random: Ns
    gaps: list[GapTermDocument]


class ReasonsDocument(TypedDict):
    """The numbers that the prediction rests on."""

    kernels: Count
    copies: Count
    sets: Count
    streams: Count
    steps: Count
    like_steps: Count
    step_method: str
    traced_step: Ns
    busy: Ns
    work: Ns
    idle: Ns
    replay: ReplayDocument


class BlockerDocument(TypedDict):
    """What would stop a capture, or make replays wrong."""

    rule: str
    title: Sentence
    severity: str
    certain: bool
    op: str | None
    module: str | None
    source: str | None
    seen: str
    per_step: Count
    cpu: Ns | None
    in_steps: Count
    advice: Sentence


class ModuleDocument(TypedDict):
    """A module as graphs of its own; times in ns."""

    name: str | None
    kernels: Count
    eager: Ns
    busy: Ns
    graphs: Count
    graphed: Ns
    saving: Ns
    blockers: Count


class EagerBoundsDocument(TypedDict):
    """Between what the graph would take on several streams: ``low`` if nothing needed anything,
    ``value`` by what is known to be independent."""

    streams: Count
    low: Ns
    value: Ns | None
    high: Ns


class PredictionDocument(TypedDict):
    """What CUDA graphs would gain for an eager step."""

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
    reasons: ReasonsDocument
    blockers: list[BlockerDocument]
    not_told: list[Sentence]
    modules: list[ModuleDocument] | None
    modules_by: str | None
    modules_reason: Sentence | None
    warnings: list[Sentence]


def prediction_document(prediction: Prediction, shipped: bool) -> PredictionDocument:
    """A prediction with its reasons; ``shipped`` says whose calibration it rests on."""
    machine = prediction.calibration.environment
    modules = prediction.modules
    return {
        "trace": prediction.source,
        "verdict": prediction_verdict(prediction),
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
        "eager_step": {"value": number(prediction.eager_ns), "side": prediction.eager_side.value},
        "graphed_step": _estimate_document(prediction.step_ns),
        "graphed_interval": _estimate_document(prediction.interval_ns),
        "speedup": _optional(prediction.speedup),
        "saving": _optional(prediction.saving_ns),
        "on_streams": [
            {
                "streams": bounds.streams,
                "low": round(bounds.low_ns),
                "value": number(bounds.value_ns),
                "high": round(bounds.high_ns),
            }
            for bounds in eager_bounds(prediction)
        ],
        "speedup_reason": reason_of(prediction.speedup),
        "idle": _idle_document(prediction),
        "one_off": {
            "total": number(prediction.one_off_ns),
            "parts": [{"part": name, "ns": number(ns)} for name, ns in prediction.one_off],
        },
        "break_even": _optional(prediction.break_even),
        "break_even_reason": reason_of(prediction.break_even),
        "reasons": _reasons_document(prediction),
        "blockers": [blocker_document(blocker) for blocker in prediction.blockers],
        "not_told": list(not_checked_texts(prediction)),
        "modules": None
        if isinstance(modules, Missing)
        else [_module_document(module) for module in modules.modules],
        "modules_by": None if isinstance(modules, Missing) else modules.by,
        "modules_reason": modules.reason if isinstance(modules, Missing) else None,
        "warnings": list(warning_texts(prediction)),
    }


def _idle_document(prediction: Prediction) -> IdleDocument:
    idle = prediction.idle
    return {
        "total": round(idle.total_ns),
        "kept": round(prediction.kept_ns),
        "parts": [
            {
                "cause": part.cause.value,
                "ns": round(part.ns),
                "share": part.ns / idle.total_ns,
                "removed": part.cause is IdleCause.LAUNCHING,
                "by": part.by,
            }
            for part in idle.parts
        ],
    }


def _reasons_document(prediction: Prediction) -> ReasonsDocument:
    step, replay = prediction.step, prediction.replay
    return {
        "kernels": step.count("kernel"),
        "copies": step.count("memcpy"),
        "sets": step.count("memset"),
        "streams": step.streams,
        "steps": len(step.steps),
        "like_steps": len(step.matching),
        "step_method": step.method.value,
        "traced_step": step.step_ns,
        "busy": step.busy_ns,
        "work": step.work_ns,
        "idle": number(prediction.idle_ns),
        "replay": {
            "work": round(replay.work_ns),
            "slowed": round(replay.slowed_ns),
            "heat": round(replay.heat_ns),
            "fixed": round(replay.fixed_ns),
            "random": round(replay.random_ns),
            "gaps": [
                {"term": term.value, "count": count, "ns": round(ns)}
                for term, count, ns in replay.gaps
            ],
        },
    }


def blocker_document(blocker: Blocker) -> BlockerDocument:
    """What would stop a capture, by the rules of the doctor."""
    return {
        "rule": blocker.rule.id.value,
        "title": blocker.rule.title,
        "severity": blocker.rule.severity.value,
        "certain": blocker.certain,
        "op": blocker.op,
        "module": blocker.module,
        "source": blocker.source,
        "seen": seen_text(blocker.seen),
        "per_step": blocker.count,
        "cpu": blocker.cpu_ns,
        "in_steps": blocker.steps,
        "advice": blocker.rule.advice,
    }


def _module_document(module: ModulePrediction) -> ModuleDocument:
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


def _optional(value: Estimate | Missing) -> EstimateDocument | None:
    return None if isinstance(value, Missing) else _estimate_document(value)


def _estimate_document(value: Estimate) -> EstimateDocument:
    return {"value": number(value.value), "low": number(value.low), "high": number(value.high)}
