"""Chart of profiler overhead: slowdown of each measure by observer."""

from __future__ import annotations

from html import escape
from typing import Final

import plotly.graph_objects as go

from graphviz_dash.charts.figures.axes import build_error_bars, compute_log_ticks
from graphviz_dash.charts.figures.theme import apply_theme, compute_label_width, set_row_margins
from graphviz_dash.charts.palette import MODULE_SHADES
from graphviz_dash.charts.shades import Theme, get_colour
from graphviz_dash.features.launch.analysis.observer_effect import (
    MeasureEffect,
    ObserverEffect,
    ObserverRow,
    StepMeasure,
)
from graphviz_dash.features.launch.observer_narrative import (
    MEASURE_TITLES,
    OBSERVER_MEANINGS,
    OBSERVER_TITLES,
)
from graphviz_dash.model.observers import Observer
from graphviz_dash.units import format_ns, format_ratio

_SYMBOLS: Final = {
    StepMeasure.LAUNCH: "circle",
    StepMeasure.STEP: "square",
    StepMeasure.INTERVAL: "square-open",
    StepMeasure.DEVICE: "diamond",
    StepMeasure.REPORTED: "diamond-open",
}
_ROW_HEIGHT: Final = 58
_ROW_OFFSET: Final = 0.13
_VERTICAL_MARGIN: Final = 81


def draw_observers(effect: ObserverEffect, theme: Theme) -> go.Figure:
    """Draw a mark per measure and observer on a logarithmic scale. The band around 1 is the
    difference between two unobserved processes."""
    figure = go.Figure()
    rows = [row for row in effect.rows if row.observer is not Observer.NONE]
    for number, (measure, (title, meaning)) in enumerate(MEASURE_TITLES.items()):
        measured = [
            (row, measure_effect)
            for row in rows
            if (measure_effect := row.effects.get(measure)) is not None
            and measure_effect.ratio is not None
        ]
        colour = get_colour(MODULE_SHADES[number % len(MODULE_SHADES)], theme)
        figure.add_scatter(
            name=title,
            x=[measure_effect.ratio for _, measure_effect in measured],
            # Side by side within a row, since most measures are close together.
            y=[
                rows.index(row) + _ROW_OFFSET * (number - len(MEASURE_TITLES) // 2)
                for row, _ in measured
            ],
            mode="markers",
            marker={
                "symbol": _SYMBOLS[measure],
                "size": 12,
                "color": colour,
                "line": {"width": 2, "color": colour},
            },
            error_x=_build_error_bars([measure_effect for _, measure_effect in measured]),
            text=[
                _format_hover(row, measure_effect, title, meaning)
                for row, measure_effect in measured
            ],
            hovertemplate="%{text}<extra></extra>",
        )
    for number in range(1, len(rows)):
        figure.add_hline(y=number - 0.5, line_width=1, line_color="#808896", opacity=0.25)
    noise = max(effect.noise[StepMeasure.STEP], 1.005)
    figure.add_vrect(x0=1 / noise, x1=noise, opacity=0.14, line_width=0, fillcolor="#808896")
    figure.add_vline(x=1, line_width=1, line_color="#808896")
    names = [escape(OBSERVER_TITLES[row.observer]) for row in rows]
    set_row_margins(
        apply_theme(figure, theme, _VERTICAL_MARGIN + _ROW_HEIGHT * len(rows)),
        compute_label_width(names),
    )
    figure.update_yaxes(
        tickvals=[*range(len(rows))],
        ticktext=names,
        range=[len(rows) - 0.5, -0.5],
        showgrid=False,
        ticksuffix="  ",
        tickfont={"family": "Inter, sans-serif", "size": 13},
    )
    ticks = compute_log_ticks(ratio for trace in figure.data for ratio in trace.x)
    figure.update_xaxes(
        title_text="slowdown relative to no observer (on the GPU: relative to CUDA events)",
        type="log",
        tickvals=ticks,
        ticktext=[f"{tick:,g}x" for tick in ticks],
    )
    return figure


def _build_error_bars(effects: list[MeasureEffect]) -> dict[str, object]:
    """Build 95% intervals; none for totals."""
    intervals = [effect.interval for effect in effects]
    ends = [(None, None) if end is None else (end.low, end.high) for end in intervals]
    return build_error_bars([effect.ratio or 0.0 for effect in effects], ends, thickness=1, width=3)


def _format_hover(row: ObserverRow, effect: MeasureEffect, title: str, meaning: str) -> str:
    source = f"<br>{escape(row.source)}" if row.source else ""
    observer = escape(OBSERVER_TITLES[row.observer])
    return (
        f"<b>{observer}</b>: {OBSERVER_MEANINGS[row.observer]}{source}<br>"
        f"{title} {format_ns(effect.value)}, <b>{format_ratio(effect.ratio)}</b><br>{meaning}"
    )
