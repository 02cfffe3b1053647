"""Stacks of horizontal bars, one per row, for the parts of a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from msgspec import Struct

from graphviz_dash.charts.figures.axes import TimeUnit
from graphviz_dash.charts.figures.theme import add_end_label, apply_bar_theme
from graphviz_dash.charts.shades import Shade, Theme, get_colour
from graphviz_dash.units import format_ns


class StackPart(Struct, frozen=True):
    """A part of all stacks."""

    name: str
    """Label in the legend."""
    values_ns: Sequence[float]
    """Time per row, in ns."""
    hovers: Sequence[str]
    """Hover text per row, as markup."""
    shade: Shade
    pattern: Mapping[str, Any] | None = None
    """Plotly pattern of a hollow part; None for a filled one."""


def draw_stacks(
    parts: Sequence[StackPart],
    steps_ns: Mapping[str, float],
    ends_ns: Sequence[float],
    unit: TimeUnit,
    title: str,
    theme: Theme,
) -> go.Figure:
    """Draw the ``parts`` that are not 0, with the step time of each row at its end.

    Args:
        parts: parts in the order of a stack.
        steps_ns: step time by label of a row.
        ends_ns: end of each row.
        unit: unit of the axis.
        title: title of the axis.
        theme: theme of the page.
    """
    figure = go.Figure()
    for part in parts:
        if any(part.values_ns):
            colour = get_colour(part.shade, theme)
            marker = {"color": colour, "line": {"width": 0}}
            if part.pattern:
                marker = {
                    "color": "rgba(0,0,0,0)",
                    "line": {"width": 1, "color": colour},
                    "pattern": {"fgcolor": colour, **part.pattern},
                }
            figure.add_bar(
                name=part.name,
                y=list(steps_ns),
                x=[value / unit.ns for value in part.values_ns],
                orientation="h",
                marker=marker,
                hovertemplate=list(part.hovers),
            )
    for (label, step_ns), end_ns in zip(steps_ns.items(), ends_ns, strict=True):
        add_end_label(figure, end_ns / unit.ns, label, format_ns(step_ns))
    figure.update_layout(barmode="stack", bargap=0.34)
    end, height = max(ends_ns) / unit.ns, 25 + 42 * len(steps_ns)
    return apply_bar_theme(figure, theme, height, title, end, list(steps_ns))
