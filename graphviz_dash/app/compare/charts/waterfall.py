"""The equation as a picture: from the baseline's step down to the run's, a bar for each cause."""

from __future__ import annotations

from html import escape
from typing import Final

import plotly.graph_objects as go
from msgspec import Struct

from graphviz_dash.analysis.step_comparison.waterfall import Cause, Waterfall
from graphviz_dash.charts.figures.axes import TimeUnit, time_unit
from graphviz_dash.charts.figures.theme import dress_bars, label_end
from graphviz_dash.charts.palette import ADDED, BASELINE, REMAINDER, RUN, SAVED
from graphviz_dash.charts.shades import Shade, Theme, shade
from graphviz_dash.narrative.equation import step_words, whole_text
from graphviz_dash.units import format_ns, format_percent

_TICKS: Final = 4

_MEANING: Final = {
    Cause.GAPS: "the GPU waited for the next launch",
    Cause.KERNELS: "durations of kernels",
    Cause.COPIES: "durations of memcpys and memsets",
    Cause.OVERLAP: "counted more than once because it ran at the same time",
    Cause.SYNCHRONISATION: "the CPU waited for the GPU within the step",
    Cause.RANKS: "the GPU waited in a collective for other ranks",
    Cause.REMAINDER: "what the traced passes do not explain",
}


def waterfall_chart(waterfall: Waterfall, theme: Theme) -> go.Figure:
    """The figure."""
    labels = [
        escape(waterfall.baseline),
        *(cause.value for cause, _ in waterfall.causes),
        escape(waterfall.run),
    ]
    bars = [_Bar(labels[0], 0, waterfall.before_ns, BASELINE, _whole(waterfall, True))]
    at = waterfall.before_ns
    whole = waterfall.before_ns - waterfall.after_ns
    for cause, saved in waterfall.causes:
        colour = REMAINDER if cause is Cause.REMAINDER else SAVED if saved >= 0 else ADDED
        bars.append(_Bar(cause.value, at, at - saved, colour, _hover(cause, saved, whole), cause))
        at -= saved
    bars.append(_Bar(labels[-1], 0, waterfall.after_ns, RUN, _whole(waterfall, False)))
    figure = go.Figure()
    longest = max(bar.span[1] for bar in bars)
    unit = time_unit(longest)
    _add(figure, bars, unit, theme)
    figure.update_layout(barmode="overlay", bargap=0.3, showlegend=False)
    title = f"{unit.name} per {step_words(waterfall.basis)} ({whole_text(waterfall.basis)})"
    dress_bars(figure, theme, 306, title, longest / unit.ns, labels)
    # Each bar has its figure beside it; with more, a phone's ticks touch.
    figure.update_xaxes(nticks=_TICKS)
    figure.update_yaxes(categoryorder="array", categoryarray=labels)
    return figure


class _Bar(Struct, frozen=True):
    """A bar: a step, or what a cause changes of it."""

    label: str
    """Of its row."""
    start: int
    """In ns."""
    end: int
    """In ns; before ``start`` where time was saved."""
    colour: Shade
    """Of the bar."""
    hover: str
    """What the tooltip says."""
    cause: Cause | None = None
    """What changes the step; None for a whole step."""

    @property
    def span(self) -> tuple[int, int]:
        return min(self.start, self.end), max(self.start, self.end)


def _add(figure: go.Figure, bars: list[_Bar], unit: TimeUnit, theme: Theme) -> None:
    """The bars, each with its time at its right end; all of them in one trace, of which Plotly
    draws each as slowly as a figure of its own. The remainder is nothing that was found: its bar is
    hatched and hollow."""
    colours = [shade(bar.colour, theme) for bar in bars]
    hollow = [bar.cause is Cause.REMAINDER for bar in bars]
    figure.add_bar(
        y=[bar.label for bar in bars],
        x=[(high - low) / unit.ns for low, high in (bar.span for bar in bars)],
        base=[bar.span[0] / unit.ns for bar in bars],
        orientation="h",
        marker={
            "color": [
                "rgba(0,0,0,0)" if empty else colour
                for colour, empty in zip(colours, hollow, strict=True)
            ],
            "line": {"width": [int(empty) for empty in hollow], "color": colours},
            "pattern": {
                "shape": ["/" if empty else "" for empty in hollow],
                "fgcolor": colours,
                "size": 6,
                "solidity": 0.2,
            },
        },
        hovertemplate=[bar.hover for bar in bars],
    )
    for bar in bars:
        low, high = bar.span
        sign = _sign(bar.end - bar.start) if bar.cause else ""
        label_end(figure, high / unit.ns, bar.label, f"{sign}{format_ns(high - low)}")


def _sign(change: int) -> str:
    return "+" if change > 0 else "\N{MINUS SIGN}" if change < 0 else ""


def _whole(waterfall: Waterfall, before: bool) -> str:
    name, ns = (
        (waterfall.baseline, waterfall.before_ns) if before else (waterfall.run, waterfall.after_ns)
    )
    what = step_words(waterfall.basis)
    return f"{what} (median)<br>{format_ns(ns)}<extra>{escape(name)}</extra>"


def _hover(cause: Cause, saved: int, whole: int) -> str:
    word = "less" if saved >= 0 else "more"
    share = f", {format_percent(abs(saved) / abs(whole))} of the difference" if whole else ""
    return f"{_MEANING[cause]}<br>{format_ns(abs(saved))} {word}{share}<extra></extra>"
