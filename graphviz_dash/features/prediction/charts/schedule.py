"""List scheduling time of a graph for each number of streams."""

from __future__ import annotations

import plotly.graph_objects as go

from graphviz_dash.analysis.nodes.measured_graph import MeasuredGraph
from graphviz_dash.charts.figures.axes import choose_time_unit
from graphviz_dash.charts.figures.theme import apply_theme
from graphviz_dash.charts.palette import CRITICAL, RUN
from graphviz_dash.charts.shades import Theme, get_colour
from graphviz_dash.units import format_ns


def draw_schedule(graph: MeasuredGraph, theme: Theme) -> go.Figure | None:
    """Draw a bar per number of streams down to the critical path; None if one stream suffices."""
    if len(graph.schedules) < 2:
        return None
    unit = choose_time_unit(graph.schedules[0].length)
    figure = go.Figure()
    figure.add_bar(
        x=[str(schedule.streams) for schedule in graph.schedules],
        y=[schedule.length / unit.ns for schedule in graph.schedules],
        text=[format_ns(schedule.length) for schedule in graph.schedules],
        textposition="outside",
        cliponaxis=False,
        marker={"color": get_colour(RUN, theme), "line": {"width": 0}},
        width=0.5,
        hovertemplate="%{text} on %{x} streams<extra></extra>",
    )
    figure.add_hline(
        y=graph.path.length / unit.ns,
        line={"dash": "dot", "width": 1.5, "color": get_colour(CRITICAL, theme)},
    )
    figure.update_layout(showlegend=False)
    apply_theme(figure, theme, 230)
    figure.update_xaxes(
        title_text="streams (dotted: critical path)", type="category", showgrid=False
    )
    figure.update_yaxes(
        title_text=f"{unit.name}, durations as traced",
        range=[0, graph.schedules[0].length / unit.ns * 1.18],
    )
    return figure
