"""Empty states of what an experiment has nothing of, with the command that gets it, as markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphviz_dash.guidance.gaps import Part, gaps
from graphviz_dash.guidance.narrative import gap_command, why_no_trace
from graphviz_dash.guidance.remedies import remedies
from graphviz_dash.model.run import Run
from graphviz_dash.ui.page.markup import element, text


def gap_markup(part: str, runs: Sequence[Run], title: str, lines: Iterable[str]) -> str:
    """The empty state of ``part``, called as its page is, which ``runs`` have nothing of: why, and
    how to get it."""
    gap = gaps(runs).get(Part(part))
    to_get = None if gap is None else gap_command(gap)
    command = "" if to_get is None else _paragraphs(to_get[:1]) + element("pre", text(to_get[1]))
    return element("div", element("h2", text(title)) + _paragraphs(lines) + command, "empty")


def trace_gap_markup(runs: Sequence[Run]) -> str:
    """The empty state of ``runs`` without a trace of their steps."""
    title, reasons = "This experiment holds no trace", why_no_trace(runs)
    if any(map(remedies, runs)):
        # The line of a recorded program names the window that fits it.
        return element("div", element("h2", text(title)) + _paragraphs(reasons), "empty")
    return gap_markup(Part.TIMELINE, runs, title, reasons)


def _paragraphs(lines: Iterable[str]) -> str:
    return "".join(element("p", text(line)) for line in lines)
