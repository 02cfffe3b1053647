"""Waterfall chart of the equation: a bar per cause from the baseline's step to the run's."""

from __future__ import annotations

from html import escape
from typing import Final

import plotly.graph_objects as go
from msgspec import Struct

from graphviz_dash.analysis.step_comparison.waterfall import Cause, Waterfall
from graphviz_dash.charts.figures.axes import TimeUnit, choose_time_unit
from graphviz_dash.charts.figures.theme import add_end_label, apply_bar_theme
from graphviz_dash.charts.palette import ADDED, BASELINE, REMAINDER, RUN, SAVED
from graphviz_dash.charts.shades import Shade, Theme, get_colour
from graphviz_dash.narrative.equation import get_step_caveat, get_step_name
from graphviz_dash.units import format_ns, format_percent

_TICKS: Final = 4

_MEANING: Final = {
    Cause.GAPS: "GPU waiting for the next launch",
    Cause.KERNELS: "kernel durations",
    Cause.COPIES: "memcpy and memset durations",
    Cause.OVERLAP: "concurrent work that is counted more than once",
    Cause.SYNCHRONISATION: "CPU waiting for the GPU within the step",
    Cause.RANKS: "GPU waiting in collectives for other ranks",
    Cause.REMAINDER: "not explained by the traced passes",
}


def draw_waterfall(waterfall: Waterfall, theme: Theme) -> go.Figure:
    """Draw the waterfall."""
    labels = [
        escape(waterfall.baseline),
        *(cause.value for cause, _ in waterfall.saved_by_cause),
        escape(waterfall.run),
    ]
    bars = [_Bar(labels[0], 0, waterfall.before_ns, BASELINE, _format_step_hover(waterfall, True))]
    level = waterfall.before_ns
    difference = waterfall.before_ns - waterfall.after_ns
    for cause, saved in waterfall.saved_by_cause:
        colour = REMAINDER if cause is Cause.REMAINDER else SAVED if saved >= 0 else ADDED
        bars.append(
            _Bar(
                cause.value,
                level,
                level - saved,
                colour,
                _format_cause_hover(cause, saved, difference),
                cause,
            )
        )
        level -= saved
    bars.append(_Bar(labels[-1], 0, waterfall.after_ns, RUN, _format_step_hover(waterfall, False)))
    figure = go.Figure()
    longest = max(bar.span[1] for bar in bars)
    unit = choose_time_unit(longest)
    _add_bars(figure, bars, unit, theme)
    figure.update_layout(barmode="overlay", bargap=0.3, showlegend=False)
    title = f"{unit.name} per {get_step_name(waterfall.basis)} ({get_step_caveat(waterfall.basis)})"
    apply_bar_theme(figure, theme, 282, title, longest / unit.ns, labels)
    # Each bar has a label; more ticks would overlap on a phone.
    figure.update_xaxes(nticks=_TICKS)
    figure.update_yaxes(categoryorder="array", categoryarray=labels)
    return figure


class _Bar(Struct, frozen=True):
    label: str
    start: int
    """Start in ns."""
    end: int
    """In ns; before ``start`` if time was saved."""
    colour: Shade
    hover: str
    cause: Cause | None = None
    """Cause of the change; None for a step."""

    @property
    def span(self) -> tuple[int, int]:
        return min(self.start, self.end), max(self.start, self.end)


def _add_bars(figure: go.Figure, bars: list[_Bar], unit: TimeUnit, theme: Theme) -> None:
    """Add all bars in one trace, which is faster, with the time at the right end. The bar of the
    remainder is hatched and hollow."""
    colours = [get_colour(bar.colour, theme) for bar in bars]
    hollow = [bar.cause is Cause.REMAINDER for bar in bars]
    figure.add_bar(
        y=[bar.label for bar in bars],
        x=[(high - low) / unit.ns for low, high in (bar.span for bar in bars)],
        base=[bar.span[0] / unit.ns for bar in bars],
        orientation="h",
        marker={
            "color": [
                "rgba(0,0,0,0)" if is_hollow else colour
                for colour, is_hollow in zip(colours, hollow, strict=True)
            ],
            "line": {"width": [int(is_hollow) for is_hollow in hollow], "color": colours},
            "pattern": {
                "shape": ["/" if is_hollow else "" for is_hollow in hollow],
                "fgcolor": colours,
                "size": 6,
                "solidity": 0.2,
            },
        },
        hovertemplate=[bar.hover for bar in bars],
    )
    for bar in bars:
        low, high = bar.span
        sign = _format_sign(bar.end - bar.start) if bar.cause else ""
        add_end_label(figure, high / unit.ns, bar.label, f"{sign}{format_ns(high - low)}")


def _format_sign(change: int) -> str:
    return "+" if change > 0 else "\N{MINUS SIGN}" if change < 0 else ""


def _format_step_hover(waterfall: Waterfall, before: bool) -> str:
    name, ns = (
        (waterfall.baseline, waterfall.before_ns) if before else (waterfall.run, waterfall.after_ns)
    )
    name_of_step = get_step_name(waterfall.basis)
    return f"{name_of_step} (median)<br>{format_ns(ns)}<extra>{escape(name)}</extra>"


def _format_cause_hover(cause: Cause, saved: int, difference: int) -> str:
    word = "less" if saved >= 0 else "more"
    share = (
        f", {format_percent(abs(saved) / abs(difference))} of the difference" if difference else ""
    )
    return f"{_MEANING[cause]}<br>{format_ns(abs(saved))} {word}{share}<extra></extra>"
