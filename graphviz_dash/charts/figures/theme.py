"""Plotly figures in the theme of the page: colours by name, resolved for light or dark."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from html import unescape
from importlib import import_module
from typing import Final

import plotly.graph_objects as go

from graphviz_dash.charts.shades import Shade, Theme, shade

# Plotly asks whether values are tables of pandas by what stands in sys.modules. There it stands by
# halves while another visitor's thread, or the one that makes pages ready, imports it, and has not
# what is asked for. After this line it is whole, or this line has failed.
import_module("pandas")

TEXT: Final = Shade("#1b2130", "#e6e9f0")
_MUTED: Final = Shade("#5a6477", "#9aa4b8")
_GRID: Final = Shade("#e4e8f0", "#262d3b")
_HOVER: Final = Shade("#ffffff", "#1d2330")

_NARROW: Final = frozenset("fijlrtI.,:;'|()[]-/ ")
_WIDE: Final = frozenset("mwMW@%")
_LONGEST_NAME: Final = 240
"""Pixels that a row's name may take before Plotly measures by itself what room there is."""

_TICK_CHARACTER: Final = 6.7
"""Pixels of a character of numbers at an axis, whose face gives all of them the same."""
_LEGEND: Final = 47
_AXIS: Final = 46
"""Pixels that a legend of one row takes at the top, and an axis with its title at the bottom."""
_UNTITLED_AXIS: Final = 22
_END_GAP: Final = 16
"""Pixels of an axis whose title the page writes, and around what is written behind bars."""


def dress(figure: go.Figure, theme: Theme, height: int) -> go.Figure:
    """Gives a figure the page's fonts, colours and margins, and the height in pixels; what the
    figure says of these itself stays."""
    figure.update_layout(template=_template(theme), height=height)
    return figure


@cache
def _template(theme: Theme) -> go.layout.Template:
    """The page's look. Plotly checks each property that is set, which for every figure anew takes
    ten times as long as to name a template; and its own is several times as large."""
    text, muted = shade(TEXT, theme), shade(_MUTED, theme)
    grid = shade(_GRID, theme)
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
            "legend": {
                "orientation": "h",
                "yanchor": "bottom",
                "y": 1.02,
                "x": 0,
                "traceorder": "normal",
                "font": {"color": muted},
            },
            "hoverlabel": {
                "bgcolor": shade(_HOVER, theme),
                "bordercolor": grid,
                "align": "left",
                "font": {"family": "Inter, sans-serif", "color": text},
            },
            "xaxis": axis,
            "yaxis": axis,
        }
    )


def label_end(figure: go.Figure, at: float, row: str, text: str) -> None:
    """Writes ``text`` behind the bar of ``row`` that ends at ``at``, in the unit of the axis."""
    figure.add_annotation(
        x=at,
        y=row,
        text=text,
        showarrow=False,
        xanchor="left",
        xshift=8,
        font={"family": "JetBrains Mono, monospace", "size": 12},
    )


def keep_margins(figure: go.Figure, left: float, right: int = 8) -> go.Figure:
    """Gives a dressed figure with upright axes, titled below, the room in pixels that its labels
    take. Plotly, which finds that out by drawing all of it twice, takes half the time then."""
    shown = figure.layout.showlegend is not False
    figure.update_layout(margin={"l": left, "r": right, "t": _LEGEND if shown else 8, "b": _AXIS})
    figure.update_xaxes(automargin=False, tickangle=0)
    figure.update_yaxes(automargin=False)
    return figure


def tick_room(ticks: Iterable[str]) -> float:
    """The pixels that labels of a titled numeric axis and its title take."""
    return 34 + _TICK_CHARACTER * max(map(len, ticks), default=1)


def keep_rows(figure: go.Figure, left: float) -> go.Figure:
    """:func:`keep_margins` of a figure whose rows have names ``left`` pixels wide; names that would
    take much of a narrow window are left to Plotly."""
    return keep_margins(figure, left) if left <= _LONGEST_NAME else figure


def row_tick_room(names: Iterable[str]) -> float:
    """The pixels that the names of rows take in the face of numbers, markup characters escaped."""
    return 10 + _TICK_CHARACTER * (2 + max((len(unescape(name)) for name in names), default=1))


def name_room(names: Iterable[str]) -> float:
    """The pixels that the names of rows take, markup characters escaped in them."""
    return 17 + max((sum(map(_advance, unescape(name))) for name in names), default=0.0)


def _advance(character: str) -> float:
    """How wide a character is in the face and size of the names of rows, on the wide side."""
    if character in _NARROW:
        return 4.4
    return 11.5 if character in _WIDE else 9.0 if character.isupper() else 7.2


def dress_bars(
    figure: go.Figure, theme: Theme, height: int, title: str, end: float, names: Iterable[str]
) -> go.Figure:
    """Dresses horizontal bars, rows called ``names`` from the top down, over an axis from 0 to
    ``end``. Legend and title of the axis are left to the page, whose lines break where a narrow
    window has no room for them; what :func:`label_end` wrote has its room at the right."""
    dress(figure, theme, height)
    keys = [] if figure.layout.showlegend is False else _keys(figure)
    figure.update_layout(showlegend=False, meta={"keys": keys, "axis": title})
    figure.update_yaxes(
        autorange="reversed",
        showgrid=False,
        ticksuffix="  ",
        tickfont={"family": "Inter, sans-serif", "size": 13},
    )
    # The outline of the longest bar is as wide on either side of its end.
    figure.update_xaxes(range=[0, end * 1.004], tickformat=",")
    right = _END_GAP + max((7.3 * len(note.text) for note in figure.layout.annotations), default=0)
    keep_rows(figure, name_room(names))
    figure.update_layout(margin={"r": right, "b": _UNTITLED_AXIS})
    return figure


def _keys(figure: go.Figure) -> list[dict[str, str]]:
    """The legend of bars as data: name, colour, and the shape of the hatching."""
    return [
        {
            "name": bar.name,
            "colour": bar.marker.pattern.fgcolor or bar.marker.color,
            "hatching": bar.marker.pattern.shape or "",
        }
        for bar in figure.data
        if bar.showlegend is not False
    ]


SYMBOLS: Final = ("circle", "square", "diamond", "cross", "triangle-up", "x", "star", "hexagon")
"""Shapes of markers that tell runs and ranks apart, in turn."""
