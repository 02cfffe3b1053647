"""Format small pieces of escaped HTML. All markup of the pages is written here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape, unescape
from typing import Final

from graphviz_dash.errors import printable


def text(value: object) -> str:
    """Escape a value for HTML and make control characters visible."""
    return escape(printable(str(value)))


_MARKDOWN: Final = re.compile(r"([!-/:-@\[-`{-~])")
"""ASCII punctuation, which a backslash makes literal in Markdown."""


def plain(value: object) -> str:
    """Escape a value for Markdown, which Streamlit renders in labels and headings."""
    escaped = _MARKDOWN.sub(r"\\\1", printable(str(value)))
    # Word joiner: Streamlit finds icons and emoji by colons after resolving backslashes.
    return escaped.replace("\\:", "\\:\N{WORD JOINER}")


def element(tag: str, content: str, kind: str = "", **attributes: str) -> str:
    """Format an element around ``content`` (markup); ``kind`` is its CSS class, ``attributes`` are
    text.
    """
    merged = {"class": kind, **attributes} if kind else attributes
    rendered = "".join(f' {name}="{text(value)}"' for name, value in merged.items())
    return f"<{tag}{rendered}>{content}</{tag}>"


def chart_key(keys: Iterable[Mapping[str, str]]) -> str:
    """Format the legend of a chart from the `name`, `colour` and `hatching` of each entry."""
    entries = [
        element(
            "span",
            element("i", "", _SWATCHES[key["hatching"]], style=f"color:{key['colour']}")
            + text(unescape(key["name"])),
        )
        for key in keys
    ]
    return element("div", "".join(entries), "key chart-key")


_SWATCHES: Final = {"": "plain", "/": "rising", "\\": "falling", "x": "crossed", ".": "dotted"}
"""CSS classes of hatching shapes, by Plotly's name."""


def table(head: Iterable[str], groups: Iterable[tuple[str, list[list[str]]]], kind: str) -> str:
    """Format a table of markup cells in titled groups; the first cell of a row is its header."""
    columns = list(head)
    top = element(
        "tr", "".join(element("th", cell, scope="col") if cell else "<td></td>" for cell in columns)
    )
    bodies = []
    for title, rows in groups:
        heading = element("th", title, scope="rowgroup", colspan=str(len(columns)))
        lines = [element("tr", heading, "section")]
        for first, *others in rows:
            cells = "".join(element("td", cell) for cell in others)
            lines.append(element("tr", element("th", first, scope="row") + cells))
        bodies.append(element("tbody", "".join(lines)))
    return element("table", element("thead", top) + "".join(bodies), kind)


def show(*pieces: str) -> None:
    """Write markup to the page, if there is any."""
    if markup := "".join(pieces):
        # Imported here because the markup is also used without a page.
        import streamlit as st

        st.html(markup)
