"""Memory and time of multi-stream plans of a step."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from graphviz_dash.charts.figures.axes import choose_time_unit
from graphviz_dash.charts.figures.theme import apply_theme
from graphviz_dash.charts.palette import BASELINE, CRITICAL, RUN
from graphviz_dash.charts.shades import Shade, Theme, get_colour
from graphviz_dash.features.prediction.analysis.measured import (
    compute_attempt_ns,
    select_attempt,
    sort_attempts,
)
from graphviz_dash.model.parallel import Attempt, ParallelPlan
from graphviz_dash.units import format_bytes, format_ns, pluralize

_MIB = 1 << 20


def draw_plan_memory(plan: ParallelPlan, theme: Theme) -> go.Figure | None:
    """Draw plans by memory in MiB and replay time, labelled with their stream count. Timed plans
    are filled; a dotted line marks the memory limit. None if fewer than three plans have both
    values."""
    chosen = select_attempt(plan)
    complete = [
        attempt
        for attempt in sort_attempts(plan)
        if _get_size(attempt) and attempt.differs_at is None
    ]
    if len(complete) < 3:
        return None
    longest_ns = max(map(_get_time_ns, complete))
    unit = choose_time_unit(longest_ns)
    timed = [attempt for attempt in complete if attempt.replays_ns and attempt is not chosen]
    predicted = [
        attempt for attempt in complete if not attempt.replays_ns and attempt is not chosen
    ]
    figure = go.Figure()
    for name, group, symbol, colour in (
        ("timed", timed, "circle", RUN),
        ("predicted", predicted, "circle-open", BASELINE),
        ("chosen", [attempt for attempt in complete if attempt is chosen], "diamond", CRITICAL),
    ):
        if group:
            figure.add_trace(_build_points(name, group, symbol, colour, unit.ns, theme))
    if plan.memory_limit_bytes is not None:
        line = {"dash": "dot", "width": 1.5, "color": get_colour(BASELINE, theme)}
        figure.add_vline(x=plan.memory_limit_bytes / _MIB, line=line)
    apply_theme(figure, theme, 230)
    figure.update_xaxes(title_text="MiB by number of streams (dotted: limit)", rangemode="tozero")
    top = 1.25 * longest_ns / unit.ns
    figure.update_yaxes(title_text=f"{unit.name} per replay", range=[0, top])
    return figure


def _build_points(
    name: str,
    attempts: Sequence[Attempt],
    symbol: str,
    colour: Shade,
    unit_ns: float,
    theme: Theme,
) -> go.Scatter:
    return go.Scatter(
        x=[_get_size(attempt) / _MIB for attempt in attempts],
        y=[_get_time_ns(attempt) / unit_ns for attempt in attempts],
        mode="markers+text",
        text=[str(attempt.streams) for attempt in attempts],
        textposition="top center",
        marker={"symbol": symbol, "size": 11, "color": get_colour(colour, theme)},
        name=name,
        customdata=[
            f"{pluralize(attempt.streams, 'stream')}: {format_ns(round(_get_time_ns(attempt)))}, "
            f"{format_bytes(_get_size(attempt))}"
            for attempt in attempts
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _get_size(attempt: Attempt) -> int:
    return attempt.memory_bytes or attempt.predicted_bytes or 0


def _get_time_ns(attempt: Attempt) -> float:
    return compute_attempt_ns(attempt) or attempt.predicted_ns
