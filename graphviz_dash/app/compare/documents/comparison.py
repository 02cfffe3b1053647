"""The JSON of a comparison (docs/reference/json.md). Values are raw: nanoseconds, bytes, counts,
fractions of one; what is absent is null and has a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from graphviz_dash.analysis.comparison.break_even import BreakEven
from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.metrics.graph_coverage import Coverage
from graphviz_dash.analysis.metrics.kernel_table import KernelRow, KernelTable
from graphviz_dash.analysis.ranks.ranks import ModeRanks
from graphviz_dash.app.compare.documents.equation import (
    CompilePartsDocument,
    WaterfallDocument,
    compile_parts_document,
    waterfall_document,
)
from graphviz_dash.app.compare.documents.run import (
    IdentityDocument,
    TimeByCategoryDocument,
    UnseenGraphsDocument,
    WeaknessDocument,
    identity_document,
    unseen_graphs_document,
    weaknesses_document,
    where_document,
)
from graphviz_dash.exports.documents.figures import (
    ExperimentDocument,
    FigureDocument,
    figures_document,
)
from graphviz_dash.exports.documents.values import (
    Count,
    Fraction,
    Ns,
    Sentence,
    document_of,
    number,
    reason_of,
    shown,
)
from graphviz_dash.features.prediction.document import PredictionDocument, prediction_document
from graphviz_dash.features.prediction.plan_document import ParallelPlanDocument, plan_document
from graphviz_dash.features.ranks.document import ModeRanksDocument, ranks_document
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.narrative.answer import answer_text, run_answer
from graphviz_dash.narrative.headline import headline, run_sentence


class CostDocument(TypedDict):
    """A part of the one-off cost."""

    part: str
    ns: Ns


class SavingDocument(TypedDict):
    """What a replay saves, with its 95% interval."""

    value: Ns
    low: Ns
    high: Ns


class ReplaysDocument(TypedDict):
    """After how many replays the cost is paid back; ``high`` is null where that may never be."""

    value: Count
    low: Count
    high: Count | None


class SavedByReplaysDocument(TypedDict):
    """What so many replays have saved, less the one-off cost."""

    replays: Count
    low: Ns
    saved: Ns
    high: Ns


class BreakEvenDocument(TypedDict):
    """What a run costs once, and when that is paid back."""

    one_off: Ns
    parts: list[CostDocument]
    warm_up: Ns
    saving: SavingDocument
    replays: ReplaysDocument
    replays_with_warm_up: Count
    curve: list[SavedByReplaysDocument]


class ScoredPredictionDocument(TypedDict):
    """The prediction from the eager run alone, beside the measurement."""

    predicted: Ns
    low: Ns | None
    high: Ns | None
    measured: Ns | None
    error: Fraction | None


class NotCapturedDocument(TypedDict):
    """Work of one operator that no graph launched, per traced step."""

    reason: str
    operator: str | None
    count: float
    total: Ns
    share: Fraction


class CoverageDocument(TypedDict):
    """What was not captured."""

    stayed_eager: list[NotCapturedDocument]


class ComparedRunDocument(IdentityDocument):
    """One run of a comparison."""

    is_baseline: bool
    baseline: str | None
    sentence: Sentence
    sound: bool
    answer: Sentence | None
    figures: dict[str, FigureDocument]
    where: TimeByCategoryDocument | None
    where_reason: Sentence | None
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
    outlook: PredictionDocument | None
    outlook_reason: Sentence | None
    weaknesses: list[WeaknessDocument]
    unseen_graphs: UnseenGraphsDocument | None


class KernelUseDocument(TypedDict):
    """A kernel in one run, per traced step; ``change`` is against the baseline, in ns."""

    count: float
    total: Ns
    mean: Ns
    share: Fraction
    instances: Count
    change: Ns | None


class KernelDocument(TypedDict):
    """A kernel over the runs."""

    name: str
    kind: str
    category: str
    impact: float
    runs: dict[str, KernelUseDocument | None]


class KernelsDocument(TypedDict):
    """The kernels of the runs; ``without``: runs that have none, and why."""

    baseline: str | None
    rows: list[KernelDocument]
    total_rows: Count
    without: dict[str, Sentence]


class ComparisonDocument(TypedDict):
    """The runs of an experiment against their baseline."""

    experiment: ExperimentDocument
    baseline: str | None
    headline: Sentence
    runs: list[ComparedRunDocument]
    kernels: KernelsDocument
    ranks: list[ModeRanksDocument]


def _run_document(run: RunComparison, *, compared: bool) -> ComparedRunDocument:
    """One run of a comparison; ``compared``: any run of it was, so that none tells an outlook."""
    outlook = Missing(Fact.PREDICTION, "a run was compared with it") if compared else run.outlook
    return {
        **identity_document(run.run),
        "is_baseline": run.is_baseline,
        "baseline": run.baseline,
        "sentence": run_sentence(run),
        "sound": run.replays_match,
        "answer": answer_text(run_answer(run)) or None,
        "figures": figures_document(run.figures),
        "where": document_of(run.where, where_document),
        "where_reason": reason_of(run.where),
        "coverage": document_of(run.coverage, _coverage_document),
        "coverage_reason": reason_of(run.coverage),
        "waterfall": document_of(run.waterfall, waterfall_document),
        "waterfall_reason": reason_of(run.waterfall),
        "compile_parts": document_of(run.compile_parts, compile_parts_document),
        "compile_parts_reason": reason_of(run.compile_parts),
        "break_even": document_of(run.break_even, _break_even_document),
        "break_even_reason": reason_of(run.break_even),
        "prediction": _scored_document(run),
        "prediction_reason": reason_of(run.prediction),
        "parallel": None if run.run.parallel is None else plan_document(run.name, run.run.parallel),
        "outlook": document_of(outlook, lambda value: prediction_document(value, shipped=True)),
        "outlook_reason": reason_of(outlook),
        "weaknesses": weaknesses_document(run),
        "unseen_graphs": unseen_graphs_document(run),
    }


def _scored_document(run: RunComparison) -> ScoredPredictionDocument | None:
    """The prediction of the run's step beside the measurement, in ns; the error is a fraction."""
    prediction = run.prediction
    if isinstance(prediction, Missing):
        return None
    return {
        "predicted": number(prediction.step_ns.value),
        "low": number(prediction.step_ns.low),
        "high": number(prediction.step_ns.high),
        "measured": number(run["step_time"].value),
        "error": run["prediction_error"].value,
    }


def _break_even_document(costs: BreakEven) -> BreakEvenDocument:
    """What a run costs once, and what replays have saved, in ns."""
    return {
        "one_off": number(costs.one_off_ns),
        "parts": [{"part": name, "ns": number(ns)} for name, ns in costs.parts],
        "warm_up": costs.warm_up_ns,
        "saving": {
            "value": number(costs.saving_ns),
            "low": number(costs.low_ns),
            "high": number(costs.high_ns),
        },
        "replays": {"value": costs.replays, "low": costs.fewest, "high": costs.most},
        "replays_with_warm_up": costs.discarded,
        "curve": [_saved_document(costs, count) for count in costs.powers()],
    }


def _saved_document(costs: BreakEven, replays: int) -> SavedByReplaysDocument:
    low, saved, high = costs.saved(replays)
    return {"replays": replays, "low": low, "saved": saved, "high": high}


def _coverage_document(coverage: Coverage) -> CoverageDocument:
    """What was not captured, per traced step, in ns; the shares are among the figures."""
    return {
        "stayed_eager": [
            {
                "reason": group.reason.value,
                "operator": group.operator,
                "count": number(group.count),
                "total": group.total_ns,
                "share": group.share,
            }
            for group in coverage.eager
        ]
    }


def _kernels_document(table: KernelTable, count: int | None = None) -> KernelsDocument:
    """The table of kernels; ``count`` limits its rows."""
    return {
        "baseline": table.runs[table.baseline] if table.baseline is not None else None,
        "rows": [_kernel_document(row, table.runs) for row in table.rows[:count]],
        "total_rows": len(table.rows),
        "without": table.without,
    }


def _kernel_document(row: KernelRow, runs: tuple[str, ...]) -> KernelDocument:
    """One kernel over the runs."""
    return {
        "name": row.name,
        "kind": row.kind,
        "category": row.category.value,
        "impact": number(row.impact),
        "runs": {
            run: {
                "count": number(use.count),
                "total": number(use.total_ns),
                "mean": number(use.mean_ns),
                "share": use.share,
                "instances": use.instances,
                "change": number(change),
            }
            if use is not None
            else None
            for run, use, change in zip(runs, row.uses, row.changes, strict=True)
        },
    }


def comparison_document(
    comparison: Comparison, kernels: KernelTable, ranks: Sequence[ModeRanks]
) -> ComparisonDocument:
    """The runs of an experiment against their baseline, their kernels and their ranks."""
    experiment = comparison.experiment
    return {
        "experiment": {"name": experiment.name, "path": shown(experiment.path)},
        "baseline": comparison.baseline,
        "headline": headline(comparison),
        "runs": [
            _run_document(run, compared=comparison.best is not None) for run in comparison.runs
        ],
        "kernels": _kernels_document(kernels),
        "ranks": ranks_document(ranks),
    }
