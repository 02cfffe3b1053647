"""HTML that the pages show: small pieces, every text escaped. The only place that writes markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape, unescape
from typing import Final

from graphviz_dash.errors import printable


def text(value: object) -> str:
    """Any value as HTML text: control characters shown, markup escaped."""
    return escape(printable(str(value)))


_MARKDOWN: Final = re.compile(r"([!-/:-@\[-`{-~])")
"""ASCII punctuation, all of which a backslash makes literal in Markdown."""


def plain(value: object) -> str:
    """Any value as Markdown that shows it as it is: labels of widgets and headings are Markdown,
    images and icons included."""
    escaped = _MARKDOWN.sub(r"\\\1", printable(str(value)))
    # A word joiner: icons and emoji are found by their colons after backslashes are resolved.
    return escaped.replace("\\:", "\\:\N{WORD JOINER}")


def element(tag: str, content: str, kind: str = "", **attributes: str) -> str:
    """An element around ``content``, which is markup already; ``kind`` is its CSS class, and
    ``attributes`` are text."""
    given = {"class": kind, **attributes} if kind else attributes
    listed = "".join(f' {name}="{text(value)}"' for name, value in given.items())
    return f"<{tag}{listed}>{content}</{tag}>"


def chart_key(keys: Iterable[Mapping[str, str]]) -> str:
    """The legend of a chart: of each entry its `name`, `colour` and the shape of its `hatching`."""
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
"""What the style sheet calls the shapes of hatching, by what Plotly calls them."""


def table(head: Iterable[str], groups: Iterable[tuple[str, list[list[str]]]], kind: str) -> str:
    """A table of cells that are markup already, in groups with a heading each; the first cell of a
    row is its header."""
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
    """Puts markup on the page, if there is any."""
    if markup := "".join(pieces):
        # Only when there is a page: what is made of these pieces is needed without one as well.
        import streamlit as st

        st.html(markup)
