"""The JSON of a prediction, as docs/cli.md describes it: nanoseconds, counts and ratios."""

from __future__ import annotations

from graphviz_dash.analysis.prediction.predict import Estimate, Prediction
from graphviz_dash.exports.documents.values import number
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.prediction import (
    not_checked_texts,
    prediction_verdict,
    seen_text,
    warning_texts,
)


def prediction_document(prediction: Prediction, shipped: bool) -> dict[str, object]:
    """The whole document of ``predict --json``, less schema and version."""
    machine, step, replay = prediction.calibration.environment, prediction.step, prediction.replay
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
            "error": prediction.calibration.error,
        },
        "eager_step": {"value": number(prediction.eager_ns), "side": prediction.eager_side.value},
        "graphed_step": estimate_document(prediction.step_ns),
        "graphed_interval": estimate_document(prediction.interval_ns),
        "speedup": estimate_document(prediction.speedup),
        "saving": estimate_document(prediction.saving_ns),
        "one_off": {
            "total": number(prediction.one_off_ns),
            "parts": [{"part": name, "ns": number(ns)} for name, ns in prediction.one_off],
        },
        "break_even": None
        if isinstance(prediction.break_even, Missing)
        else estimate_document(prediction.break_even),
        "break_even_reason": prediction.break_even.reason
        if isinstance(prediction.break_even, Missing)
        else None,
        "reasons": {
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
        },
        "blockers": [
            {
                "rule": item.rule.id.value,
                "title": item.rule.title,
                "severity": item.rule.severity.value,
                "certain": item.certain,
                "op": item.op,
                "module": item.module,
                "source": item.source,
                "seen": seen_text(item.seen),
                "per_step": item.count,
                "cpu": item.cpu_ns,
                "in_steps": item.steps,
                "advice": item.rule.advice,
            }
            for item in prediction.blockers
        ],
        "not_told": list(not_checked_texts(prediction)),
        "modules": None
        if isinstance(prediction.modules, Missing)
        else [
            {
                "name": item.name or None,
                "kernels": item.kernels,
                "eager": round(item.eager_ns),
                "busy": round(item.busy_ns),
                "graphs": item.graphs,
                "graphed": round(item.graphed_ns),
                "saving": round(item.saving_ns),
                "blockers": item.blockers,
            }
            for item in prediction.modules.modules
        ],
        "modules_by": None if isinstance(prediction.modules, Missing) else prediction.modules.by,
        "modules_reason": prediction.modules.reason
        if isinstance(prediction.modules, Missing)
        else None,
        "warnings": list(warning_texts(prediction)),
    }


def estimate_document(value: Estimate | None) -> dict[str, object] | None:
    """A value with its interval."""
    if value is None:
        return None
    return {"value": number(value.value), "low": number(value.low), "high": number(value.high)}
