"""Views of a graph as files."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from graphviz_dash.features.graph.drawing.dot import format_view_dot
from graphviz_dash.features.graph.drawing.static import draw_view_file
from graphviz_dash.features.graph.drawing.view import DagView

_MAX_STEM: Final = 80


class Drawing(msgspec.Struct, frozen=True):
    """A file to save."""

    name: str
    """File name."""
    type: str
    """Media type."""
    text: str
    """Content."""


def draw_svg(view: DagView, name: str, *, dark: bool) -> Drawing:
    """Draw the view of the graph ``name`` as SVG."""
    return Drawing(f"{_make_stem(name)}.svg", "image/svg+xml", draw_view_file(view, name, dark))


def write_dot(view: DagView, name: str) -> Drawing:
    """Write the view of the graph ``name`` for Graphviz."""
    return Drawing(f"{_make_stem(name)}.dot", "text/vnd.graphviz", format_view_dot(view, name))


def _make_stem(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:_MAX_STEM]
