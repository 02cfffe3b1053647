"""The plans of a step on several streams: what each takes of memory and of time."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from graphviz_dash.charts.figures.axes import time_unit
from graphviz_dash.charts.figures.theme import dress
from graphviz_dash.charts.palette import BASELINE, CRITICAL, RUN
from graphviz_dash.charts.shades import Shade, Theme, shade
from graphviz_dash.features.prediction.analysis.measured import (
    attempt_ns,
    attempts_by_streams,
    chosen_attempt,
)
from graphviz_dash.model.parallel import Attempt, ParallelPlan
from graphviz_dash.units import counted, format_bytes, format_ns

_MIB = 1 << 20


def plan_memory_chart(plan: ParallelPlan, theme: Theme) -> go.Figure | None:
    """Each plan by its memory in MiB and its replay, with the number of its streams: filled where
    it was timed, hollow where it was predicted only, dotted the memory that was allowed. None where
    fewer than two plans beside the line tell both."""
    chosen = chosen_attempt(plan)
    told = [each for each in attempts_by_streams(plan) if _size(each) and each.differs_at is None]
    if len(told) < 3:
        return None
    longest_ns = max(map(_time_ns, told))
    unit = time_unit(longest_ns)
    timed = [each for each in told if each.replays_ns and each is not chosen]
    predicted = [each for each in told if not each.replays_ns and each is not chosen]
    figure = go.Figure()
    for name, group, symbol, colour in (
        ("timed", timed, "circle", RUN),
        ("predicted", predicted, "circle-open", BASELINE),
        ("taken", [each for each in told if each is chosen], "diamond", CRITICAL),
    ):
        if group:
            figure.add_trace(_points(name, group, symbol, colour, unit.ns, theme))
    if plan.memory_limit_bytes is not None:
        line = {"dash": "dot", "width": 1.5, "color": shade(BASELINE, theme)}
        figure.add_vline(x=plan.memory_limit_bytes / _MIB, line=line)
    dress(figure, theme, 260)
    figure.update_layout(showlegend=True)
    figure.update_xaxes(title_text="MiB by number of streams (dotted: allowed)", rangemode="tozero")
    top = 1.25 * longest_ns / unit.ns
    figure.update_yaxes(title_text=f"{unit.name} a replay", range=[0, top])
    return figure


def _points(
    name: str,
    attempts: Sequence[Attempt],
    symbol: str,
    colour: Shade,
    unit_ns: float,
    theme: Theme,
) -> go.Scatter:
    return go.Scatter(
        x=[_size(each) / _MIB for each in attempts],
        y=[_time_ns(each) / unit_ns for each in attempts],
        mode="markers+text",
        text=[str(each.streams) for each in attempts],
        textposition="top center",
        marker={"symbol": symbol, "size": 11, "color": shade(colour, theme)},
        name=name,
        customdata=[
            f"{counted(each.streams, 'stream')}: {format_ns(round(_time_ns(each)))}, "
            f"{format_bytes(_size(each))}"
            for each in attempts
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _size(attempt: Attempt) -> int:
    return attempt.memory_bytes or attempt.expected_bytes or 0


def _time_ns(attempt: Attempt) -> float:
    return attempt_ns(attempt) or attempt.expected_ns
