"""Render the tables of a report as escaped HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Final, TypeAlias

from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.metrics.kernel_table import KernelTable
from graphviz_dash.analysis.metrics.registry import SECTIONS
from graphviz_dash.analysis.step_comparison.waterfall import Cause, StepShare
from graphviz_dash.analysis.trace.kernel_names import short_name
from graphviz_dash.errors import printable
from graphviz_dash.features.prediction.analysis.measured import attempts_by_streams
from graphviz_dash.features.prediction.stream_narrative import (
    ATTEMPT_HEADINGS,
    attempt_row,
    plan_caption,
    plan_sentences,
)
from graphviz_dash.narrative.low_confidence import low_confidence_notes
from graphviz_dash.narrative.numbers import spread_text
from graphviz_dash.narrative.summary import (
    metric_title,
    unlisted_sentence,
)
from graphviz_dash.units import format_count, format_ns

Row: TypeAlias = list[str | tuple[str, str]]
_MOST_KERNELS: Final = 30
_MOST_SHARES: Final = 12


def shares_table(by: str, shares: tuple[StepShare, ...]) -> str:
    """Format the contribution of modules or operators, largest first."""
    shown = shares[:_MOST_SHARES]
    causes = [
        index
        for index, _ in enumerate(Cause)
        if any(share.saved.items()[index][1] for share in shown)
    ]
    head = [f"{by}, largest difference first", "difference"]
    head += [list(Cause)[index].value for index in causes]
    rows: list[Row] = [
        [
            short_name(printable(share.label)),
            _signed(-share.saved.total),
            *(_signed(-share.saved.items()[index][1]) for index in causes),
        ]
        for share in shown
    ]
    more = len(shares) - len(shown)
    note = f'<p class="muted">and {format_count(more)} more</p>' if more else ""
    return _table(head, [("", rows)]) + note


def metrics_section(comparison: Comparison) -> str:
    """Format all available metrics with spread and pass."""
    groups: list[tuple[str, list[Row]]] = []
    for section, metrics in SECTIONS.items():
        rows: list[Row] = []
        for metric in metrics:
            figures = [run[metric.id] for run in comparison.runs]
            if all(figure.value is None for figure in figures):
                continue
            title = metric_title(metric)
            cells = [(figure.text, spread_text(figure)) for figure in figures]
            rows.append([title, *cells, metric.source.value])
        if rows:
            groups.append((section, rows))
    head = ["", *(run.name for run in comparison.runs), "pass"]
    return f'<section class="sheet"><h2>Metrics</h2>{_table(head, groups)}</section>'


def kernels_section(table: KernelTable) -> str:
    """Format the kernels that changed most; empty if there are none."""
    if not table.rows:
        return ""
    shown = table.usual_rows[:_MOST_KERNELS]
    head = ["Kernel", "category"]
    for column, run in enumerate(table.runs):
        head += [run, "change"] if table.changes(column) else [run]
    rows: list[Row] = []
    for row in shown:
        cells: Row = [short_name(printable(row.name)), row.category.value]
        for column, (use, change) in enumerate(zip(row.uses, row.changes, strict=True)):
            count = f"× {format_count(use.count)}" if use else ""
            cells.append((format_ns(use.total_ns if use else None), count))
            if table.changes(column):
                cells.append(_signed(change) if change else "0" if use and change == 0 else "–")
        rows.append(cells)
    changed = any(table.changes(column) for column, _ in enumerate(table.runs))
    order = "largest change" if changed else "longest"
    note = f"{len(shown)} of {format_count(len(table.rows))}, {order} first"
    if sentence := unlisted_sentence(table):
        note += f". {sentence}"
    return (
        f'<section class="sheet"><h2>Kernels, memcpy and memset per traced step</h2>'
        f'<p class="muted">{note}</p>{_table(head, [("", rows)])}</section>'
    )


def notes_sections(comparison: Comparison) -> Iterator[str]:
    """Generate the low-confidence metrics and the missing data with reasons."""
    low_confidence = [
        f"{run.name}: {note.sentence}"
        for run in comparison.runs
        for note in low_confidence_notes(run.low_confidence)
    ]
    missing = [
        f"{', '.join(runs)}: {reason}: {', '.join(titles)}"
        for (reason, titles), runs in _absent(comparison).items()
    ]
    for title, lines in (("Low-confidence metrics", low_confidence), ("Missing data", missing)):
        if lines:
            items = "".join(f"<li>{html_text(line)}</li>" for line in lines)
            yield f"<h2>{title}</h2><ul>{items}</ul>"


def plans_sections(comparison: Comparison) -> Iterator[str]:
    """Generate a section for each run captured on several streams."""
    for run in comparison.runs:
        plan = run.run.parallel
        if plan is None:
            continue
        yield f"<h2>{html_text(run.name)}: the step on several streams</h2>"
        for line in (*plan_sentences(run.name, plan), plan_caption(plan)):
            yield f"<p>{html_text(line)}</p>"
        rows: list[Row] = [
            list(attempt_row(plan, attempt)) for attempt in attempts_by_streams(plan)
        ]
        yield _table(list(ATTEMPT_HEADINGS), [("", rows)])


def _absent(comparison: Comparison) -> dict[tuple[str, tuple[str, ...]], list[str]]:
    """Group runs by the metrics that they lack and the reason."""
    runs_by_reason: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for run in comparison.runs:
        absent: dict[str, list[str]] = {}
        for figure in run.figures:
            if figure.missing is not None:
                absent.setdefault(figure.missing.reason, []).append(figure.metric.title)
        for reason, titles in absent.items():
            runs_by_reason.setdefault((reason, tuple(titles)), []).append(run.name)
    return runs_by_reason


def _table(head: list[str], groups: Iterable[tuple[str, list[Row]]]) -> str:
    """Format a table with grouped rows.

    A cell of two texts shows the second below the first. All columns are numeric except the first,
    "category" and "pass".
    """
    words = {
        column for column, text in enumerate(head) if column == 0 or text in ("category", "pass")
    }

    def kind(column: int) -> str:
        return "name" if column == 0 else "" if column in words else "n"

    cells = (
        f'<th scope="col" class="{kind(column)}">{html_text(text)}</th>'
        for column, text in enumerate(head)
    )
    parts = [f"<thead><tr>{''.join(cells)}</tr></thead>"]
    for title, rows in groups:
        above = (
            f'<th scope="rowgroup" colspan="{len(head)}">{html_text(title)}</th>' if title else ""
        )
        parts.append("<tbody>" + (f'<tr class="section">{above}</tr>' if above else ""))
        for row in rows:
            shown = (
                f'<td class="{kind(column)}">{_cell(text)}</td>' for column, text in enumerate(row)
            )
            parts.append(f"<tr>{''.join(shown)}</tr>")
        parts.append("</tbody>")
    wide = ' class="wide"' if len(head) > 6 else ""
    return f'<div class="scroll"><table{wide}>{"".join(parts)}</table></div>'


def _cell(cell: str | tuple[str, str]) -> str:
    if isinstance(cell, str):
        return html_text(cell)
    value, below = cell
    return f"{html_text(value)}<small>{html_text(below)}</small>" if below else html_text(value)


def _signed(ns: float) -> str:
    if not ns:
        return "0"
    return f"{'+' if ns > 0 else '−'}{format_ns(abs(ns))}"


def html_text(value: object) -> str:
    """Escape a value for HTML and make control characters visible."""
    return escape(printable(str(value)))
