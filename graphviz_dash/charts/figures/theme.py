"""Theme of Plotly figures: fonts, margins and colours for light and dark pages."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from html import unescape
from importlib import import_module
from typing import Any, Final

import plotly.graph_objects as go

from graphviz_dash.charts.shades import Shade, Theme, get_colour

# Plotly detects pandas through sys.modules. While another thread imports pandas, the module there
# is incomplete and lacks the attributes that Plotly reads. Importing it here completes it first.
import_module("pandas")

TEXT: Final = Shade("#1b2130", "#e6e9f0")
_MUTED: Final = Shade("#5a6477", "#9aa4b8")
_GRID: Final = Shade("#e4e8f0", "#262d3b")
_HOVER: Final = Shade("#ffffff", "#1d2330")

_NARROW_CHARACTERS: Final = frozenset("fijlrtI.,:;'|()[]-/ ")
_WIDE_CHARACTERS: Final = frozenset("mwMW@%")
_MAX_LABEL_WIDTH: Final = 240
"""Width in pixels of a row's name above which Plotly computes the margin."""

_TICK_CHARACTER_WIDTH: Final = 6.7
"""In pixels, in a monospaced font."""
_AXIS_HEIGHT: Final = 46
"""Height in pixels of a titled axis at the bottom."""
_UNTITLED_AXIS_HEIGHT: Final = 22
_END_GAP: Final = 16
"""Pixels of an axis titled by the page, and around labels at the ends of bars."""


def apply_theme(figure: go.Figure, theme: Theme, height: int) -> go.Figure:
    """Apply the page's theme, and the height in pixels; settings of the figure take precedence.

    The page renders the legend of a complete figure, unless its layout hides it. Plotly's legend
    that wrapped in a narrow window covers the plot of a wider one.
    """
    keys = [] if figure.layout.showlegend is False else _extract_keys(figure)
    figure.update_layout(
        template=_build_template(theme),
        height=height,
        showlegend=False,
        meta={"keys": keys} if keys else None,
    )
    return figure


@cache
def _build_template(theme: Theme) -> go.layout.Template:
    """Build the page's template, ten times as fast as setting each property, which Plotly
    validates."""
    text, muted = get_colour(TEXT, theme), get_colour(_MUTED, theme)
    grid = get_colour(_GRID, theme)
    axis = {
        "gridcolor": grid,
        "zeroline": False,
        "automargin": True,
        "tickfont": {"family": "JetBrains Mono, monospace", "size": 11, "color": muted},
        "title": {"font": {"size": 12, "color": muted}, "standoff": 15},
    }
    return go.layout.Template(
        layout={
            "hovermode": "closest",
            "autotypenumbers": "strict",
            "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": "Inter, sans-serif", "size": 13, "color": text},
            "hoverlabel": {
                "bgcolor": get_colour(_HOVER, theme),
                "bordercolor": grid,
                "align": "left",
                "font": {"family": "Inter, sans-serif", "color": text},
            },
            "xaxis": axis,
            "yaxis": axis,
        }
    )


def add_end_label(figure: go.Figure, at: float, row: str, text: str) -> None:
    """Write ``text`` at the end of the bar of ``row`` at ``at``, in axis units."""
    figure.add_annotation(
        x=at,
        y=row,
        text=text,
        showarrow=False,
        xanchor="left",
        xshift=8,
        font={"family": "JetBrains Mono, monospace", "size": 12},
    )


def set_fixed_margins(figure: go.Figure, left: float, right: int = 8) -> go.Figure:
    """Set fixed margins for a themed figure with vertical axes. Otherwise Plotly draws it twice to
    measure the labels."""
    figure.update_layout(margin={"l": left, "r": right, "t": 8, "b": _AXIS_HEIGHT})
    figure.update_xaxes(automargin=False, tickangle=0)
    figure.update_yaxes(automargin=False)
    return figure


def compute_tick_width(ticks: Iterable[str]) -> float:
    """Compute the width in pixels of a numeric axis."""
    return 34 + _TICK_CHARACTER_WIDTH * max(map(len, ticks), default=1)


def set_row_margins(figure: go.Figure, left: float) -> go.Figure:
    """Apply :func:`set_fixed_margins` to a figure with row names ``left`` pixels wide; Plotly
    handles long names itself."""
    return set_fixed_margins(figure, left) if left <= _MAX_LABEL_WIDTH else figure


def compute_row_tick_width(names: Iterable[str]) -> float:
    """Compute the width in pixels of monospaced row names, with escaped markup."""
    return 10 + _TICK_CHARACTER_WIDTH * (
        2 + max((len(unescape(name)) for name in names), default=1)
    )


def compute_label_width(names: Iterable[str]) -> float:
    """Compute the width in pixels of row names with escaped markup."""
    return 17 + max((sum(map(_get_character_width, unescape(name))) for name in names), default=0.0)


def _get_character_width(character: str) -> float:
    """Return the width of a character, on the wide side."""
    if character in _NARROW_CHARACTERS:
        return 4.4
    return 11.5 if character in _WIDE_CHARACTERS else 9.0 if character.isupper() else 7.2


def apply_bar_theme(
    figure: go.Figure, theme: Theme, height: int, title: str, end: float, names: Iterable[str]
) -> go.Figure:
    """Apply the theme to horizontal bars for rows ``names`` over an axis from 0 to ``end``. The
    page renders the axis title, which wraps. The right margin fits the labels of
    :func:`add_end_label`."""
    apply_theme(figure, theme, height)
    figure.update_yaxes(
        autorange="reversed",
        showgrid=False,
        ticksuffix="  ",
        tickfont={"family": "Inter, sans-serif", "size": 13},
    )
    # The outline of the longest bar extends beyond its end.
    figure.update_xaxes(range=[0, end * 1.004], tickformat=",")
    right = _END_GAP + max((7.3 * len(note.text) for note in figure.layout.annotations), default=0)
    set_row_margins(figure, compute_label_width(names))
    figure.update_layout(margin={"r": right})
    move_title_to_page(figure, title)
    return figure


def move_title_to_page(figure: go.Figure, title: str) -> None:
    """Let the page render the title of the horizontal axis of a themed figure with its margins."""
    figure.update_layout(
        meta={"keys": [], **(figure.layout.meta or {}), "axis": title},
        margin={"b": _UNTITLED_AXIS_HEIGHT},
    )


def _extract_keys(figure: go.Figure) -> list[dict[str, str]]:
    """Extract the entries of the legend, as :func:`format_legend` of the pages takes them."""
    return [
        {"name": trace.name, **_extract_swatch(trace)}
        for trace in figure.data
        if trace.name and trace.showlegend is not False
    ]


def _extract_swatch(trace: Any) -> dict[str, str]:
    if trace.type == "bar":
        return _build_area_swatch(trace.marker.pattern, trace.marker.color)
    if trace.fillcolor:
        return _build_area_swatch(trace.fillpattern, trace.fillcolor)
    glyph = _MARK_GLYPHS[trace.marker.symbol or "circle"]
    return {
        "colour": trace.marker.color or trace.line.color,
        "dash": (trace.line.dash or "solid") if "lines" in trace.mode else "",
        "mark": glyph if "markers" in trace.mode else "",
    }


def _build_area_swatch(pattern: Any, colour: str) -> dict[str, str]:
    return {"colour": pattern.fgcolor or colour, "hatching": pattern.shape or ""}


def build_translucent(colour: str) -> str:
    """Convert #rrggbb to a translucent colour."""
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.2)"


_MARK_GLYPHS: Final = {
    "circle": "●",
    "circle-open": "○",
    "square": "■",
    "square-open": "□",
    "diamond": "◆",
    "diamond-open": "◇",
    "cross": "✚",
    "star": "★",
    "triangle-up": "▲",
    "x": "✖",
    "hexagon": "⬢",
}


MARKER_SYMBOLS: Final = (
    "circle",
    "square",
    "diamond",
    "cross",
    "triangle-up",
    "x",
    "star",
    "hexagon",
)
