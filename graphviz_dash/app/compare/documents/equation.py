"""The JSON of where the difference of two steps went (docs/reference/json.md), in ns."""

from __future__ import annotations

from typing import TypedDict

from graphviz_dash.analysis.comparison.compile_parts import CompileParts
from graphviz_dash.analysis.step_comparison.typical_step import TypicalStep
from graphviz_dash.analysis.step_comparison.waterfall import CauseTimes, StepShare, Waterfall
from graphviz_dash.exports.documents.values import Count, Fraction, Ns, Ratio


class CauseTimesDocument(TypedDict):
    """Times by cause, in ns."""

    gaps: Ns
    kernels: Ns
    copies: Ns
    overlap: Ns
    synchronisation: Ns
    ranks: Ns
    remainder: Ns


class StepTimesDocument(TypedDict):
    """A step and its parts by cause, in ns."""

    step: Ns
    gaps: Ns
    kernels: Ns
    copies: Ns
    overlap: Ns
    synchronisation: Ns
    ranks: Ns
    remainder: Ns


class SavedTimesDocument(TypedDict):
    """What was saved in all and by cause, in ns."""

    total: Ns
    gaps: Ns
    kernels: Ns
    copies: Ns
    overlap: Ns
    synchronisation: Ns
    ranks: Ns
    remainder: Ns


class ScalesDocument(TypedDict):
    """By what the instants of the CPU were scaled on each side."""

    before: Ratio
    after: Ratio


class WorkCountsDocument(TypedDict):
    """Pieces of work on each side."""

    before: Count
    after: Count


class ShareDocument(TypedDict):
    """What a module or an operator has of the equation."""

    label: str
    saved: SavedTimesDocument
    before: CauseTimesDocument
    after: CauseTimesDocument
    work: WorkCountsDocument


class PairedStepDocument(TypedDict):
    """The typical step of a side: on how many traced steps it rests."""

    like: Count
    taken: Count
    work: Count


class PairedStepsDocument(TypedDict):
    """The typical steps of both sides."""

    before: PairedStepDocument
    after: PairedStepDocument


class PairsDocument(TypedDict):
    """How the work of both steps was paired."""

    counts: dict[str, Count]
    methods: dict[str, Count]
    steps: PairedStepsDocument


class WaterfallDocument(TypedDict):
    """The equation: ``saved`` is ``before`` less ``after`` by cause; ``basis`` is ``clean`` or
    ``traced``, for steps without a profiler and under one."""

    baseline: str
    basis: str
    before: StepTimesDocument
    after: StepTimesDocument
    saved: StepTimesDocument
    remainder_share: Fraction
    scales: ScalesDocument
    modules: list[ShareDocument]
    operators: list[ShareDocument]
    pairs: PairsDocument


class CompilePartsDocument(TypedDict):
    """What compiling saved and what graphs saved on top, which add up to the equation."""

    without_graphs: str
    compiling: SavedTimesDocument
    graphs: SavedTimesDocument


def waterfall_document(waterfall: Waterfall) -> WaterfallDocument:
    """The equation, in ns: ``saved`` is ``before`` less ``after`` by cause."""
    return {
        "baseline": waterfall.baseline,
        "basis": waterfall.basis.value,
        "before": {"step": waterfall.before_ns, **_by_cause(waterfall.before)},
        "after": {"step": waterfall.after_ns, **_by_cause(waterfall.after)},
        "saved": {"step": waterfall.before_ns - waterfall.after_ns, **_by_cause(waterfall.saved)},
        "remainder_share": waterfall.remainder_share,
        "scales": {"before": waterfall.scales[0], "after": waterfall.scales[1]},
        "modules": [_share_document(share) for share in waterfall.modules],
        "operators": [_share_document(share) for share in waterfall.operators],
        "pairs": {
            "counts": {kind.value: count for kind, count in waterfall.pairs.counts.items()},
            "methods": waterfall.pairs.methods,
            "steps": {
                "before": _paired_step_document(waterfall.pairs.before),
                "after": _paired_step_document(waterfall.pairs.after),
            },
        },
    }


def _paired_step_document(step: TypicalStep) -> PairedStepDocument:
    return {"like": step.matching_steps, "taken": step.traced_steps, "work": len(step.items)}


def _share_document(share: StepShare) -> ShareDocument:
    return {
        "label": share.label,
        "saved": {"total": share.saved.total, **_by_cause(share.saved)},
        "before": _by_cause(share.before),
        "after": _by_cause(share.after),
        "work": {"before": share.items[0], "after": share.items[1]},
    }


def _by_cause(times: CauseTimes) -> CauseTimesDocument:
    return {
        "gaps": times.gaps,
        "kernels": times.kernels,
        "copies": times.copies,
        "overlap": times.overlap,
        "synchronisation": times.synchronisation,
        "ranks": times.ranks,
        "remainder": times.remainder,
    }


def compile_parts_document(parts: CompileParts) -> CompilePartsDocument:
    """What compiling and what graphs saved, by cause, in ns."""
    return {
        "without_graphs": parts.without_graphs,
        "compiling": {"total": parts.compiling.total, **_by_cause(parts.compiling)},
        "graphs": {"total": parts.graphs.total, **_by_cause(parts.graphs)},
    }
