"""Flat tables of step-time differences and of paired work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.step_comparison.typical_step import TypicalStep, WorkItem
from graphviz_dash.analysis.step_comparison.waterfall import Cause, CauseTimes, Waterfall
from graphviz_dash.model.absence import Missing

_PARTS: Final = tuple(cause.name.lower() for cause in Cause)
_TIMES: Final = ("before", "after", "saved")

_EQUATION_SCHEMA: Final = {
    "run": pl.String,
    "baseline": pl.String,
    "basis": pl.String,
    "by": pl.String,
    "label": pl.String,
    "before_work": pl.Int64,
    "after_work": pl.Int64,
    **{f"{side}_ns": pl.Int64 for side in _TIMES},
    **{f"{side}_{part}_ns": pl.Int64 for side in _TIMES for part in _PARTS},
}

_SIDE_SCHEMA: Final = {
    "place": pl.Int64,
    "kind": pl.String,
    "name": pl.String,
    "bytes": pl.Int64,
    "op": pl.String,
    "module": pl.String,
    "duration_ns": pl.Int64,
}

_PAIR_SCHEMA: Final = {
    "run": pl.String,
    "baseline": pl.String,
    "pair": pl.Int64,
    "what": pl.String,
    "method": pl.String,
    "confidence": pl.Float64,
    "launch_differs": pl.Boolean,
    **{f"before_{name}": kind for name, kind in _SIDE_SCHEMA.items()},
    "graph": pl.String,
    "node": pl.Int64,
    **{f"after_{name}": kind for name, kind in _SIDE_SCHEMA.items()},
}


def build_equation_frame(comparison: Comparison) -> pl.DataFrame:
    """Build a table of step-time differences in ns.

    One row per run (``by`` is "step") and per module and operator; modules and operators each add
    up to the run.
    """
    rows = [
        row
        for run in comparison.runs
        if not isinstance(run.waterfall, Missing)
        for row in _generate_equation_rows(run.waterfall)
    ]
    return pl.DataFrame(rows, schema=_EQUATION_SCHEMA, orient="row")


def build_pair_frame(comparison: Comparison) -> pl.DataFrame:
    """Build a table of work items paired with the baseline, or unpaired.

    Rows with the same ``pair`` belong together. Durations are traced medians in ns.
    """
    rows = [
        row
        for run in comparison.runs
        if not isinstance(run.waterfall, Missing)
        for row in _generate_pair_rows(run.waterfall)
    ]
    return pl.DataFrame(rows, schema=_PAIR_SCHEMA, orient="row")


def _generate_equation_rows(waterfall: Waterfall) -> Iterator[dict[str, object]]:
    pairs = waterfall.pairs
    yield _build_equation_row(
        waterfall,
        ("step", waterfall.run),
        (len(pairs.before.items), len(pairs.after.items)),
        (waterfall.before, waterfall.after),
    )
    for by, shares in (("module", waterfall.modules), ("operator", waterfall.operators)):
        for share in shares:
            yield _build_equation_row(
                waterfall, (by, share.label), share.items, (share.before, share.after)
            )


def _build_equation_row(
    waterfall: Waterfall,
    scope: tuple[str, str],
    work: tuple[int, int],
    sides: tuple[CauseTimes, CauseTimes],
) -> dict[str, object]:
    row: dict[str, object] = {
        "run": waterfall.run,
        "baseline": waterfall.baseline,
        "basis": waterfall.basis.value,
        "by": scope[0],
        "label": scope[1],
        "before_work": work[0],
        "after_work": work[1],
    }
    for side, parts in zip(_TIMES, (*sides, sides[0] - sides[1]), strict=True):
        row[f"{side}_ns"] = parts.total
        row |= {f"{side}_{cause.name.lower()}_ns": value for cause, value in parts.list_items()}
    return row


def _generate_pair_rows(waterfall: Waterfall) -> Iterator[dict[str, object]]:
    pairs = waterfall.pairs
    for number, row in enumerate(pairs.rows):
        for offset in range(max(len(row.before), len(row.after))):
            columns: dict[str, object] = {
                "run": waterfall.run,
                "baseline": waterfall.baseline,
                "pair": number,
                "what": row.kind.value,
                "method": row.method,
                "confidence": row.confidence,
                "launch_differs": row.launch_differs,
            }
            if offset < len(row.before):
                columns |= _build_side_columns("before", pairs.before, row.before[offset])
            if offset < len(row.after):
                columns |= _build_side_columns("after", pairs.after, row.after[offset])
                item = pairs.after.items[row.after[offset]]
                columns |= {"graph": item.graph, "node": item.node}
            yield columns


def _build_side_columns(side: str, work: TypicalStep, index: int) -> dict[str, object]:
    item: WorkItem = work.items[index]
    values = (
        index,
        item.kind,
        item.name,
        item.size,
        item.origin.op,
        item.origin.module,
        int(work.duration[index]),
    )
    return {f"{side}_{name}": value for name, value in zip(_SIDE_SCHEMA, values, strict=True)}
