"""Format step time breakdowns as bars, one per run."""

from __future__ import annotations

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.step_comparison.time_by_category import (
    WAITING_FOR_RANKS,
    TimeByCategory,
)
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.charts.palette import CATEGORY_SHADES
from graphviz_dash.charts.shades import Theme, get_colour
from graphviz_dash.guidance.remedies import has_trace
from graphviz_dash.model.absence import Missing
from graphviz_dash.ui.page.markup import escape_html, format_element, format_text
from graphviz_dash.units import format_ns, format_percent


def format_time_bars(comparison: Comparison, theme: Theme) -> str:
    """Format a bar per run with a step time, on one scale, with a legend.

    Bars are split if the trace allows it; empty if none can be split.
    """
    divided = [
        run.time_by_category
        for run in comparison.runs
        if not isinstance(run.time_by_category, Missing)
    ]
    if not divided:
        return ""
    longest = max(
        *(breakdown.step_ns for breakdown in divided),
        *(run.step.value or 0.0 for run in comparison.runs),
    )
    cells = []
    for run in comparison.runs:
        breakdown = run.time_by_category
        if isinstance(breakdown, Missing):
            if run.step.value is not None:
                cells += _format_undivided_bar(run, run.step.value, longest, breakdown)
            continue
        cells.append(format_text("span", run.name, "name"))
        cells.append(_format_bar(run, breakdown, longest, theme))
        star = "" if breakdown.excess_ns is None else format_element("sup", "*")
        cells.append(
            format_element("span", escape_html(format_ns(breakdown.step_ns)) + star, "time")
        )
    return format_element("div", "".join(cells), "bars") + format_element(
        "div", _format_legend(divided, theme), "key"
    )


def format_placeholder_bars(comparison: Comparison) -> str:
    """Format the placeholder of :func:`format_time_bars`."""
    timed = [run for run in comparison.runs if run.step.value is not None and has_trace(run.run)]
    if not timed:
        return ""
    cells = [
        format_text("span", run.name, "name")
        + format_element("div", "", "bar")
        + format_text("span", run.step.text, "time")
        for run in timed
    ]
    key = format_element("span", "Loading the traces…", role="status")
    return format_element("div", "".join(cells), "bars") + format_element("div", key, "key")


def _format_legend(divided: list[TimeByCategory], theme: Theme) -> str:
    categories = {part.category for breakdown in divided for part in breakdown.parts}
    entries = [
        f'<i style="background:{get_colour(CATEGORY_SHADES[category], theme)}"></i>'
        + escape_html(category.value)
        for category in Category
        if category in categories
    ]
    if any(breakdown.waiting_ns for breakdown in divided):
        entries.append(f'<i class="waiting"></i>{WAITING_FOR_RANKS}')
    entries.append('<i class="idle"></i>GPU idle')
    if any(breakdown.excess_ns is not None for breakdown in divided):
        entries.append("* traced GPU time exceeds step time")
    if any(breakdown.profiled for breakdown in divided):
        entries.append("profiled times only")
    return "".join(format_element("span", entry) for entry in entries)


def _format_undivided_bar(
    run: RunComparison, step_ns: float, longest: float, missing: Missing
) -> list[str]:
    piece = format_element(
        "i",
        "",
        "undivided",
        style=_format_width(step_ns / longest),
        title=f"no breakdown: {missing.reason}",
    )
    label = f"{run.name}: {format_ns(step_ns)} per step, no breakdown"
    return [
        format_text("span", run.name, "name"),
        format_element("div", piece, "bar", role="img", **{"aria-label": label}),
        format_text("span", format_ns(step_ns), "time"),
    ]


def _format_bar(run: RunComparison, breakdown: TimeByCategory, longest: float, theme: Theme) -> str:
    parts = [
        _format_segment(
            part.category.value,
            part.ns,
            breakdown,
            longest,
            get_colour(CATEGORY_SHADES[part.category], theme),
        )
        for part in breakdown.scaled_parts
    ]
    for name, ns, kind in (
        (WAITING_FOR_RANKS, breakdown.waiting_ns, "waiting"),
        ("GPU idle", breakdown.idle_ns, "idle"),
    ):
        if ns:
            title = f"{name}: {format_ns(ns)}, {format_percent(ns / breakdown.step_ns)}"
            parts.append(
                format_element("i", "", kind, style=_format_width(ns / longest), title=title)
            )
    busy = format_percent(breakdown.busy_ns / breakdown.step_ns)
    label = f"{run.name}: {format_ns(breakdown.step_ns)} per step, GPU busy {busy}"
    return format_element("div", "".join(parts), "bar", role="img", **{"aria-label": label})


def _format_segment(
    name: str, ns: float, breakdown: TimeByCategory, longest: float, colour: str
) -> str:
    title = f"{name}: {format_ns(ns)}, {format_percent(ns / breakdown.step_ns)} of the step"
    return format_element(
        "i", "", style=f"{_format_width(ns / longest)};background:{colour}", title=title
    )


def _format_width(share: float) -> str:
    return f"width:{share * 100:.3f}%"
