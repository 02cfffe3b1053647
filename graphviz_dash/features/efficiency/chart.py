"""Roofline: rate of operator calls over their arithmetic intensity, under the measured limits."""

from __future__ import annotations

from html import escape
from typing import Any, Final

import plotly.graph_objects as go

from graphviz_dash.charts.figures.theme import apply_theme
from graphviz_dash.charts.shades import BLUE, CYAN, GREY, MAGENTA, ORANGE, Shade, Theme, get_colour
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.efficiency.analysis.limits import LimitTerm, UnitLimit
from graphviz_dash.features.efficiency.analysis.rates import Rates
from graphviz_dash.features.efficiency.analysis.report import EfficiencyReport
from graphviz_dash.features.efficiency.narrative import describe_limit
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.ceilings import Pipe, Traffic

NO_ARITHMETIC: Final = 0.25
"""Intensity of calls without matrix arithmetic. The roof is as high above them as the measured
bandwidth is above theirs, at any intensity."""

_HEIGHT: Final = 390
_MIN_SIZE: Final = 5.0
_MAX_SIZE: Final = 34.0
_MAX_POINTS: Final = 1_500
"""The calls with the longest times."""

_TERM_SHADES: Final[dict[LimitTerm, Shade]] = {
    LimitTerm.ARITHMETIC: BLUE,
    LimitTerm.MEMORY: CYAN,
    LimitTerm.L2: MAGENTA,
    LimitTerm.LAUNCH: ORANGE,
}
_MAX_INTENSITY: Final = 4_096.0
"""Largest intensity of the axis, in operations per byte."""


def draw_roofline(report: EfficiencyReport, theme: Theme) -> go.Figure | None:
    """Draw the calls with known limits; None without any."""
    if isinstance(report.choice, Missing):
        return None
    limits = [
        limit
        for limit in report.limits
        if limit.limit_ns is not None
        and limit.time_ns > 0
        and limit.unit.work is not None
        and limit.unit.work.total_bytes
    ]
    if not limits:
        return None
    limits = sorted(limits, key=lambda limit: -limit.time_ns)[:_MAX_POINTS]
    figure = go.Figure()
    _add_roofs(figure, Rates(report.choice.ceilings), limits, theme)
    longest_ns = limits[0].time_ns
    for term, shade in _TERM_SHADES.items():
        points = [limit for limit in limits if limit.term is term]
        if points:
            _add_points(figure, report, points, term, get_colour(shade, theme), longest_ns)
    figure.update_xaxes(type="log", title_text="FLOP per byte", dtick=1)
    figure.update_yaxes(type="log", title_text="FLOP/s", exponentformat="SI")
    return apply_theme(figure, theme, _HEIGHT)


def _add_roofs(figure: go.Figure, rates: Rates, limits: list[UnitLimit], theme: Theme) -> None:
    colour = get_colour(GREY, theme)
    pipes = {limit.pipe for limit in limits if limit.pipe is not None} or {Pipe.FP32}
    flop_rates = {
        pipe: rate for pipe in Pipe if pipe in pipes and (rate := rates.get_flop_rate(pipe))
    }
    highest = max(flop_rates.values(), default=1e12)
    for l2_hit, name, dash, side in (
        (False, "device memory", "solid", "bottom right"),
        (True, "L2 cache", "dot", "top left"),
    ):
        bandwidth = rates.compute_bandwidth(Traffic.COPY, l2_hit=l2_hit)
        if bandwidth:
            ridge = highest / bandwidth
            x = [NO_ARITHMETIC / 4, ridge]
            y = [value * bandwidth for value in x]
            # In the middle: text on a logarithmic axis has no room at the ends of the line.
            x.insert(1, (x[0] * ridge) ** 0.5)
            y.insert(1, (y[0] * highest) ** 0.5)
            _add_line(figure, x, y, ["", name, ""], dash, colour, side)
    slowest_ridge = highest / max(1.0, rates.compute_bandwidth(Traffic.COPY, l2_hit=False))
    for pipe, rate in flop_rates.items():
        left = rate / highest * slowest_ridge
        _add_line(figure, [left, _MAX_INTENSITY], [rate, rate], ["", pipe.value], "dash", colour)


def _add_line(
    figure: go.Figure,
    x: list[float],
    y: list[float],
    labels: list[str],
    dash: str,
    colour: str,
    side: str = "top left",
) -> None:
    figure.add_scatter(
        x=x,
        y=y,
        mode="lines+text",
        text=labels,
        textposition=side,
        textfont={"size": 11, "color": colour},
        line={"color": colour, "dash": dash, "width": 1.5},
        hoverinfo="skip",
        showlegend=False,
    )


def _add_points(
    figure: go.Figure,
    report: EfficiencyReport,
    points: list[UnitLimit],
    term: LimitTerm,
    colour: str,
    longest_ns: float,
) -> None:
    positions = [_locate(limit) for limit in points]
    figure.add_scatter(
        name=f"limited by {term.value}",
        x=[x for x, _ in positions],
        y=[y for _, y in positions],
        mode="markers",
        marker={
            "color": colour,
            "opacity": 0.65,
            "size": [
                _MIN_SIZE + (_MAX_SIZE - _MIN_SIZE) * (limit.time_ns / longest_ns) ** 0.5
                for limit in points
            ],
            "line": {"width": 0},
        },
        hovertemplate=[f"{_format_hover(report, limit)}<extra></extra>" for limit in points],
    )


def _locate(limit: UnitLimit) -> tuple[float, float]:
    work = limit.unit.work
    assert work is not None
    intensity = work.intensity or 0.0
    x = intensity if intensity > 0 else NO_ARITHMETIC
    return x, x * work.total_bytes * limit.runs / limit.time_ns * 1e9


def _format_hover(report: EfficiencyReport, limit: UnitLimit) -> str:
    item = report.items[limit.unit.items[0]]
    origin = item.origin
    lines: list[Any] = [
        limit.unit.call.name if limit.unit.call is not None else limit.name,
        f"{item.graph}, node {item.index}" if report.graphs else f"node {item.index}",
        describe_limit(limit),
        None if origin is None else origin.module,
        None if origin is None else origin.source,
    ]
    return "<br>".join(escape(escape_control_characters(str(line))) for line in lines if line)
