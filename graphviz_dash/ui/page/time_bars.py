"""Format step time breakdowns as bars, one per run."""

from __future__ import annotations

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.step_comparison.time_by_category import (
    WAITING_FOR_RANKS,
    TimeByCategory,
)
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.charts.palette import CATEGORY
from graphviz_dash.charts.shades import Theme, shade
from graphviz_dash.guidance.remedies import has_trace
from graphviz_dash.model.absence import Missing
from graphviz_dash.ui.page.markup import element, text
from graphviz_dash.units import format_ns, format_percent


def time_bars(comparison: Comparison, theme: Theme) -> str:
    """Format a bar per run with a step time, on one scale, with a legend.

    Bars are split if the trace allows it; empty if none can be split.
    """
    divided = [run.where for run in comparison.runs if not isinstance(run.where, Missing)]
    if not divided:
        return ""
    longest = max(
        *(where.step_ns for where in divided),
        *(run.step.value or 0.0 for run in comparison.runs),
    )
    cells = []
    for run in comparison.runs:
        where = run.where
        if isinstance(where, Missing):
            if run.step.value is not None:
                cells += _undivided(run, run.step.value, longest, where)
            continue
        cells.append(element("span", text(run.name), "name"))
        cells.append(_bar(run, where, longest, theme))
        star = "" if where.excess_ns is None else element("sup", "*")
        cells.append(element("span", text(format_ns(where.step_ns)) + star, "time"))
    return element("div", "".join(cells), "bars") + element("div", _key(divided, theme), "key")


def waiting_bars(comparison: Comparison) -> str:
    """Format the placeholder of :func:`time_bars` before the traces are loaded."""
    timed = [run for run in comparison.runs if run.step.value is not None and has_trace(run.run)]
    if not timed:
        return ""
    cells = [
        element("span", text(run.name), "name")
        + element("div", "", "bar")
        + element("span", text(run.step.text), "time")
        for run in timed
    ]
    key = element("span", "Loading the traces…", role="status")
    return element("div", "".join(cells), "bars") + element("div", key, "key")


def _key(divided: list[TimeByCategory], theme: Theme) -> str:
    seen = {part.category for where in divided for part in where.parts}
    entries = [
        f'<i style="background:{shade(CATEGORY[category], theme)}"></i>' + text(category.value)
        for category in Category
        if category in seen
    ]
    if any(where.waiting_ns for where in divided):
        entries.append(f'<i class="waiting"></i>{WAITING_FOR_RANKS}')
    entries.append('<i class="idle"></i>GPU idle')
    if any(where.excess_ns is not None for where in divided):
        entries.append("* traced GPU time exceeds step time")
    if any(where.profiled for where in divided):
        entries.append("profiled times only")
    return "".join(element("span", entry) for entry in entries)


def _undivided(run: RunComparison, step_ns: float, longest: float, missing: Missing) -> list[str]:
    piece = element(
        "i",
        "",
        "undivided",
        style=_width(step_ns / longest),
        title=f"no breakdown: {missing.reason}",
    )
    label = f"{run.name}: {format_ns(step_ns)} per step, no breakdown"
    return [
        element("span", text(run.name), "name"),
        element("div", piece, "bar", role="img", **{"aria-label": label}),
        element("span", text(format_ns(step_ns)), "time"),
    ]


def _bar(run: RunComparison, where: TimeByCategory, longest: float, theme: Theme) -> str:
    parts = [
        _piece(part.category.value, part.ns, where, longest, shade(CATEGORY[part.category], theme))
        for part in where.shown_parts
    ]
    for name, ns, kind in (
        (WAITING_FOR_RANKS, where.waiting_ns, "waiting"),
        ("GPU idle", where.idle_ns, "idle"),
    ):
        if ns:
            title = f"{name}: {format_ns(ns)}, {format_percent(ns / where.step_ns)}"
            parts.append(element("i", "", kind, style=_width(ns / longest), title=title))
    busy = format_percent(where.busy_ns / where.step_ns)
    label = f"{run.name}: {format_ns(where.step_ns)} per step, GPU busy {busy}"
    return element("div", "".join(parts), "bar", role="img", **{"aria-label": label})


def _piece(name: str, ns: float, where: TimeByCategory, longest: float, colour: str) -> str:
    title = f"{name}: {format_ns(ns)}, {format_percent(ns / where.step_ns)} of the step"
    return element("i", "", style=f"{_width(ns / longest)};background:{colour}", title=title)


def _width(share: float) -> str:
    return f"width:{share * 100:.3f}%"
