"""Pieces of markup that several pages use, made from analysis results."""

from __future__ import annotations

from collections.abc import Iterable

from graphviz_dash.analysis.categories import Category
from graphviz_dash.analysis.compare import Comparison, RunComparison
from graphviz_dash.analysis.where import WhereTimeGoes
from graphviz_dash.charts.palette import CATEGORY, IDLE, WARNING
from graphviz_dash.charts.themed import Theme, shade
from graphviz_dash.ui.markup import element, text
from graphviz_dash.units import format_ns, format_percent


def variables(theme: Theme) -> str:
    """The palette's colours that the style sheet refers to."""
    return element("style", f":root{{--idle:{shade(IDLE, theme)};--warn:{shade(WARNING, theme)}}}")


def time_bars(comparison: Comparison, theme: Theme) -> str:
    """A bar for each run that can be divided, on one scale, with its key; empty without any."""
    divided = [(run, run.where) for run in comparison.runs if run.where is not None]
    if not divided:
        return ""
    longest = max(max(where.step_ns, where.busy_ns) for _, where in divided)
    cells = []
    seen: set[Category] = set()
    for run, where in divided:
        seen |= {part.category for part in where.parts}
        cells.append(element("span", text(run.name), "name"))
        cells.append(_bar(run, where, longest, theme))
        cells.append(element("span", text(format_ns(where.step_ns)), "time"))
    key = "".join(
        element("span", _swatch(shade(CATEGORY[category], theme)) + text(category.value))
        for category in Category
        if category in seen
    )
    idle = element("span", '<i class="idle"></i>GPU idle')
    return element("div", "".join(cells), "bars") + element("div", key + idle, "key")


def _bar(run: RunComparison, where: WhereTimeGoes, longest: float, theme: Theme) -> str:
    parts = [
        _piece(
            part.ns / longest,
            part.category.value,
            part.ns,
            where,
            shade(CATEGORY[part.category], theme),
        )
        for part in where.parts
    ]
    if where.idle_ns:
        width = f"width:{where.idle_ns / longest * 100:.3f}%"
        title = (
            f"GPU idle: {format_ns(where.idle_ns)}, {format_percent(where.idle_ns / where.step_ns)}"
        )
        parts.append(element("i", "", "idle", style=width, title=title))
    busy = format_percent(where.busy_ns / where.step_ns)
    label = f"{run.name}: {format_ns(where.step_ns)} per step, GPU busy {busy}"
    return element("div", "".join(parts), "bar", role="img", **{"aria-label": label})


def _piece(share: float, name: str, ns: float, where: WhereTimeGoes, colour: str) -> str:
    title = f"{name}: {format_ns(ns)}, {format_percent(ns / where.step_ns)} of the step"
    return element("i", "", style=f"width:{share * 100:.3f}%;background:{colour}", title=title)


def _swatch(colour: str) -> str:
    return f'<i style="background:{colour}"></i>'


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Labels with values, side by side."""
    return element(
        "div",
        "".join(
            element("div", element("span", text(label)) + element("b", text(value)))
            for label, value in pairs
        ),
        "facts",
    )


def failure_notes(comparison: Comparison) -> str:
    """What failed in each run, with its place in the user's code."""
    notes = []
    for run in comparison.runs:
        for failure in run.failures:
            first = failure.message.strip().splitlines()[0] if failure.message.strip() else ""
            where = f" at <code>{text(failure.location)}</code>" if failure.location else ""
            notes.append(
                element(
                    "div",
                    f"<b>{text(run.name)} failed</b> in its {text(failure.during.value)} pass"
                    f"{where}<br>{text(failure.error)}: {text(first)}",
                    "failed",
                )
            )
    return "".join(notes)
