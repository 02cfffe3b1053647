"""Build the JSON of ``graphviz-dash ladder`` (docs/reference/json.md), in ns and bytes."""

from __future__ import annotations

import math
from typing import TypedDict

from graphviz_dash.analysis.loop.family_report import FamilyReport, LoopReport
from graphviz_dash.exports.documents.values import (
    Bytes,
    Count,
    Fraction,
    Ns,
    Sentence,
    get_reason,
    simplify_number,
)
from graphviz_dash.features.ladder.analysis.coverage import Coverage
from graphviz_dash.features.ladder.analysis.ladder_advice import LadderAdvice
from graphviz_dash.features.ladder.analysis.ladder_problem import LadderCost
from graphviz_dash.features.ladder.narrative import (
    describe_advice,
    describe_ceiling,
    describe_coverage,
    describe_eager_steps,
    list_size_options,
)
from graphviz_dash.model.absence import Missing


class MemberDocument(TypedDict):
    """A graph of a family, or its segments, and its cost."""

    key: list[int] | None
    method: str | None
    size: int | None
    graphs: list[str]
    steps: Count
    gpu_time: Ns | None
    gpu_samples: Count
    capture_time: Ns
    first_launch_time: Ns | None
    own_memory: Bytes | None
    pool_growth: Bytes | None
    executable_memory: Bytes | None


class SizeLossDocument(TypedDict):
    """Total padding and fallback cost of the requests of one real size; null if no fallback was
    timed.
    """

    size: int
    requests: Count
    fallbacks: Count
    padding: Ns
    fallback: Ns | None


class LadderUseDocument(TypedDict):
    """A set of sizes and its totals for the requests; null times are unknown."""

    sizes: list[int]
    time: Ns | None
    padding: Ns
    fallback: Ns | None
    fallbacks: Count
    memory: Bytes
    startup: Ns
    rate: float | None


class GainDocument(TypedDict):
    """Saving of the best ladder in the requests' time, with its 95% interval."""

    value: Ns | None
    low: Ns
    high: Ns | None


class CeilingDocument(TypedDict):
    """Largest size of the best ladder, and the requests above it."""

    size: int
    replay_time: Ns | None
    above_time: Ns | None
    requests_above: Count
    largest_request: int
    raised_time: Ns | None
    raised_gain: Ns | None


class AdviceDocument(TypedDict):
    """The best ladder within the budget, next to the current one."""

    graphs: Count | None
    memory: Bytes | None
    startup: Ns | None
    requests: Count
    current: LadderUseDocument
    best: LadderUseDocument
    lower_bound: Ns
    interpolated: list[int]
    gain: GainDocument
    is_significant: bool
    ceiling: CeilingDocument
    by_count: list[tuple[Count, Ns]]
    sentence: Sentence
    ceiling_sentence: Sentence


class StepModeDocument(TypedDict):
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
    time_share: Fraction | None


class CoverageDocument(TypedDict):
    """Sizes that would cover the requests above the largest graph; the gain is per such request."""

    new_sizes: list[int]
    requests_above: Count
    gain: Ns | None
    gain_share: Fraction | None
    memory: Bytes
    startup: Ns
    options: list[str]
    sentence: Sentence


class LadderDocument(TypedDict):
    """A graph family of a recorded program, and the recommended capture sizes."""

    run: str
    engine: str | None
    modes: list[StepModeDocument]
    eager_sentences: list[Sentence]
    family: str
    axes: list[str]
    families: list[str]
    members: list[MemberDocument]
    real_sizes: dict[str, Count]
    losses: list[SizeLossDocument]
    step_time: Ns | None
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
    return {
        "run": report.run,
        "engine": report.engine,
        "modes": _build_modes(report),
        "eager_sentences": list(describe_eager_steps(report)),
        "family": family.family.name,
        "axes": list(family.family.axes),
        "families": [other.family.name for other in report.families],
        "members": _build_members(family),
        "real_sizes": {how.value: count for how, count in family.real_sizes},
        "losses": _build_losses(family),
        "step_time": simplify_number(family.step_ns),
        "traffic": traffic,
        "advice": None if isinstance(advice, Missing) else _build_advice(advice),
        "options": []
        if isinstance(advice, Missing)
        else list_size_options(report, family, advice.ladder.sizes),
        "coverage": None if coverage is None else _build_coverage(report, family, coverage),
        "reason": get_reason(advice),
    }


def _build_modes(report: LoopReport) -> list[StepModeDocument]:
    names = {family.index: family.family.name for family in report.families}
    return [
        {
            "phase": mode.phase and mode.phase.value,
            "kind": mode.kind.value,
            "family": None if mode.family is None else names[mode.family],
            "steps": mode.steps,
            "sizes": mode.sizes,
            "steps_above": mode.steps_above,
            "requests": mode.requests,
            "time_share": mode.time_share,
        }
        for mode in report.modes
    ]


def _build_coverage(
    report: LoopReport, family: FamilyReport, coverage: Coverage
) -> CoverageDocument:
    sizes = sorted(
        {member.size for member in family.members if member.size} | {*coverage.new_sizes}
    )
    return {
        "new_sizes": list(coverage.new_sizes),
        "requests_above": coverage.requests_above,
        "gain": simplify_number(coverage.gain_ns),
        "gain_share": coverage.gain_share,
        "memory": round(coverage.memory_bytes),
        "startup": round(coverage.startup_ns),
        "options": list_size_options(report, family, sizes),
        "sentence": describe_coverage(family, coverage),
    }


def _build_members(family: FamilyReport) -> list[MemberDocument]:
    return [
        {
            "key": None if member.member.key is None else list(member.member.key),
            "method": member.member.method and member.member.method.value,
            "size": member.size,
            "graphs": list(member.member.graphs),
            "steps": member.steps,
            "gpu_time": simplify_number(member.gpu.median) if member.gpu else None,
            "gpu_samples": len(member.gpu_ns),
            "capture_time": member.capture_ns,
            "first_launch_time": member.first_launch_ns,
            "own_memory": member.exclusive_bytes,
            "pool_growth": member.pool_added_bytes,
            "executable_memory": member.executable_bytes,
        }
        for member in family.members
    ]


def _build_losses(family: FamilyReport) -> list[SizeLossDocument]:
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


def _build_advice(advice: LadderAdvice) -> AdviceDocument:
    ceiling = advice.ceiling
    return {
        "graphs": advice.budget.graphs,
        "memory": advice.budget.memory_bytes,
        "startup": advice.budget.startup_ns,
        "requests": advice.requests,
        "current": _build_use(advice, advice.current_sizes, advice.current_use),
        "best": _build_use(advice, advice.ladder.sizes, advice.use),
        "lower_bound": round(advice.ladder.bound_ns),
        "interpolated": list(advice.interpolated),
        "gain": {
            "value": _round_finite(advice.gain_ns),
            "low": round(advice.gain_interval.low),
            "high": None
            if advice.gain_interval.high is None
            else _round_finite(advice.gain_interval.high),
        },
        "is_significant": advice.is_better,
        "ceiling": {
            "size": ceiling.size,
            "replay_time": simplify_number(ceiling.replay_ns),
            "above_time": simplify_number(ceiling.fallback_ns),
            "requests_above": ceiling.requests_above,
            "largest_request": ceiling.largest_request,
            "raised_time": simplify_number(ceiling.extended_ns),
            "raised_gain": simplify_number(ceiling.extended_gain_ns),
        },
        "by_count": [(count, round(time)) for count, time in advice.curve],
        "sentence": describe_advice(advice),
        "ceiling_sentence": describe_ceiling(advice),
    }


def _build_use(advice: LadderAdvice, sizes: tuple[int, ...], use: LadderCost) -> LadderUseDocument:
    return {
        "sizes": list(sizes),
        "time": _round_finite(use.total_ns),
        "padding": round(use.padding_ns),
        "fallback": _round_finite(use.fallback_ns),
        "fallbacks": round(use.fallbacks),
        "memory": round(use.memory_bytes),
        "startup": round(use.startup_ns),
        "rate": advice.compute_throughput(use),
    }


def _round_finite(value: float) -> int | None:
    return round(value) if math.isfinite(value) else None
