"""Build the JSON of a comparison.

Values are raw: nanoseconds, bytes, counts, fractions of one. A missing value is null and has a
reason. docs/reference/json.md describes the fields.
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
    build_compile_parts_document,
    build_waterfall_document,
)
from graphviz_dash.app.compare.documents.run import (
    IdentityDocument,
    TimeByCategoryDocument,
    UnseenGraphsDocument,
    WeaknessDocument,
    build_identity_document,
    build_time_breakdown,
    build_unseen_graphs_document,
    build_weakness_documents,
)
from graphviz_dash.exports.documents.figures import (
    ExperimentDocument,
    FigureDocument,
    build_figures_document,
)
from graphviz_dash.exports.documents.integrity import (
    IntegrityDocument,
    build_integrity_document,
)
from graphviz_dash.exports.documents.values import (
    Count,
    Fraction,
    Ns,
    Sentence,
    convert_value,
    display_path,
    get_reason,
    simplify_number,
)
from graphviz_dash.features.prediction.document import PredictionDocument, build_prediction_document
from graphviz_dash.features.prediction.plan_document import (
    ParallelPlanDocument,
    build_plan_document,
)
from graphviz_dash.features.ranks.document import ModeRanksDocument, build_ranks_document
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.narrative.answer import build_run_answer, format_parts
from graphviz_dash.narrative.headline import build_headline, describe_run


class CostDocument(TypedDict):
    """A part of the one-time cost."""

    part: str
    ns: Ns


class SavingDocument(TypedDict):
    """Saving per replay with its 95% interval."""

    value: Ns
    low: Ns
    high: Ns


class ReplaysDocument(TypedDict):
    """Replays needed to pay back the cost; ``high`` is null if that may never happen."""

    value: Count
    low: Count
    high: Count | None


class SavedByReplaysDocument(TypedDict):
    """Saving after this many replays, net of the one-time cost."""

    replays: Count
    low: Ns
    saved: Ns
    high: Ns


class BreakEvenDocument(TypedDict):
    """One-time cost of a run and the number of replays that pay it back."""

    one_off: Ns
    parts: list[CostDocument]
    warm_up: Ns
    saving: SavingDocument
    replays: ReplaysDocument
    replays_with_warm_up: Count
    curve: list[SavedByReplaysDocument]


class ScoredPredictionDocument(TypedDict):
    """Prediction from the eager run alone, next to the measurement."""

    predicted: Ns
    low: Ns | None
    high: Ns | None
    measured: Ns | None
    error: Fraction | None


class NotCapturedDocument(TypedDict):
    """Work of one operator outside any graph, per traced step."""

    reason: str
    operator: str | None
    count: float
    total: Ns
    share: Fraction


class CoverageDocument(TypedDict):
    """Work outside any graph."""

    not_captured: list[NotCapturedDocument]


class AnswerDocument(TypedDict):
    """Answer about a run in words; null if nothing was compared."""

    verdict: Sentence | None
    because: Sentence | None
    costs: Sentence | None
    next_step: Sentence | None


class ComparedRunDocument(IdentityDocument, AnswerDocument):
    """A run of a comparison."""

    is_baseline: bool
    baseline: str | None
    sentence: Sentence
    replays_match: bool
    metrics: dict[str, FigureDocument]
    time_breakdown: TimeByCategoryDocument | None
    time_breakdown_reason: Sentence | None
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


class KernelUseDocument(TypedDict):
    """A kernel in one run, per traced step; ``change`` is relative to the baseline, in ns."""

    count: float
    total: Ns
    mean: Ns
    share: Fraction
    instances: Count
    change: Ns | None


class KernelDocument(TypedDict):
    """A kernel in each of the runs."""

    name: str
    kind: str
    category: str
    impact: float
    runs: dict[str, KernelUseDocument | None]


class KernelsDocument(TypedDict):
    """Kernels of the runs; ``unavailable`` lists runs that have none, with the reason."""

    baseline: str | None
    rows: list[KernelDocument]
    total_rows: Count
    unavailable: dict[str, Sentence]


class ComparisonDocument(TypedDict):
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
    return {
        **build_identity_document(run.run),
        "is_baseline": run.is_baseline,
        "baseline": run.baseline,
        "sentence": describe_run(run),
        "replays_match": run.replays_match,
        **_build_answer_document(run),
        "metrics": build_figures_document(run.metrics),
        "time_breakdown": convert_value(run.time_by_category, build_time_breakdown),
        "time_breakdown_reason": get_reason(run.time_by_category),
        "coverage": convert_value(run.coverage, _build_coverage_document),
        "coverage_reason": get_reason(run.coverage),
        "waterfall": convert_value(run.waterfall, build_waterfall_document),
        "waterfall_reason": get_reason(run.waterfall),
        "compile_parts": convert_value(run.compile_parts, build_compile_parts_document),
        "compile_parts_reason": get_reason(run.compile_parts),
        "break_even": convert_value(run.break_even, _build_break_even_document),
        "break_even_reason": get_reason(run.break_even),
        "prediction": _build_scored_document(run),
        "prediction_reason": get_reason(run.prediction),
        "parallel": None
        if run.run.parallel is None
        else build_plan_document(run.name, run.run.parallel),
        "eager_prediction": convert_value(
            outlook, lambda value: build_prediction_document(value, shipped=True)
        ),
        "eager_prediction_reason": get_reason(outlook),
        "integrity": None if run.integrity is None else build_integrity_document(run.integrity),
        "caveats": build_weakness_documents(run),
        "missing_graphs": build_unseen_graphs_document(run),
    }


def _build_answer_document(run: RunComparison) -> AnswerDocument:
    answer = build_run_answer(run)
    if answer is None:
        return {"verdict": None, "because": None, "costs": None, "next_step": None}
    return {
        "verdict": format_parts(answer.verdict),
        "because": format_parts(answer.because) or None,
        "costs": format_parts(answer.costs) or None,
        "next_step": format_parts(answer.next_step) or None,
    }


def _build_scored_document(run: RunComparison) -> ScoredPredictionDocument | None:
    prediction = run.prediction
    if isinstance(prediction, Missing):
        return None
    return {
        "predicted": simplify_number(prediction.step_ns.value),
        "low": simplify_number(prediction.step_ns.low),
        "high": simplify_number(prediction.step_ns.high),
        "measured": simplify_number(run["step_time"].value),
        "error": run["prediction_error"].value,
    }


def _build_break_even_document(costs: BreakEven) -> BreakEvenDocument:
    return {
        "one_off": simplify_number(costs.one_off_ns),
        "parts": [{"part": name, "ns": simplify_number(ns)} for name, ns in costs.parts],
        "warm_up": costs.warm_up_ns,
        "saving": {
            "value": simplify_number(costs.saving_ns),
            "low": simplify_number(costs.low_ns),
            "high": simplify_number(costs.high_ns),
        },
        "replays": {"value": costs.replays, "low": costs.min_replays, "high": costs.max_replays},
        "replays_with_warm_up": costs.replays_without_warmup,
        "curve": [_build_saved_document(costs, count) for count in costs.list_replay_powers()],
    }


def _build_saved_document(costs: BreakEven, replays: int) -> SavedByReplaysDocument:
    low, saved, high = costs.compute_net_saving(replays)
    return {"replays": replays, "low": low, "saved": saved, "high": high}


def _build_coverage_document(coverage: Coverage) -> CoverageDocument:
    return {
        "not_captured": [
            {
                "reason": group.reason.value,
                "operator": group.operator,
                "count": simplify_number(group.count),
                "total": group.total_ns,
                "share": group.share,
            }
            for group in coverage.eager
        ]
    }


def _build_kernels_document(table: KernelTable, count: int | None = None) -> KernelsDocument:
    return {
        "baseline": table.runs[table.baseline] if table.baseline is not None else None,
        "rows": [_build_kernel_document(row, table.runs) for row in table.rows[:count]],
        "total_rows": len(table.rows),
        "unavailable": table.missing_reasons,
    }


def _build_kernel_document(row: KernelRow, runs: tuple[str, ...]) -> KernelDocument:
    return {
        "name": row.name,
        "kind": row.kind,
        "category": row.category.value,
        "impact": simplify_number(row.impact),
        "runs": {
            run: {
                "count": simplify_number(use.count),
                "total": simplify_number(use.total_ns),
                "mean": simplify_number(use.mean_ns),
                "share": use.share,
                "instances": use.instances,
                "change": simplify_number(change),
            }
            if use is not None
            else None
            for run, use, change in zip(runs, row.uses, row.changes, strict=True)
        },
    }


def build_comparison_document(
    comparison: Comparison, kernels: KernelTable, ranks: Sequence[ModeRanks]
) -> ComparisonDocument:
    """Build the document of an experiment's runs, kernels and ranks."""
    experiment = comparison.experiment
    return {
        "experiment": {"name": experiment.name, "path": display_path(experiment.path)},
        "baseline": comparison.baseline,
        "headline": build_headline(comparison),
        "runs": [
            _build_run_document(run, compared=comparison.best is not None)
            for run in comparison.runs
        ],
        "kernels": _build_kernels_document(kernels),
        "ranks": build_ranks_document(ranks),
    }
