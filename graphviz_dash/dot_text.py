"""Quote text for the DOT language (graphviz.org/doc/info/lang.html)."""

from __future__ import annotations

from graphviz_dash.errors import escape_control_characters


def quote_dot(text: str) -> str:
    """Quote ``text`` as a literal DOT string, also valid in labels."""
    return '"' + escape_control_characters(text).replace("\\", "\\\\").replace('"', '\\"') + '"'
