"""Charts of ranks: step time breakdown and arrival times at collectives."""

from __future__ import annotations

from html import escape
from typing import Final

import plotly.graph_objects as go

from graphviz_dash.analysis.ranks.ranks import CollectiveRow, ModeRanks
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.charts.figures.axes import TimeUnit, build_error_bars, choose_time_unit
from graphviz_dash.charts.figures.stacks import StackPart, draw_stacks
from graphviz_dash.charts.figures.theme import (
    MARKER_SYMBOLS,
    apply_theme,
    build_translucent,
)
from graphviz_dash.charts.palette import CATEGORY_SHADES, MODULE_SHADES
from graphviz_dash.charts.shades import IDLE, WARNING, Shade, Theme, get_colour
from graphviz_dash.units import format_ns, format_percent

RANK_COLOURS: Final = MODULE_SHADES
"""With more ranks, colours repeat and marker shapes differ."""

MAX_COLLECTIVES: Final = 64
"""Drawn collectives: those with the largest skew, in step order."""


def get_rank_colour(number: int, theme: Theme) -> str:
    """Return the colour of rank ``number``."""
    return get_colour(RANK_COLOURS[number % len(RANK_COLOURS)], theme)


def draw_rank_steps(mode: ModeRanks, theme: Theme) -> go.Figure | None:
    """Draw a bar per rank: a traced step divided into other work, exposed transfer and wait, and
    GPU idle time. None if no rank is traced."""
    rows = [row for row in mode.ranks if row.step and row.busy is not None]
    if not rows:
        return None
    waits = [row.exposed_wait or 0.0 for row in rows]
    transfers = [max((row.exposed or 0.0) - (row.exposed_wait or 0.0), 0.0) for row in rows]
    idle = [max((row.step or 0.0) - (row.busy or 0.0), 0.0) for row in rows]
    communication = CATEGORY_SHADES[Category.COMMUNICATION]

    def build_part(name: str, values: list[float], shade: Shade, shape: str = "") -> StackPart:
        hovers = [
            f"{name}<br>{format_ns(round(value))}, {format_percent(value / (row.step or 1.0))} of "
            f"the traced step<extra>rank {row.rank}</extra>"
            for value, row in zip(values, rows, strict=True)
        ]
        pattern = {"shape": shape, "size": 7, "solidity": 0.2} if shape else None
        return StackPart(name, values, hovers, shade, pattern)

    parts = (
        build_part(
            "computing", [row.compute or 0.0 for row in rows], CATEGORY_SHADES[Category.GEMM]
        ),
        build_part("transferring", transfers, communication),
        build_part("waiting for a rank", waits, communication, "x"),
        build_part("GPU idle", idle, IDLE, "/"),
    )
    steps_ns = {f"rank {row.rank}": row.step or 0.0 for row in rows}
    ends_ns = [max(row.step or 0.0, row.busy or 0.0) for row in rows]
    unit = choose_time_unit(max(ends_ns))
    title = f"{unit.name} per step under the profiler"
    return draw_stacks(parts, steps_ns, ends_ns, unit, title, theme)


def draw_arrivals(mode: ModeRanks, theme: Theme) -> go.Figure | None:
    """Draw each rank's arrival at collectives after the first rank: medians with quartiles over a
    band of clock uncertainty. None without collectives."""
    rows = select_collectives(mode)
    if not rows:
        return None
    figure = go.Figure()
    uncertainty = mode.uncertainty or 0.0
    highest = max(
        uncertainty, *(summary.spread.high or 0 for row in rows for summary in row.arrival)
    )
    unit = choose_time_unit(highest)
    figure.add_hrect(
        y0=0,
        y1=uncertainty / unit.ns,
        fillcolor=get_colour(WARNING, theme),
        opacity=0.14,
        line_width=0,
    )
    for number in range(len(mode.ranks)):
        _add_arrivals(figure, mode, rows, number, unit, theme)
    if uncertainty:
        # Only for the legend: a layout shape has no legend entry.
        figure.add_scatter(
            name=f"within clock uncertainty ({format_ns(round(uncertainty))})",
            x=[None],
            y=[None],
            mode="lines",
            fill="toself",
            fillcolor=build_translucent(get_colour(WARNING, theme)),
        )
    figure.update_xaxes(
        title_text="collective of the step",
        tickvals=list(range(len(rows))),
        ticktext=[str(row.ordinal + 1) for row in rows],
        showgrid=False,
        range=[-0.6, len(rows) - 0.4],
    )
    # Space below zero, so that markers of the first rank are not clipped.
    figure.update_yaxes(
        title_text=f"{unit.name} after the first rank",
        tickformat=",",
        range=[-0.05 * highest / unit.ns, 1.08 * max(highest, 1.0) / unit.ns],
    )
    return apply_theme(figure, theme, 270)


def _add_arrivals(
    figure: go.Figure,
    mode: ModeRanks,
    rows: list[CollectiveRow],
    number: int,
    unit: TimeUnit,
    theme: Theme,
) -> None:
    colour = get_rank_colour(number, theme)
    count = len(mode.ranks)
    # Side by side, so that equal arrivals do not hide each other.
    shift = 0.5 * (number - (count - 1) / 2) / max(count, 1)
    arrivals = [row.arrival[number] for row in rows]
    figure.add_scatter(
        name=f"rank {mode.ranks[number].rank}",
        x=[tick + shift for tick in range(len(rows))],
        y=[arrival.median / unit.ns for arrival in arrivals],
        mode="markers",
        marker={
            "size": 9,
            "color": colour,
            "symbol": MARKER_SYMBOLS[number % len(MARKER_SYMBOLS)],
            "line": {"width": 0},
        },
        error_y=build_error_bars(
            [arrival.median for arrival in arrivals],
            [(arrival.spread.low, arrival.spread.high) for arrival in arrivals],
            unit.ns,
            color=colour,
            thickness=1.4,
            width=3,
        ),
        hovertemplate=[_format_arrival(mode, row, number) for row in rows],
    )


def select_collectives(mode: ModeRanks) -> list[CollectiveRow]:
    """Select all collectives, or the MAX_COLLECTIVES with the largest skew."""
    widest = sorted(mode.collectives, key=lambda row: -row.skew.median)[:MAX_COLLECTIVES]
    return sorted(widest, key=lambda row: row.ordinal)


def _format_arrival(mode: ModeRanks, row: CollectiveRow, number: int) -> str:
    origin = row.origin.module or row.origin.op or ""
    lines = [
        f"{row.kind.value} {row.ordinal + 1}" + (f", {escape(origin[:80])}" if origin else ""),
        f"arrives {format_ns(round(row.arrival[number].median))} after the first",
        f"waits {format_ns(round(row.wait[number].median))}, then "
        f"{format_ns(round(row.transfer.median))} of transfer",
        f"last in {row.last_counts[number]} of {row.skew.spread.samples} steps",
    ]
    return "<br>".join(lines) + f"<extra>rank {mode.ranks[number].rank}</extra>"
