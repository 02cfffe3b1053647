"""Show the help panel of every page."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.documentation import METRICS, RULES, build_url
from graphviz_dash.ui.page.registry import PAGES


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
