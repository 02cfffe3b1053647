"""The JSON of a comparison, as docs/cli.md describes it. Values are raw: nanoseconds, bytes,
counts, fractions of one; what is absent is null and has a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from graphviz_dash.analysis.comparison.break_even import BreakEven
from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.metrics.graph_coverage import Coverage
from graphviz_dash.analysis.metrics.kernel_table import KernelRow, KernelTable
from graphviz_dash.analysis.ranks.ranks import ModeRanks
from graphviz_dash.analysis.step.waterfall import StepShare, Waterfall
from graphviz_dash.exports.documents.figures import figures_document
from graphviz_dash.exports.documents.ranks import ranks_document
from graphviz_dash.exports.documents.run import (
    identity_document,
    weaknesses_document,
    where_document,
)
from graphviz_dash.exports.documents.values import document_of, number, reason_of, shown
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.answer import answer_text, run_answer
from graphviz_dash.narrative.headline import headline, run_sentence


def run_document(run: RunComparison) -> dict[str, object]:
    """One run of a comparison."""
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
        "coverage": document_of(run.coverage, coverage_document),
        "coverage_reason": reason_of(run.coverage),
        "waterfall": document_of(run.waterfall, waterfall_document),
        "waterfall_reason": reason_of(run.waterfall),
        "break_even": document_of(run.break_even, break_even_document),
        "break_even_reason": reason_of(run.break_even),
        "prediction": scored_document(run),
        "prediction_reason": reason_of(run.prediction),
        "weaknesses": weaknesses_document(run),
    }


def scored_document(run: RunComparison) -> dict[str, object] | None:
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


def break_even_document(costs: BreakEven) -> dict[str, object]:
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
        "curve": [
            dict(
                zip(("replays", "low", "saved", "high"), (count, *costs.saved(count)), strict=True)
            )
            for count in costs.powers()
        ],
    }


def coverage_document(coverage: Coverage) -> dict[str, object]:
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


def kernels_document(table: KernelTable, count: int | None = None) -> dict[str, object]:
    """The table of kernels; ``count`` limits its rows."""
    return {
        "baseline": table.runs[table.baseline] if table.baseline is not None else None,
        "rows": [kernel_document(row, table.runs) for row in table.rows[:count]],
        "total_rows": len(table.rows),
        "without": table.without,
    }


def kernel_document(row: KernelRow, runs: tuple[str, ...]) -> dict[str, object]:
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
) -> dict[str, object]:
    """The runs of an experiment against their baseline, their kernels and their ranks."""
    experiment = comparison.experiment
    return {
        "experiment": {"name": experiment.name, "path": shown(experiment.path)},
        "baseline": comparison.baseline,
        "headline": headline(comparison),
        "runs": [run_document(run) for run in comparison.runs],
        "kernels": kernels_document(kernels),
        "ranks": ranks_document(ranks),
    }


def waterfall_document(waterfall: Waterfall) -> dict[str, object]:
    """The equation, in ns: ``saved`` is ``before`` less ``after`` by cause."""
    return {
        "baseline": waterfall.baseline,
        "before": {"step": waterfall.before_ns, **asdict(waterfall.before)},
        "after": {"step": waterfall.after_ns, **asdict(waterfall.after)},
        "saved": {"step": waterfall.before_ns - waterfall.after_ns, **asdict(waterfall.saved)},
        "remainder_share": waterfall.remainder_share,
        "scales": {"before": waterfall.scales[0], "after": waterfall.scales[1]},
        "modules": [_share_document(share) for share in waterfall.modules],
        "operators": [_share_document(share) for share in waterfall.operators],
        "pairs": {
            "counts": {kind.value: count for kind, count in waterfall.pairs.counts.items()},
            "methods": waterfall.pairs.methods,
            "steps": {
                side: {
                    "like": work.matching_steps,
                    "taken": work.traced_steps,
                    "work": len(work.items),
                }
                for side, work in (
                    ("before", waterfall.pairs.before),
                    ("after", waterfall.pairs.after),
                )
            },
        },
    }


def _share_document(share: StepShare) -> dict[str, object]:
    return {
        "label": share.label,
        "saved": {"total": share.saved.total, **asdict(share.saved)},
        "before": asdict(share.before),
        "after": asdict(share.after),
        "work": {"before": share.items[0], "after": share.items[1]},
    }
