"""What more streams would bring a graph: how long list scheduling takes on each number of them."""

from __future__ import annotations

import plotly.graph_objects as go

from graphviz_dash.analysis.nodes.measured_graph import MeasuredGraph
from graphviz_dash.charts.figures.theme import dress
from graphviz_dash.charts.palette import CRITICAL, MODE
from graphviz_dash.charts.shades import Theme, shade
from graphviz_dash.model.run import ExecutionMode
from graphviz_dash.units import format_ns


def schedule_chart(graph: MeasuredGraph, theme: Theme) -> go.Figure | None:
    """A bar for each number of streams down to the critical path; None where one stream is
    enough."""
    if len(graph.schedules) < 2:
        return None
    figure = go.Figure()
    figure.add_bar(
        x=[str(schedule.streams) for schedule in graph.schedules],
        y=[schedule.length / 1e3 for schedule in graph.schedules],
        text=[format_ns(schedule.length) for schedule in graph.schedules],
        textposition="outside",
        cliponaxis=False,
        marker={"color": shade(MODE[ExecutionMode.GRAPH], theme), "line": {"width": 0}},
        width=0.5,
        hovertemplate="%{y:,.1f} µs on %{x} streams<extra></extra>",
    )
    figure.add_hline(
        y=graph.path.length / 1e3,
        line={"dash": "dot", "width": 1.5, "color": shade(CRITICAL, theme)},
    )
    figure.update_layout(showlegend=False)
    dress(figure, theme, 230)
    figure.update_xaxes(
        title_text="streams (dotted: the critical path)", type="category", showgrid=False
    )
    figure.update_yaxes(
        title_text="µs, durations as traced", range=[0, graph.schedules[0].length / 1e3 * 1.18]
    )
    return figure
