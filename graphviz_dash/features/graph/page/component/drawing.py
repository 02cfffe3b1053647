"""What is seen of a graph as a file to save."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from graphviz_dash.features.graph.drawing.dot import view_dot
from graphviz_dash.features.graph.drawing.static import view_file
from graphviz_dash.features.graph.drawing.view import DagView

_MAX_STEM: Final = 80


class Drawing(msgspec.Struct, frozen=True):
    """A file to save."""

    name: str
    """What to call it."""
    type: str
    """Its media type."""
    text: str
    """Its content."""


def svg_drawing(view: DagView, name: str, *, dark: bool) -> Drawing:
    """The view of the graph called ``name`` as a picture."""
    return Drawing(f"{_stem(name)}.svg", "image/svg+xml", view_file(view, name, dark))


def dot_drawing(view: DagView, name: str) -> Drawing:
    """The view of the graph called ``name`` for Graphviz."""
    return Drawing(f"{_stem(name)}.dot", "text/vnd.graphviz", view_dot(view, name))


def _stem(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:_MAX_STEM]
