"""Build the JSON of the difference between two steps, in ns (docs/reference/json.md)."""

from __future__ import annotations

from typing import TypedDict

from graphviz_dash.analysis.comparison.compile_parts import CompileSavings
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
    """Savings in total and by cause, in ns."""

    total: Ns
    gaps: Ns
    kernels: Ns
    copies: Ns
    overlap: Ns
    synchronisation: Ns
    ranks: Ns
    remainder: Ns


class ScalesDocument(TypedDict):
    """Factors applied to the CPU timestamps of each side."""

    before: Ratio
    after: Ratio


class WorkCountsDocument(TypedDict):
    """Number of work items on each side."""

    before: Count
    after: Count


class ShareDocument(TypedDict):
    """Contribution of a module or an operator."""

    label: str
    saved: SavedTimesDocument
    before: CauseTimesDocument
    after: CauseTimesDocument
    work: WorkCountsDocument


class PairedStepDocument(TypedDict):
    """The typical step of one side and the number of traced steps behind it."""

    matching_steps: Count
    traced_steps: Count
    work: Count


class PairedStepsDocument(TypedDict):
    """The typical steps of both sides."""

    before: PairedStepDocument
    after: PairedStepDocument


class PairsDocument(TypedDict):
    """Pairing of the work of both steps."""

    counts: dict[str, Count]
    methods: dict[str, Count]
    steps: PairedStepsDocument


class WaterfallDocument(TypedDict):
    """Step time before and after, by cause; ``saved`` is ``before`` minus ``after``.

    ``basis`` is ``clean`` for unprofiled steps or ``traced`` for profiled ones.
    """

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
    """Savings from compiling and from graphs, which add up to the total."""

    without_graphs: str
    compiling: SavedTimesDocument
    graphs: SavedTimesDocument


def build_waterfall_document(waterfall: Waterfall) -> WaterfallDocument:
    """Build the document of a step-time difference, in ns."""
    return {
        "baseline": waterfall.baseline,
        "basis": waterfall.basis.value,
        "before": {"step": waterfall.before_ns, **_build_cause_times(waterfall.before)},
        "after": {"step": waterfall.after_ns, **_build_cause_times(waterfall.after)},
        "saved": {
            "step": waterfall.before_ns - waterfall.after_ns,
            **_build_cause_times(waterfall.saved),
        },
        "remainder_share": waterfall.remainder_share,
        "scales": {"before": waterfall.scales[0], "after": waterfall.scales[1]},
        "modules": [_build_share_document(share) for share in waterfall.modules],
        "operators": [_build_share_document(share) for share in waterfall.operators],
        "pairs": {
            "counts": {kind.value: count for kind, count in waterfall.pairs.counts.items()},
            "methods": waterfall.pairs.methods,
            "steps": {
                "before": _build_paired_step_document(waterfall.pairs.before),
                "after": _build_paired_step_document(waterfall.pairs.after),
            },
        },
    }


def _build_paired_step_document(step: TypicalStep) -> PairedStepDocument:
    return {
        "matching_steps": step.matching_steps,
        "traced_steps": step.traced_steps,
        "work": len(step.items),
    }


def _build_share_document(share: StepShare) -> ShareDocument:
    return {
        "label": share.label,
        "saved": {"total": share.saved.total, **_build_cause_times(share.saved)},
        "before": _build_cause_times(share.before),
        "after": _build_cause_times(share.after),
        "work": {"before": share.items[0], "after": share.items[1]},
    }


def _build_cause_times(times: CauseTimes) -> CauseTimesDocument:
    return {
        "gaps": times.gaps,
        "kernels": times.kernels,
        "copies": times.copies,
        "overlap": times.overlap,
        "synchronisation": times.synchronisation,
        "ranks": times.ranks,
        "remainder": times.remainder,
    }


def build_compile_parts_document(parts: CompileSavings) -> CompilePartsDocument:
    """Build the savings from compiling and from graphs, in ns."""
    return {
        "without_graphs": parts.run_without_graphs,
        "compiling": {"total": parts.compilation.total, **_build_cause_times(parts.compilation)},
        "graphs": {"total": parts.graphs.total, **_build_cause_times(parts.graphs)},
    }
