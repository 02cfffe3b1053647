"""The JSON of ``graphviz-dash ladder`` (docs/reference/json.md); times are ns, sizes bytes."""

from __future__ import annotations

import math
from typing import TypedDict

from graphviz_dash.analysis.loop.family_report import FamilyReport, LoopReport
from graphviz_dash.exports.documents.values import Bytes, Count, Ns, Sentence, number, reason_of
from graphviz_dash.features.ladder.analysis.ladder_advice import LadderAdvice
from graphviz_dash.features.ladder.analysis.ladder_problem import LadderUse
from graphviz_dash.features.ladder.narrative import advice_sentence, ceiling_sentence
from graphviz_dash.model.absence import Missing


class MemberDocument(TypedDict):
    """A graph of a family, or its segments, and what it costs."""

    key: list[int] | None
    method: str | None
    size: int | None
    graphs: list[str]
    steps: Count
    gpu_time: Ns | None
    gpu_samples: Count
    capture_time: Ns
    first_launch_time: Ns | None
    own: Bytes | None
    pool_added: Bytes | None
    executable: Bytes | None


class SizeLossDocument(TypedDict):
    """What requests of one real size lost to padding and to fallbacks, together; null where no
    fallback was timed."""

    size: int
    requests: Count
    fallbacks: Count
    padding: Ns
    fallback: Ns | None


class LadderUseDocument(TypedDict):
    """A ladder, and what it comes to for the requests; a time of null is not known."""

    sizes: list[int]
    time: Ns | None
    padding: Ns
    fallback: Ns | None
    fallbacks: Count
    memory: Bytes
    startup: Ns
    rate: float | None


class GainDocument(TypedDict):
    """What the best ladder saves of a request's time, with its 95% interval."""

    value: Ns | None
    low: Ns
    high: Ns | None


class CeilingDocument(TypedDict):
    """The largest size of the best ladder, and the requests above it."""

    size: int
    replay_time: Ns | None
    above_time: Ns | None
    requests_above: Count
    largest_request: int
    raised_time: Ns | None
    raised_gain: Ns | None


class AdviceDocument(TypedDict):
    """The best ladder within the budget, beside today's."""

    graphs: Count | None
    memory: Bytes | None
    startup: Ns | None
    requests: Count
    today: LadderUseDocument
    best: LadderUseDocument
    bound: Ns
    interpolated: list[int]
    gain: GainDocument
    better: bool
    ceiling: CeilingDocument
    by_count: list[tuple[Count, Ns]]
    sentence: Sentence
    ceiling_sentence: Sentence


class LadderDocument(TypedDict):
    """A family of graphs of a recorded program, and which sizes would be best to capture."""

    run: str
    family: str
    axes: list[str]
    families: list[str]
    members: list[MemberDocument]
    real_sizes: dict[str, Count]
    losses: list[SizeLossDocument]
    step_time: Ns | None
    traffic: str | None
    advice: AdviceDocument | None
    reason: Sentence | None


def ladder_document(
    report: LoopReport,
    family: FamilyReport,
    advice: LadderAdvice | Missing,
    traffic: str | None,
) -> LadderDocument:
    """The ``family`` of a loop and its best ladder; ``traffic`` names the file that the requests
    are from, None for the program's own."""
    return {
        "run": report.run,
        "family": family.family.name,
        "axes": list(family.family.axes),
        "families": [each.family.name for each in report.families],
        "members": _members(family),
        "real_sizes": {how.value: count for how, count in family.real_sizes},
        "losses": _losses(family),
        "step_time": number(family.step_ns),
        "traffic": traffic,
        "advice": None if isinstance(advice, Missing) else _advice(advice),
        "reason": reason_of(advice),
    }


def _members(family: FamilyReport) -> list[MemberDocument]:
    return [
        {
            "key": None if member.member.key is None else list(member.member.key),
            "method": member.member.method and member.member.method.value,
            "size": member.size,
            "graphs": list(member.member.graphs),
            "steps": member.steps,
            "gpu_time": number(member.gpu.median) if member.gpu else None,
            "gpu_samples": len(member.gpu_ns),
            "capture_time": member.capture_ns,
            "first_launch_time": member.first_launch_ns,
            "own": member.own_bytes,
            "pool_added": member.pool_added_bytes,
            "executable": member.executable_bytes,
        }
        for member in family.members
    ]


def _losses(family: FamilyReport) -> list[SizeLossDocument]:
    if isinstance(family.losses, Missing):
        return []
    return [
        {
            "size": loss.size,
            "requests": loss.requests,
            "fallbacks": loss.fallbacks,
            "padding": round(loss.padding_ns),
            "fallback": None if loss.fallback_ns is None else round(loss.fallback_ns),
        }
        for loss in family.losses
    ]


def _advice(advice: LadderAdvice) -> AdviceDocument:
    ceiling = advice.ceiling
    return {
        "graphs": advice.budget.graphs,
        "memory": advice.budget.memory_bytes,
        "startup": advice.budget.startup_ns,
        "requests": advice.requests,
        "today": _use(advice, advice.today, advice.today_use),
        "best": _use(advice, advice.ladder.sizes, advice.use),
        "bound": round(advice.ladder.bound_ns),
        "interpolated": list(advice.interpolated),
        "gain": {
            "value": _finite(advice.gain_ns),
            "low": round(advice.gain.low),
            "high": None if advice.gain.high is None else _finite(advice.gain.high),
        },
        "better": advice.is_better,
        "ceiling": {
            "size": ceiling.size,
            "replay_time": number(ceiling.replay_ns),
            "above_time": number(ceiling.above_ns),
            "requests_above": ceiling.requests_above,
            "largest_request": ceiling.largest_request,
            "raised_time": number(ceiling.raised_ns),
            "raised_gain": number(ceiling.raised_gain_ns),
        },
        "by_count": [(count, round(time)) for count, time in advice.curve],
        "sentence": advice_sentence(advice),
        "ceiling_sentence": ceiling_sentence(advice),
    }


def _use(advice: LadderAdvice, sizes: tuple[int, ...], use: LadderUse) -> LadderUseDocument:
    return {
        "sizes": list(sizes),
        "time": _finite(use.total_ns),
        "padding": round(use.padding_ns),
        "fallback": _finite(use.fallback_ns),
        "fallbacks": round(use.fallbacks),
        "memory": round(use.memory_bytes),
        "startup": round(use.startup_ns),
        "rate": advice.rate(use),
    }


def _finite(value: float) -> int | None:
    return round(value) if math.isfinite(value) else None
