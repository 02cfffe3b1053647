"""Render the tables of a report as escaped HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final, TypeAlias, TypeVar

from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.metrics.kernel_table import KernelTable
from graphviz_dash.analysis.metrics.registry import SECTIONS
from graphviz_dash.analysis.step_comparison.waterfall import Cause, StepShare
from graphviz_dash.analysis.trace.kernel_names import shorten_name
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.prediction.analysis.measured import sort_attempts
from graphviz_dash.features.prediction.stream_narrative import (
    ATTEMPT_HEADINGS,
    build_attempt_row,
    describe_plan,
    describe_plan_origin,
)
from graphviz_dash.narrative.columns import Column
from graphviz_dash.narrative.low_confidence import describe_low_confidence
from graphviz_dash.narrative.numbers import format_spread
from graphviz_dash.narrative.summary import explain_unlisted_kernels, format_metric_title
from graphviz_dash.units import format_count, format_ns

Row: TypeAlias = list[str | tuple[str, str]]
_Row = TypeVar("_Row")
_MAX_KERNELS: Final = 30
_MAX_SHARES: Final = 12


def format_shares_table(by: str, shares: tuple[StepShare, ...]) -> str:
    """Format the contribution of modules or operators, largest first."""
    shown = shares[:_MAX_SHARES]
    causes = [
        index
        for index, _ in enumerate(Cause)
        if any(share.saved.list_items()[index][1] for share in shown)
    ]
    head = [f"{by}, largest difference first", "difference"]
    head += [list(Cause)[index].value for index in causes]
    rows: list[Row] = [
        [
            shorten_name(escape_control_characters(share.label)),
            _format_signed_ns(-share.saved.total),
            *(_format_signed_ns(-share.saved.list_items()[index][1]) for index in causes),
        ]
        for share in shown
    ]
    more = len(shares) - len(shown)
    note = f'<p class="muted">and {format_count(more)} more</p>' if more else ""
    return format_table(head, [("", rows)]) + note


def format_metrics_section(comparison: Comparison) -> str:
    """Format all available metrics with spread and pass."""
    groups: list[tuple[str, list[Row]]] = []
    for section, metrics in SECTIONS.items():
        rows: list[Row] = []
        for metric in metrics:
            figures = [run[metric.id] for run in comparison.runs]
            if all(figure.value is None for figure in figures):
                continue
            title = format_metric_title(metric)
            cells = [(figure.text, format_spread(figure)) for figure in figures]
            rows.append([title, *cells, metric.source.value])
        if rows:
            groups.append((section, rows))
    head = ["", *(run.name for run in comparison.runs), "pass"]
    return f'<section class="sheet"><h2>Metrics</h2>{format_table(head, groups)}</section>'


def format_kernels_section(table: KernelTable) -> str:
    """Format the kernels that changed most; empty if there are none."""
    if not table.rows:
        return ""
    shown = table.usual_rows[:_MAX_KERNELS]
    head = ["Kernel", "category"]
    for column, run in enumerate(table.runs):
        head += [run, "change"] if table.has_changes(column) else [run]
    rows: list[Row] = []
    for row in shown:
        cells: Row = [shorten_name(escape_control_characters(row.name)), row.category.value]
        for column, (use, change) in enumerate(zip(row.uses, row.changes, strict=True)):
            count = f"× {format_count(use.count)}" if use else ""
            cells.append((format_ns(use.total_ns if use else None), count))
            if table.has_changes(column):
                cells.append(
                    _format_signed_ns(change) if change else "0" if use and change == 0 else "–"
                )
        rows.append(cells)
    changed = any(table.has_changes(column) for column, _ in enumerate(table.runs))
    order = "largest change" if changed else "longest"
    note = f"{len(shown)} of {format_count(len(table.rows))}, {order} first"
    if sentence := explain_unlisted_kernels(table):
        note += f". {sentence}"
    return (
        f'<section class="sheet"><h2>Kernels, memcpy and memset per traced step</h2>'
        f'<p class="muted">{note}</p>{format_table(head, [("", rows)])}</section>'
    )


def generate_notes_sections(comparison: Comparison) -> Iterator[str]:
    """Generate the low-confidence metrics and the missing data with reasons."""
    low_confidence = [
        f"{run.name}: {note.sentence}"
        for run in comparison.runs
        for note in describe_low_confidence(run.low_confidence)
    ]
    missing = [
        f"{', '.join(runs)}: {reason}: {', '.join(titles)}"
        for (reason, titles), runs in _group_missing_metrics(comparison).items()
    ]
    for title, lines in (("Low-confidence metrics", low_confidence), ("Missing data", missing)):
        if lines:
            items = "".join(f"<li>{escape_html(line)}</li>" for line in lines)
            yield f"<h2>{title}</h2><ul>{items}</ul>"


def generate_plan_sections(comparison: Comparison) -> Iterator[str]:
    """Generate a section for each run captured on several streams."""
    for run in comparison.runs:
        plan = run.run.parallel
        if plan is None:
            continue
        yield f"<h2>{escape_html(run.name)}: the step on several streams</h2>"
        for line in (*describe_plan(run.name, plan), describe_plan_origin(plan)):
            yield f"<p>{escape_html(line)}</p>"
        rows: list[Row] = [
            list(build_attempt_row(plan, attempt)) for attempt in sort_attempts(plan)
        ]
        yield format_table(list(ATTEMPT_HEADINGS), [("", rows)])


def _group_missing_metrics(comparison: Comparison) -> dict[tuple[str, tuple[str, ...]], list[str]]:
    """Group runs by the metrics that they lack and the reason."""
    runs_by_reason: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for run in comparison.runs:
        absent: dict[str, list[str]] = {}
        for figure in run.metrics:
            if figure.missing is not None:
                absent.setdefault(figure.missing.reason, []).append(figure.metric.title)
        for reason, titles in absent.items():
            runs_by_reason.setdefault((reason, tuple(titles)), []).append(run.name)
    return runs_by_reason


def format_row_table(columns: Sequence[Column[_Row]], title: str, *groups: Sequence[_Row]) -> str:
    """Format rows under their columns; ``title`` is the heading of the first."""
    head = [title, *(column.terminal_heading or "" for column in columns[1:])]
    return format_table(
        head,
        [("", [[column.format(row) for column in columns] for row in rows]) for rows in groups],
    )


def format_table(head: list[str], groups: Iterable[tuple[str, list[Row]]]) -> str:
    """Format a table with grouped rows; a cell of two texts shows the second below the first. All
    columns are numeric except the first, "category" and "pass"."""
    words = {
        column for column, text in enumerate(head) if column == 0 or text in ("category", "pass")
    }

    def column_class(column: int) -> str:
        return "name" if column == 0 else "" if column in words else "n"

    cells = (
        f'<th scope="col" class="{column_class(column)}">{escape_html(text)}</th>'
        for column, text in enumerate(head)
    )
    parts = [f"<thead><tr>{''.join(cells)}</tr></thead>"]
    for title, rows in groups:
        above = (
            f'<th scope="rowgroup" colspan="{len(head)}">{escape_html(title)}</th>' if title else ""
        )
        parts.append("<tbody>" + (f'<tr class="section">{above}</tr>' if above else ""))
        for row in rows:
            shown = (
                f'<td class="{column_class(column)}">{_format_cell(text)}</td>'
                for column, text in enumerate(row)
            )
            parts.append(f"<tr>{''.join(shown)}</tr>")
        parts.append("</tbody>")
    wide = ' class="wide"' if len(head) > 6 else ""
    return f'<div class="scroll"><table{wide}>{"".join(parts)}</table></div>'


def _format_cell(cell: str | tuple[str, str]) -> str:
    if isinstance(cell, str):
        return escape_html(cell)
    value, below = cell
    return (
        f"{escape_html(value)}<small>{escape_html(below)}</small>" if below else escape_html(value)
    )


def _format_signed_ns(ns: float) -> str:
    if not ns:
        return "0"
    return f"{'+' if ns > 0 else '−'}{format_ns(abs(ns))}"


def escape_html(value: object) -> str:
    """Escape a value for HTML and make control characters visible."""
    return escape(escape_control_characters(str(value)))
