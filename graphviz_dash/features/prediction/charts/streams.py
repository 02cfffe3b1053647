"""Predicted time of a graph for each number of streams, next to the captured one."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go

from graphviz_dash.analysis.nodes.measured_graph import MeasuredGraph
from graphviz_dash.charts.figures.axes import build_error_bars, choose_time_unit
from graphviz_dash.charts.figures.theme import apply_theme
from graphviz_dash.charts.palette import BASELINE, CRITICAL, RUN
from graphviz_dash.charts.shades import Theme, get_colour
from graphviz_dash.features.prediction.analysis.stream_prediction import ParallelPrediction
from graphviz_dash.features.prediction.analysis.work import NeedSource
from graphviz_dash.units import format_ns


def draw_streams(
    prediction: ParallelPrediction, measured: Mapping[int, float], theme: Theme
) -> go.Figure:
    """Draw a bar with interval per number of streams, the first as measured; ``measured`` has times
    in ns of tested captures."""
    unit = choose_time_unit(prediction.captured_ns)
    rows = prediction.rows
    figure = go.Figure()
    figure.add_bar(
        x=[str(row.streams) for row in rows],
        y=[row.step.value / unit.ns for row in rows],
        error_y=build_error_bars(
            [row.step.value for row in rows],
            [(row.step.low, row.step.high) for row in rows],
            unit.ns,
            thickness=1.5,
            width=4,
            color=get_colour(BASELINE, theme),
        ),
        text=[format_ns(round(row.step.value)) for row in rows],
        textposition="inside",
        insidetextanchor="start",
        marker={"color": get_colour(RUN, theme), "line": {"width": 0}},
        width=0.5,
        name="predicted",
        hovertemplate="%{text} on %{x} streams<extra></extra>",
    )
    if measured:
        figure.add_scatter(
            x=[str(streams) for streams in measured],
            y=[time / unit.ns for time in measured.values()],
            mode="markers",
            marker={
                "symbol": "diamond",
                "size": 10,
                "color": get_colour(CRITICAL, theme),
                "line": {"width": 1, "color": get_colour(RUN, theme)},
            },
            name="measured",
            text=[format_ns(round(time)) for time in measured.values()],
            hovertemplate="measured %{text} on %{x} streams<extra></extra>",
        )
    observed = prediction.work.source is NeedSource.OPERATORS
    lower_bound_ns = (
        prediction.lower_bound.lower_bound_ns if observed else prediction.lower_bound.capacity_ns
    )
    figure.add_hline(
        y=lower_bound_ns / unit.ns,
        line={"dash": "dot", "width": 1.5, "color": get_colour(CRITICAL, theme)},
    )
    figure.update_layout(showlegend=bool(measured))
    apply_theme(figure, theme, 230)
    figure.update_xaxes(title_text="streams (dotted: lower bound)", type="category", showgrid=False)
    figure.update_yaxes(
        title_text=f"{unit.name}, predicted", range=[0, prediction.captured_ns / unit.ns * 1.12]
    )
    return figure


def draw_schedule(graph: MeasuredGraph, theme: Theme) -> go.Figure | None:
    """Draw a bar per number of streams down to the critical path; None if one suffices."""
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
