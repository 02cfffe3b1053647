"""Quote text for the DOT language (graphviz.org/doc/info/lang.html)."""

from __future__ import annotations

from graphviz_dash.errors import printable


def quoted(text: str) -> str:
    """Quote ``text`` as a literal DOT string, also valid in labels."""
    return '"' + printable(text).replace("\\", "\\\\").replace('"', '\\"') + '"'
