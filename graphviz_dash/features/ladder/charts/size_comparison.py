"""Replay time of one family by size in several runs."""

from __future__ import annotations

from html import escape

import plotly.graph_objects as go

from graphviz_dash.charts.figures.axes import choose_time_unit
from graphviz_dash.charts.figures.theme import apply_theme
from graphviz_dash.charts.palette import MODULE_SHADES
from graphviz_dash.charts.shades import Theme, get_colour
from graphviz_dash.features.ladder.analysis.size_comparison import SizeComparison
from graphviz_dash.features.ladder.charts.families import build_size_ticks
from graphviz_dash.units import format_ns

_WIDE_RANGE = 16
_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "x", "star")


def draw_size_comparison(compared: SizeComparison, theme: Theme) -> go.Figure | None:
    """Draw a line per run; None if no replay was timed."""
    timed = {
        run: [member for member in family.members if member.size and member.gpu]
        for run, family in compared.families.items()
    }
    medians = [m.gpu.median for members in timed.values() for m in members if m.gpu]
    if not medians:
        return None
    unit = choose_time_unit(max(medians))
    figure = go.Figure()
    for number, (run, members) in enumerate(timed.items()):
        figure.add_scatter(
            name=escape(run),
            x=[member.size for member in members],
            y=[member.gpu.median / unit.ns for member in members if member.gpu],
            mode="lines+markers",
            line={
                "color": get_colour(MODULE_SHADES[number % len(MODULE_SHADES)], theme),
                "width": 1.5,
            },
            marker={"size": 7, "symbol": _SYMBOLS[number % len(_SYMBOLS)]},
            text=[
                f"<b>{escape(run)}</b>, {member.size:,}<br>{format_ns(member.gpu.median)}"
                for member in members
                if member.gpu
            ],
            hovertemplate="%{text}<extra></extra>",
        )
    apply_theme(figure, theme, 290)
    sizes = [member.size or 1 for members in timed.values() for member in members]
    is_log = max(sizes) > _WIDE_RANGE * min(sizes)
    figure.update_xaxes(
        title_text=escape(compared.axis),
        type="log" if is_log else "linear",
        **build_size_ticks(sizes, sizes, is_log=is_log),
    )
    figure.update_yaxes(title_text=f"replay, {unit.name}", rangemode="tozero", tickformat=",")
    return figure
