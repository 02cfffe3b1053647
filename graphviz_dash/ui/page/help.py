"""Links to the documentation, as markup."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.documentation import METRICS, RULES, build_url
from graphviz_dash.ui.page.markup import escape_html, format_element
from graphviz_dash.ui.page.registry import PAGES


def format_page_heading(page: str, title: str) -> str:
    """Format the title of a page and a link to its help."""
    link = format_help_link(PAGES[page].help, PAGES[page].title)
    return format_element("h1", escape_html(title) + link)


def format_help_link(location: str, subject: str) -> str:
    """Format a help icon that opens the documentation of ``subject``."""
    icon = format_element("i", "", **{"data-icon": "help", "aria-hidden": "true"})
    return format_docs_link(location, icon, f"Help: {subject}", "page-help")


def format_docs_link(location: str, content: str, label: str = "", kind: str = "to-docs") -> str:
    """Format a link to the documentation around ``content``, which is markup; opens a new tab."""
    attributes = {"href": build_url(location), "target": "_blank"}
    if label:
        attributes |= {"title": label, "aria-label": label}
    return format_element("a", content, kind, **attributes)


def show_help_panel(page: str) -> None:
    """Show the help of ``page``: a link to its section, the pages, and the meaning of marks."""
    with (
        st.container(key="help", width="content"),
        st.popover("", icon=":material/help:", help="Help"),
    ):
        st.markdown(
            f"[Help on {PAGES[page].title}]({build_url(PAGES[page].help)}) · "
            f"[Metrics]({build_url(METRICS)}) · [Rules]({build_url(RULES)}) · "
            f"[All documentation]({build_url('index.md')})"
        )
        st.markdown("\n".join(f"- **{row.title}**: {row.answers}" for row in PAGES.values()))
        st.markdown(
            "Hatching marks GPU idle time. A struck-out value belongs to a graph whose "
            "replays compute something else than the step. A dashed value is predicted, not "
            "measured. A dash means not available; hover over it for the reason."
        )
        st.markdown(
            "In a terminal, `graphviz-dash docs` finds the same pages. In the Timeline and the "
            "Graph, **?** lists the keys."
        )
