"""The equation as a picture: from the baseline's step down to the run's, a bar for each cause."""

from __future__ import annotations

from html import escape
from typing import Final

import plotly.graph_objects as go

from graphviz_dash.analysis.waterfall import Cause, Waterfall
from graphviz_dash.charts.palette import ADDED, MODE, REMAINDER, SAVED
from graphviz_dash.charts.shades import Shade, Theme, shade
from graphviz_dash.charts.themed import dress_bars, label_end
from graphviz_dash.model.run import ExecutionMode
from graphviz_dash.units import format_ns, format_percent

_MEANING: Final = {
    Cause.GAPS: "the GPU waited for the next launch",
    Cause.KERNELS: "the GPU ran kernels",
    Cause.COPIES: "the GPU copied and set memory",
    Cause.SYNCHRONISATION: "the CPU waited for the GPU within the step",
    Cause.RANKS: "the GPU waited in a collective for other ranks",
    Cause.REMAINDER: "what the traced passes do not explain",
}


def waterfall_chart(
    found: Waterfall, modes: tuple[ExecutionMode, ExecutionMode], theme: Theme
) -> go.Figure:
    """The figure; ``modes`` are those of the baseline and the run, for their colours."""
    labels = [
        escape(found.baseline),
        *(cause.value for cause, _ in found.causes),
        escape(found.run),
    ]
    figure = go.Figure()
    _add(figure, labels[0], 0, found.before_ns, shade(MODE[modes[0]], theme), _whole(found, True))
    at = found.before_ns
    whole = found.before_ns - found.after_ns
    for cause, saved in found.causes:
        colour = REMAINDER if cause is Cause.REMAINDER else SAVED if saved >= 0 else ADDED
        hover = _hover(cause, saved, whole)
        _add(figure, cause.value, at, at - saved, shade(colour, theme), hover, signed=True)
        if cause is Cause.REMAINDER:
            _hatch(figure, colour, theme)
        at -= saved
    _add(figure, labels[-1], 0, found.after_ns, shade(MODE[modes[1]], theme), _whole(found, False))
    longest = max(found.before_ns, found.after_ns)
    figure.update_layout(barmode="overlay", bargap=0.3, showlegend=False)
    title = "us per step (clean step times, their difference divided by the traced passes)"
    # Room at the right for the times.
    dress_bars(figure, theme, 330, title, longest / 1e3 * 1.24)
    figure.update_yaxes(categoryorder="array", categoryarray=labels)
    return figure


def _add(
    figure: go.Figure,
    label: str,
    start: int,
    end: int,
    colour: str,
    hover: str,
    *,
    signed: bool = False,
) -> None:
    """A bar from ``start`` to ``end`` (ns) with its time at its right end."""
    low, high = min(start, end), max(start, end)
    figure.add_bar(
        y=[label],
        x=[(high - low) / 1e3],
        base=[low / 1e3],
        orientation="h",
        marker={"color": colour, "line": {"width": 0}},
        hovertemplate=hover,
    )
    sign = _sign(end - start) if signed else ""
    label_end(figure, high / 1e3, label, f"{sign}{format_ns(high - low)}")


def _sign(change: int) -> str:
    return "+" if change > 0 else "\N{MINUS SIGN}" if change < 0 else ""


def _hatch(figure: go.Figure, colour: Shade, theme: Theme) -> None:
    """The remainder is nothing that was found: its bar is hatched and hollow."""
    line = shade(colour, theme)
    figure.data[-1].marker = {
        "color": "rgba(0,0,0,0)",
        "line": {"width": 1, "color": line},
        "pattern": {"shape": "/", "fgcolor": line, "size": 6, "solidity": 0.2},
    }


def _whole(found: Waterfall, before: bool) -> str:
    name, ns = (found.baseline, found.before_ns) if before else (found.run, found.after_ns)
    return f"clean step time (median)<br>{format_ns(ns)}<extra>{escape(name)}</extra>"


def _hover(cause: Cause, saved: int, whole: int) -> str:
    word = "less" if saved >= 0 else "more"
    share = f", {format_percent(abs(saved) / abs(whole))} of the difference" if whole else ""
    return f"{_MEANING[cause]}<br>{format_ns(abs(saved))} {word}{share}<extra></extra>"
