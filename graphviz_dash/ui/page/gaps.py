"""Format empty states with the command that collects the missing data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphviz_dash.guidance.gaps import Part, find_gaps
from graphviz_dash.guidance.narrative import build_gap_command, explain_missing_trace
from graphviz_dash.guidance.remedies import find_remedies
from graphviz_dash.model.run import Run
from graphviz_dash.ui.page.markup import format_element, format_text


def format_gap(part: str, runs: Sequence[Run], title: str, lines: Iterable[str]) -> str:
    """Format the empty state of ``part`` for ``runs``: reason and remedy."""
    gap = find_gaps(runs).get(Part(part))
    remedy = None if gap is None else build_gap_command(gap)
    command = (
        "" if remedy is None else _format_paragraphs(remedy[:1]) + format_text("pre", remedy[1])
    )
    return format_element(
        "div",
        format_text("h2", title) + _format_paragraphs(lines) + command,
        "empty",
    )


def format_trace_gap(runs: Sequence[Run]) -> str:
    """Format the empty state of ``runs`` without step traces."""
    title, reasons = "No trace in this experiment", explain_missing_trace(runs)
    if any(map(find_remedies, runs)):
        # For a recorded program the reason names a suitable window.
        return format_element(
            "div", format_text("h2", title) + _format_paragraphs(reasons), "empty"
        )
    return format_gap(Part.TIMELINE, runs, title, reasons)


def _format_paragraphs(lines: Iterable[str]) -> str:
    return "".join(format_text("p", line) for line in lines)
