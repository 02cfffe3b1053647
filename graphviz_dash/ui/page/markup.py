"""Format small pieces of escaped HTML. All markup of the pages is written here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape, unescape
from typing import Final

from graphviz_dash.errors import escape_control_characters


def escape_html(value: object) -> str:
    """Escape a value for HTML and make control characters visible."""
    return escape(escape_control_characters(str(value)))


_MARKDOWN: Final = re.compile(r"([!-/:-@\[-`{-~])")
"""ASCII punctuation, which a backslash makes literal in Markdown."""


def escape_markdown(value: object) -> str:
    """Escape a value for Markdown, which Streamlit renders in labels and headings."""
    escaped = _MARKDOWN.sub(r"\\\1", escape_control_characters(str(value)))
    # Word joiner: Streamlit finds icons and emoji by colons after resolving backslashes.
    return escaped.replace("\\:", "\\:\N{WORD JOINER}")


def format_element(tag: str, content: str, kind: str = "", **attributes: str) -> str:
    """Format an element around ``content`` (markup); ``kind`` is its CSS class."""
    merged = {"class": kind, **attributes} if kind else attributes
    rendered = "".join(f' {name}="{escape_html(value)}"' for name, value in merged.items())
    return f"<{tag}{rendered}>{content}</{tag}>"


def format_text(tag: str, text: object, kind: str = "", **attributes: str) -> str:
    """Format an element around ``text``, which is escaped."""
    return format_element(tag, escape_html(text), kind, **attributes)


def format_legend(keys: Iterable[Mapping[str, str]]) -> str:
    """Format the legend of a chart.

    Each entry has a `name`, a `colour`, and either the `hatching` of an area, or the `dash` and the
    `mark` of a line.
    """
    entries = [
        format_element("span", _format_swatch(key) + escape_html(unescape(key["name"])))
        for key in keys
    ]
    return format_element("div", "".join(entries), "key chart-key")


def _format_swatch(key: Mapping[str, str]) -> str:
    style = f"color:{key['colour']}"
    if "hatching" in key:
        return format_element("i", "", _SWATCHES[key["hatching"]], style=style)
    kind = f"stroke {key['dash']}".rstrip()
    return format_element("i", "", kind, style=style, **{"data-mark": key["mark"]})


_SWATCHES: Final = {
    "": "plain",
    "/": "rising",
    "\\": "falling",
    "-": "level",
    "x": "crossed",
    ".": "dotted",
}
"""CSS classes of hatching shapes, by Plotly's name."""


def format_table(
    head: Iterable[str], groups: Iterable[tuple[str, list[list[str]]]], kind: str
) -> str:
    """Format a table of markup cells in groups with optional titles; the first cell of a row is its
    header."""
    columns = list(head)
    top = format_element(
        "tr",
        "".join(
            format_element("th", cell, scope="col") if cell else "<td></td>" for cell in columns
        ),
    )
    bodies = []
    for title, rows in groups:
        heading = format_element("th", title, scope="rowgroup", colspan=str(len(columns)))
        lines = [format_element("tr", heading, "section")] if title else []
        for first, *others in rows:
            cells = "".join(format_element("td", cell) for cell in others)
            lines.append(format_element("tr", format_element("th", first, scope="row") + cells))
        bodies.append(format_element("tbody", "".join(lines)))
    return format_element("table", format_element("thead", top) + "".join(bodies), kind)


def format_details(summary: str, *pieces: str, **attributes: str) -> str:
    """Format ``pieces`` (markup) folded below the text ``summary``."""
    head = format_element("summary", escape_html(summary))
    return format_element("details", head + "".join(pieces), "more", **attributes)


def show_markup(*pieces: str) -> None:
    """Write markup to the page, if there is any."""
    if markup := "".join(pieces):
        # Imported here because the markup is also used without a page.
        import streamlit as st

        st.html(markup)


def show_paragraph(text: str, kind: str = "") -> None:
    """Write a paragraph of escaped ``text`` to the page."""
    show_markup(format_text("p", text, kind))


def show_caption(text: str) -> None:
    """Write ``text`` to the page as a caption without Markdown."""
    import streamlit as st

    st.caption(escape_markdown(text))
