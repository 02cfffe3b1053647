"""JSON of a comparison.

Values are raw: nanoseconds, bytes, counts, fractions of one. A missing value is null and has a
reason. docs/reference/json.md describes the fields.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import field

from graphviz_dash.analysis.comparison.break_even import BreakEven
from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.metrics.kernel_table import KernelRow, KernelTable
from graphviz_dash.analysis.ranks.ranks import ModeRanks
from graphviz_dash.app.compare.documents.equation import (
    CompilePartsDocument,
    WaterfallDocument,
    build_compile_parts_document,
    build_waterfall_document,
)
from graphviz_dash.app.compare.documents.run import (
    IdentityDocument,
    TimeByCategoryDocument,
    UnseenGraphsDocument,
    WeaknessDocument,
    build_run,
    build_time_breakdown,
    build_unseen_graphs_document,
    build_weakness_documents,
)
from graphviz_dash.exports.documents.figures import (
    ExperimentDocument,
    FigureDocument,
    build_figures_document,
)
from graphviz_dash.exports.documents.integrity import IntegrityDocument, build_integrity_document
from graphviz_dash.exports.documents.values import (
    Count,
    Document,
    Fraction,
    Ns,
    Number,
    Sentence,
    build,
    display_path,
    drop_missing,
    get_reason,
)
from graphviz_dash.features.prediction.document import PredictionDocument, build_prediction_document
from graphviz_dash.features.prediction.stream_document import (
    ParallelPlanDocument,
    build_plan_document,
)
from graphviz_dash.features.ranks.document import ModeRanksDocument, build_ranks_document
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.narrative.answer import build_run_answer, format_parts
from graphviz_dash.narrative.headline import build_headline, describe_run


class CostDocument(Document, frozen=True):
    """A part of the one-time cost."""

    part: str
    ns: Ns


class SavingDocument(Document, frozen=True):
    """Saving per replay with its 95% interval."""

    value: Ns
    low: Ns
    high: Ns


class ReplaysDocument(Document, frozen=True):
    """Replays needed to pay back the cost; ``high`` is null if that may never happen."""

    value: Count
    low: Count
    high: Count | None


class SavedByReplaysDocument(Document, frozen=True):
    """Saving after this many replays, net of the one-time cost."""

    replays: Count
    low: Ns
    saved: Ns
    high: Ns


class BreakEvenDocument(Document, frozen=True):
    """One-time cost of a run and the number of replays that pay it back."""

    one_off_ns: Ns = field(name="one_off")
    parts: list[CostDocument]
    warm_up_ns: Ns = field(name="warm_up")
    saving: SavingDocument
    replays: ReplaysDocument
    replays_without_warmup: Count = field(name="replays_with_warm_up")
    curve: list[SavedByReplaysDocument]


class ScoredPredictionDocument(Document, frozen=True):
    """Prediction from the eager run alone, next to the measurement."""

    predicted: Ns
    low: Ns | None
    high: Ns | None
    measured: Ns | None
    error: Fraction | None


class NotCapturedDocument(Document, frozen=True):
    """Work of one operator outside any graph, per traced step."""

    reason: str
    operator: str | None
    count: Number
    total_ns: Ns = field(name="total")
    share: Fraction


class CoverageDocument(Document, frozen=True):
    """Work outside any graph."""

    eager: list[NotCapturedDocument] = field(name="not_captured")


class ComparedRunDocument(IdentityDocument, frozen=True):
    """A run of a comparison. The answer in words is null if nothing was compared."""

    is_baseline: bool
    baseline: str | None
    sentence: Sentence
    replays_match: bool
    verdict: Sentence | None
    because: Sentence | None
    costs: Sentence | None
    next_step: Sentence | None
    metrics: dict[str, FigureDocument]
    time_breakdown: TimeByCategoryDocument | None
    time_by_category_reason: Sentence | None = field(name="time_breakdown_reason")
    coverage: CoverageDocument | None
    coverage_reason: Sentence | None
    waterfall: WaterfallDocument | None
    waterfall_reason: Sentence | None
    compile_parts: CompilePartsDocument | None
    compile_parts_reason: Sentence | None
    break_even: BreakEvenDocument | None
    break_even_reason: Sentence | None
    prediction: ScoredPredictionDocument | None
    prediction_reason: Sentence | None
    parallel: ParallelPlanDocument | None
    eager_prediction: PredictionDocument | None
    eager_prediction_reason: Sentence | None
    integrity: IntegrityDocument | None
    caveats: list[WeaknessDocument]
    missing_graphs: UnseenGraphsDocument | None


class KernelUseDocument(Document, frozen=True):
    """A kernel in one run, per traced step; ``change`` is relative to the baseline, in ns."""

    count: Number
    total_ns: Ns = field(name="total")
    mean_ns: Ns = field(name="mean")
    share: Fraction
    instances: Count
    change: Ns | None


class KernelDocument(Document, frozen=True):
    """A kernel in each of the runs."""

    name: str
    kind: str
    category: str
    impact: Number
    runs: dict[str, KernelUseDocument | None]


class KernelsDocument(Document, frozen=True):
    """Kernels of the runs; ``unavailable`` lists runs that have none, with the reason."""

    baseline: str | None
    rows: list[KernelDocument]
    total_rows: Count
    missing_reasons: dict[str, Sentence] = field(name="unavailable")


class ComparisonDocument(Document, frozen=True):
    """The runs of an experiment compared with their baseline."""

    experiment: ExperimentDocument
    baseline: str | None
    headline: Sentence
    runs: list[ComparedRunDocument]
    kernels: KernelsDocument
    ranks: list[ModeRanksDocument]


def _build_run_document(run: RunComparison, *, compared: bool) -> ComparedRunDocument:
    """Build the document of one run; ``compared`` omits its outlook, which only an uncompared eager
    run has.
    """
    outlook = (
        Missing(Fact.PREDICTION, "a run was compared with it") if compared else run.graph_prediction
    )
    prediction, parts = drop_missing(outlook), drop_missing(run.compile_parts)
    waterfall, break_even = drop_missing(run.waterfall), drop_missing(run.break_even)
    plan = run.run.parallel
    return build_run(
        ComparedRunDocument,
        run.run,
        run,
        sentence=describe_run(run),
        **_describe_answer(run),
        metrics=build_figures_document(run.metrics),
        time_breakdown=build_time_breakdown(run.time_by_category),
        waterfall=waterfall and build_waterfall_document(waterfall),
        compile_parts=parts and build_compile_parts_document(parts),
        break_even=break_even and _build_break_even_document(break_even),
        prediction=_build_scored_document(run),
        parallel=plan and build_plan_document(run.name, plan),
        eager_prediction=prediction and build_prediction_document(prediction, shipped=True),
        eager_prediction_reason=get_reason(outlook),
        integrity=run.integrity and build_integrity_document(run.integrity),
        caveats=build_weakness_documents(run),
        missing_graphs=build_unseen_graphs_document(run),
    )


def _describe_answer(run: RunComparison) -> dict[str, str | None]:
    answer = build_run_answer(run)
    return {
        part: None if answer is None else format_parts(getattr(answer, part)) or None
        for part in ("verdict", "because", "costs", "next_step")
    }


def _build_scored_document(run: RunComparison) -> ScoredPredictionDocument | None:
    if isinstance(run.prediction, Missing):
        return None
    return build(
        ScoredPredictionDocument,
        run.prediction.step_ns,
        predicted=run.prediction.step_ns.value,
        measured=run["step_time"].value,
        error=run["prediction_error"].value,
    )


def _build_break_even_document(costs: BreakEven) -> BreakEvenDocument:
    return build(
        BreakEvenDocument,
        costs,
        parts=[build(CostDocument, part=name, ns=ns) for name, ns in costs.parts],
        saving=build(SavingDocument, value=costs.saving_ns, low=costs.low_ns, high=costs.high_ns),
        replays=ReplaysDocument(value=costs.replays, low=costs.min_replays, high=costs.max_replays),
        curve=[_build_saved_document(costs, count) for count in costs.list_replay_powers()],
    )


def _build_saved_document(costs: BreakEven, replays: int) -> SavedByReplaysDocument:
    low, saved, high = costs.compute_net_saving(replays)
    return build(SavedByReplaysDocument, replays=replays, low=low, saved=saved, high=high)


def _build_kernels_document(table: KernelTable) -> KernelsDocument:
    return build(
        KernelsDocument,
        table,
        baseline=table.runs[table.baseline] if table.baseline is not None else None,
        rows=[_build_kernel_document(row, table.runs) for row in table.rows],
        total_rows=len(table.rows),
    )


def _build_kernel_document(row: KernelRow, runs: tuple[str, ...]) -> KernelDocument:
    changes = zip(runs, row.uses, row.changes, strict=True)
    return build(
        KernelDocument,
        row,
        runs={
            run: use and build(KernelUseDocument, use, change=change)
            for run, use, change in changes
        },
    )


def build_comparison_document(
    comparison: Comparison, kernels: KernelTable, ranks: Sequence[ModeRanks]
) -> ComparisonDocument:
    """Build the document of an experiment's runs, kernels and ranks."""
    experiment = comparison.experiment
    return ComparisonDocument(
        experiment=ExperimentDocument(name=experiment.name, path=display_path(experiment.path)),
        baseline=comparison.baseline,
        headline=build_headline(comparison),
        runs=[
            _build_run_document(run, compared=comparison.best is not None)
            for run in comparison.runs
        ],
        kernels=_build_kernels_document(kernels),
        ranks=build_ranks_document(ranks),
    )
