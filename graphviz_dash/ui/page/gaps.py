"""Format empty states with the command that collects the missing data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphviz_dash.guidance.gaps import Part, gaps
from graphviz_dash.guidance.narrative import gap_command, why_no_trace
from graphviz_dash.guidance.remedies import remedies
from graphviz_dash.model.run import Run
from graphviz_dash.ui.page.markup import element, text


def gap_markup(part: str, runs: Sequence[Run], title: str, lines: Iterable[str]) -> str:
    """Format the empty state of ``part`` for ``runs``: reason and remedy."""
    gap = gaps(runs).get(Part(part))
    remedy = None if gap is None else gap_command(gap)
    command = "" if remedy is None else _paragraphs(remedy[:1]) + element("pre", text(remedy[1]))
    return element("div", element("h2", text(title)) + _paragraphs(lines) + command, "empty")


def trace_gap_markup(runs: Sequence[Run]) -> str:
    """Format the empty state of ``runs`` without step traces."""
    title, reasons = "No trace in this experiment", why_no_trace(runs)
    if any(map(remedies, runs)):
        # For a recorded program the reason names a suitable window.
        return element("div", element("h2", text(title)) + _paragraphs(reasons), "empty")
    return gap_markup(Part.TIMELINE, runs, title, reasons)


def _paragraphs(lines: Iterable[str]) -> str:
    return "".join(element("p", text(line)) for line in lines)
