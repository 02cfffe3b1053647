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


def prediction_document(found: Prediction, shipped: bool) -> dict[str, object]:
    """The whole document of ``predict --json``, less schema and version."""
    machine, step, replay = found.calibration.environment, found.step, found.replay
    return {
        "trace": found.source,
        "verdict": prediction_verdict(found),
        "outcome": found.recommendation.value,
        "calibration": {
            "shipped": shipped,
            "gpu": found.calibration.gpu.name,
            "driver": machine.driver,
            "torch": machine.torch,
            "recorded": found.calibration.recorded,
            "workloads": len(found.calibration.samples),
            "error": found.calibration.error,
        },
        "eager_step": {"value": number(found.eager_ns), "side": found.eager_side.value},
        "graphed_step": estimate_document(found.step_ns),
        "graphed_interval": estimate_document(found.interval_ns),
        "speedup": estimate_document(found.speedup),
        "saving": estimate_document(found.saving_ns),
        "one_off": {
            "total": number(found.one_off_ns),
            "parts": [{"part": name, "ns": number(ns)} for name, ns in found.one_off],
        },
        "break_even": None
        if isinstance(found.break_even, Missing)
        else estimate_document(found.break_even),
        "break_even_reason": found.break_even.reason
        if isinstance(found.break_even, Missing)
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
            "idle": number(found.idle_ns),
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
                "rule": one.rule.id.value,
                "title": one.rule.title,
                "severity": one.rule.severity.value,
                "certain": one.certain,
                "op": one.op,
                "module": one.module,
                "source": one.source,
                "seen": seen_text(one.seen),
                "per_step": one.count,
                "cpu": one.cpu_ns,
                "in_steps": one.steps,
                "advice": one.rule.advice,
            }
            for one in found.blockers
        ],
        "not_told": list(not_checked_texts(found)),
        "modules": None
        if isinstance(found.modules, Missing)
        else [
            {
                "name": one.name or None,
                "kernels": one.kernels,
                "eager": round(one.eager_ns),
                "busy": round(one.busy_ns),
                "graphs": one.graphs,
                "graphed": round(one.graphed_ns),
                "saving": round(one.saving_ns),
                "blockers": one.blockers,
            }
            for one in found.modules
        ],
        "modules_by": found.modules_by,
        "modules_reason": found.modules.reason if isinstance(found.modules, Missing) else None,
        "warnings": list(warning_texts(found)),
    }


def estimate_document(value: Estimate | None) -> dict[str, object] | None:
    """A value with its interval."""
    if value is None:
        return None
    return {"value": number(value.value), "low": number(value.low), "high": number(value.high)}
