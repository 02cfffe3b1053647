"""Plotly figures in the theme of the page: colours by name, resolved for light or dark."""

from __future__ import annotations

from typing import Final

import plotly.graph_objects as go

from graphviz_dash.charts.shades import Shade, Theme, shade

TEXT: Final = Shade("#1b2130", "#e6e9f0")
_MUTED: Final = Shade("#5a6477", "#9aa4b8")
_GRID: Final = Shade("#e4e8f0", "#262d3b")
_HOVER: Final = Shade("#ffffff", "#1d2330")


def dress(figure: go.Figure, theme: Theme, height: int) -> go.Figure:
    """Gives a figure the page's fonts, colours and margins, and the height in pixels."""
    text, muted = shade(TEXT, theme), shade(_MUTED, theme)
    grid = shade(_GRID, theme)
    figure.update_layout(
        height=height,
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "Inter, sans-serif", "size": 13, "color": text},
        legend={
            "orientation": "h",
            "yanchor": "bottom",
            "y": 1.02,
            "x": 0,
            "traceorder": "normal",
            "font": {"color": muted},
        },
        hoverlabel={
            "bgcolor": shade(_HOVER, theme),
            "bordercolor": grid,
            "font": {"family": "Inter, sans-serif", "color": text},
        },
    )
    axis = {
        "gridcolor": grid,
        "zeroline": False,
        "automargin": True,
        "tickfont": {"family": "JetBrains Mono, monospace", "size": 11, "color": muted},
        "title": {"font": {"size": 12, "color": muted}},
    }
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    return figure


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


def dress_bars(figure: go.Figure, theme: Theme, height: int, title: str, end: float) -> go.Figure:
    """Dresses horizontal bars, named rows from the top down, over an axis from 0 to ``end``."""
    dress(figure, theme, height)
    figure.update_yaxes(
        autorange="reversed",
        showgrid=False,
        ticksuffix="  ",
        tickfont={"family": "Inter, sans-serif", "size": 13},
    )
    figure.update_xaxes(title_text=title, range=[0, end], tickformat=",")
    return figure
