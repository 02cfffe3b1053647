"""JSON of the difference between two steps, in ns (docs/reference/json.md)."""

from __future__ import annotations

from msgspec import field

from graphviz_dash.analysis.step_comparison.typical_step import TypicalStep
from graphviz_dash.analysis.step_comparison.waterfall import CompileSavings, StepShare, Waterfall
from graphviz_dash.exports.documents.values import Count, Document, Fraction, Ns, Ratio, build


class CauseTimesDocument(Document, frozen=True):
    """Times by cause, in ns."""

    gaps: Ns
    kernels: Ns
    copies: Ns
    overlap: Ns
    synchronisation: Ns
    ranks: Ns
    remainder: Ns


class StepTimesDocument(Document, frozen=True):
    """A step and its parts by cause, in ns."""

    step: Ns
    gaps: Ns
    kernels: Ns
    copies: Ns
    overlap: Ns
    synchronisation: Ns
    ranks: Ns
    remainder: Ns


class SavedTimesDocument(Document, frozen=True):
    """Savings in total and by cause, in ns."""

    total: Ns
    gaps: Ns
    kernels: Ns
    copies: Ns
    overlap: Ns
    synchronisation: Ns
    ranks: Ns
    remainder: Ns


class ScalesDocument(Document, frozen=True):
    """Factors applied to the CPU timestamps of each side."""

    before: Ratio
    after: Ratio


class WorkCountsDocument(Document, frozen=True):
    """Number of work items on each side."""

    before: Count
    after: Count


class ShareDocument(Document, frozen=True):
    """Contribution of a module or an operator."""

    label: str
    saved: SavedTimesDocument
    before: CauseTimesDocument
    after: CauseTimesDocument
    work: WorkCountsDocument


class PairedStepDocument(Document, frozen=True):
    """The typical step of one side and the number of traced steps behind it."""

    matching_steps: Count
    traced_steps: Count
    work: Count


class PairedStepsDocument(Document, frozen=True):
    """The typical steps of both sides."""

    before: PairedStepDocument
    after: PairedStepDocument


class PairsDocument(Document, frozen=True):
    """Pairing of the work of both steps."""

    counts: dict[str, Count]
    methods: dict[str, Count]
    steps: PairedStepsDocument


class WaterfallDocument(Document, frozen=True):
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


class CompilePartsDocument(Document, frozen=True):
    """Savings from compiling and from graphs, which add up to the total."""

    run_without_graphs: str = field(name="without_graphs")
    compilation: SavedTimesDocument = field(name="compiling")
    graphs: SavedTimesDocument


def build_waterfall_document(waterfall: Waterfall) -> WaterfallDocument:
    """Build the document of a step-time difference, in ns."""
    before_ns, after_ns, pairs = waterfall.before_ns, waterfall.after_ns, waterfall.pairs
    before_scale, after_scale = waterfall.scales
    return build(
        WaterfallDocument,
        waterfall,
        before=build(StepTimesDocument, waterfall.before, step=before_ns),
        after=build(StepTimesDocument, waterfall.after, step=after_ns),
        saved=build(StepTimesDocument, waterfall.saved, step=before_ns - after_ns),
        scales=build(ScalesDocument, before=before_scale, after=after_scale),
        modules=[_build_share_document(share) for share in waterfall.modules],
        operators=[_build_share_document(share) for share in waterfall.operators],
        pairs=build(
            PairsDocument,
            pairs,
            steps=build(
                PairedStepsDocument,
                before=_build_paired_step_document(pairs.before),
                after=_build_paired_step_document(pairs.after),
            ),
        ),
    )


def _build_paired_step_document(step: TypicalStep) -> PairedStepDocument:
    return build(PairedStepDocument, step, work=len(step.items))


def _build_share_document(share: StepShare) -> ShareDocument:
    before, after = share.items
    return build(ShareDocument, share, work=build(WorkCountsDocument, before=before, after=after))


def build_compile_parts_document(parts: CompileSavings) -> CompilePartsDocument:
    """Build the savings from compiling and from graphs, in ns."""
    return build(CompilePartsDocument, parts)
