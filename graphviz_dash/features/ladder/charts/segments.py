"""Strip of a step: replays, eager work between them, and idle time."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Final

import plotly.graph_objects as go

from graphviz_dash.charts.figures.axes import choose_time_unit
from graphviz_dash.charts.figures.theme import apply_theme
from graphviz_dash.charts.shades import BLUE, IDLE, ORANGE, PAGE, Shade, Theme, get_colour
from graphviz_dash.features.ladder.analysis.segments import PieceKind, SegmentedStep, StepPiece
from graphviz_dash.units import format_ns, pluralize

_COLOURS: Final[Mapping[PieceKind, Shade]] = {
    PieceKind.REPLAY: BLUE,
    PieceKind.EAGER: ORANGE,
    PieceKind.IDLE: IDLE,
}


def draw_segments(step: SegmentedStep, names: Mapping[str, str], theme: Theme) -> go.Figure:
    """Draw one row of replays, eager work, and hatched idle time; ``names`` maps graph ids to
    names."""
    unit = choose_time_unit(step.duration_ns)
    figure = go.Figure()
    for kind, colour in _COLOURS.items():
        pieces = [piece for piece in step.pieces if piece.kind is kind and piece.duration_ns]
        if not pieces:
            continue
        hue = get_colour(colour, theme)
        idle = kind is PieceKind.IDLE
        figure.add_bar(
            name=kind.value,
            y=["step"] * len(pieces),
            x=[piece.duration_ns / unit.ns for piece in pieces],
            base=[piece.start_ns / unit.ns for piece in pieces],
            orientation="h",
            marker={
                "color": "rgba(0,0,0,0)" if idle else hue,
                # An edge in the page's colour separates neighbours.
                "line": {"width": 0 if idle else 1, "color": get_colour(PAGE, theme)},
                "pattern": {"shape": "/", "size": 5, "solidity": 0.2, "fgcolor": hue}
                if idle
                else {},
            },
            text=[_format_hover(piece, names) for piece in pieces],
            textposition="none",
            hovertemplate="%{text}<extra></extra>",
        )
    figure.update_layout(barmode="overlay", bargap=0.1)
    apply_theme(figure, theme, 130)
    figure.update_xaxes(
        title_text=f"{unit.name} of the step", range=[0, step.duration_ns / unit.ns], tickformat=","
    )
    figure.update_yaxes(showticklabels=False, showgrid=False)
    return figure


def _format_hover(piece: StepPiece, names: Mapping[str, str]) -> str:
    name = piece.kind.value
    if piece.graph is not None:
        name = escape(names.get(piece.graph, piece.graph))
    work = f", {pluralize(piece.kernels, 'kernel')}" if piece.kernels else ""
    return f"<b>{name}</b><br>{format_ns(piece.duration_ns)}{work}"
