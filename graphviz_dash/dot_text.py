"""Text in the DOT language (graphviz.org/doc/info/lang.html)."""

from __future__ import annotations

from graphviz_dash.errors import printable


def quoted(text: str) -> str:
    """``text`` as a quoted string of DOT that means nothing but itself, in labels too."""
    return '"' + printable(text).replace("\\", "\\\\").replace('"', '\\"') + '"'
