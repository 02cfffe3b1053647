"""The pictures of ranks: where each rank's step goes, and who arrives when at each collective."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Final

import plotly.graph_objects as go

from graphviz_dash.analysis.ranks.ranks import CollectiveRow, ModeRanks, RankRow
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.charts.figures.comparison import SYMBOLS
from graphviz_dash.charts.figures.theme import dress, dress_bars, label_end
from graphviz_dash.charts.palette import CATEGORY, MODULES
from graphviz_dash.charts.shades import IDLE, WARNING, Shade, Theme, shade
from graphviz_dash.units import format_ns, format_percent

RANK_COLOURS: Final = MODULES
"""For ranks in turn; beyond them colours repeat, and the marker's shape tells ranks apart."""

MOST_COLLECTIVES: Final = 64
"""Collectives drawn; of more, those with the largest skew, in the order of the step."""


def rank_colour(place: int, theme: Theme) -> str:
    """The colour of the rank at ``place``."""
    return shade(RANK_COLOURS[place % len(RANK_COLOURS)], theme)


def rank_steps_chart(found: ModeRanks, theme: Theme) -> go.Figure | None:
    """A bar for each rank: a traced step, divided into other work, exposed transfer, exposed wait
    and idle GPU. None where no rank is traced."""
    rows = [row for row in found.ranks if row.step and row.busy is not None]
    if not rows:
        return None
    figure = go.Figure()
    labels = [escape(f"rank {row.rank}") for row in rows]
    communication = CATEGORY[Category.COMMUNICATION]
    _bar(figure, "computing", rows, labels, _computing, CATEGORY[Category.GEMM], theme)
    _bar(figure, "transferring", rows, labels, _transferring, communication, theme)
    _bar(figure, "waiting for a rank", rows, labels, _waiting, communication, theme, "x")
    _bar(figure, "GPU idle", rows, labels, _idle, IDLE, theme, "/")
    for row, label in zip(rows, labels, strict=True):
        end = max(row.step or 0.0, row.busy or 0.0) / 1e3
        label_end(figure, end, label, format_ns(row.step))
    figure.update_layout(barmode="stack", bargap=0.34)
    longest = max(max(row.step or 0.0, row.busy or 0.0) for row in rows)
    title = "us per step under the profiler"
    # Room at the right for the times.
    return dress_bars(figure, theme, 112 + 42 * len(rows), title, longest / 1e3 * 1.09, labels)


def _computing(row: RankRow) -> float:
    return row.compute or 0.0


def _transferring(row: RankRow) -> float:
    return max((row.exposed or 0.0) - _waiting(row), 0.0)


def _waiting(row: RankRow) -> float:
    return row.exposed_wait or 0.0


def _idle(row: RankRow) -> float:
    return max((row.step or 0.0) - (row.busy or 0.0), 0.0)


def _bar(
    figure: go.Figure,
    name: str,
    rows: list[RankRow],
    labels: list[str],
    part: Callable[[RankRow], float],
    colour: Shade,
    theme: Theme,
    pattern: str = "",
) -> None:
    values = [part(row) for row in rows]
    if not any(values):
        return
    own = shade(colour, theme)
    marker: dict[str, object] = {"color": own, "line": {"width": 0}}
    if pattern:
        marker = {
            "color": "rgba(0,0,0,0)",
            "line": {"width": 1, "color": own},
            "pattern": {"shape": pattern, "fgcolor": own, "size": 7, "solidity": 0.2},
        }
    figure.add_bar(
        name=name,
        y=labels,
        x=[value / 1e3 for value in values],
        orientation="h",
        marker=marker,
        hovertemplate=[
            f"{name}<br>{format_ns(round(value))}, {format_percent(value / (row.step or 1.0))} of "
            f"the traced step<extra>rank {row.rank}</extra>"
            for value, row in zip(values, rows, strict=True)
        ],
    )


def arrivals_chart(found: ModeRanks, theme: Theme) -> go.Figure | None:
    """For each collective of the step when each rank reached it, after the first rank: medians with
    quartiles, over a band of what the clocks cannot tell. None without collectives."""
    rows = drawn_collectives(found)
    if not rows:
        return None
    figure = go.Figure()
    uncertainty = found.uncertainty or 0.0
    figure.add_hrect(
        y0=0,
        y1=uncertainty / 1e3,
        fillcolor=shade(WARNING, theme),
        opacity=0.14,
        line_width=0,
    )
    ticks = list(range(len(rows)))
    count = len(found.ranks)
    for place, rank in enumerate(found.ranks):
        colour = rank_colour(place, theme)
        medians = [row.arrival[place].median for row in rows]
        # Beside each other, or equal arrivals would hide one another.
        shift = 0.5 * (place - (count - 1) / 2) / max(count, 1)
        figure.add_scatter(
            name=f"rank {rank.rank}",
            x=[tick + shift for tick in ticks],
            y=[median / 1e3 for median in medians],
            mode="markers",
            marker={
                "size": 9,
                "color": colour,
                "symbol": SYMBOLS[place % len(SYMBOLS)],
                "line": {"width": 0},
            },
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [_above(row, place) / 1e3 for row in rows],
                "arrayminus": [_below(row, place) / 1e3 for row in rows],
                "color": colour,
                "thickness": 1.4,
                "width": 3,
            },
            hovertemplate=[_arrival(found, row, place) for row in rows],
        )
    if uncertainty:
        # For the legend alone: a shape of the layout has no entry in it.
        figure.add_scatter(
            name=f"together, as far as the clocks tell ({format_ns(round(uncertainty))})",
            x=[None],
            y=[None],
            mode="markers",
            marker={
                "symbol": "square",
                "size": 13,
                "color": shade(WARNING, theme),
                "opacity": 0.3,
            },
        )
    figure.update_xaxes(
        title_text="collective of the step",
        tickvals=ticks,
        ticktext=[str(row.ordinal + 1) for row in rows],
        showgrid=False,
        range=[-0.6, len(rows) - 0.4],
    )
    highest = max(
        uncertainty,
        *(row.arrival[place].spread.high or 0 for row in rows for place in range(count)),
    )
    # Room below, or the markers of those that are first would be cut in half.
    figure.update_yaxes(
        title_text="us after the first rank",
        tickformat=",",
        range=[-0.05 * highest / 1e3, 1.08 * max(highest, 1.0) / 1e3],
    )
    return dress(figure, theme, 300)


def drawn_collectives(found: ModeRanks) -> list[CollectiveRow]:
    """Those that are drawn: all, or the MOST_COLLECTIVES of largest skew."""
    widest = sorted(found.collectives, key=lambda row: -row.skew.median)[:MOST_COLLECTIVES]
    return sorted(widest, key=lambda row: row.ordinal)


def _above(row: CollectiveRow, place: int) -> float:
    summary = row.arrival[place]
    return max((summary.spread.high or 0.0) - summary.median, 0.0)


def _below(row: CollectiveRow, place: int) -> float:
    summary = row.arrival[place]
    return max(summary.median - summary.spread.low, 0.0)


def _arrival(found: ModeRanks, row: CollectiveRow, place: int) -> str:
    origin = row.origin.module or row.origin.op or ""
    lines = [
        f"{row.kind.value} {row.ordinal + 1}" + (f", {escape(origin[:80])}" if origin else ""),
        f"arrives {format_ns(round(row.arrival[place].median))} after the first",
        f"waits {format_ns(round(row.wait[place].median))}, then "
        f"{format_ns(round(row.transfer.median))} of transfer",
        f"last in {row.last[place]} of {row.skew.spread.samples} steps",
    ]
    return "<br>".join(lines) + f"<extra>rank {found.ranks[place].rank}</extra>"
