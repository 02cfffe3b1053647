"""The help panel of every page."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.documentation import METRICS, RULES, address
from graphviz_dash.ui.page.registry import PAGES


def help_panel(page: str) -> None:
    """Show the help of ``page``: a link to its section, the pages, and the meaning of marks."""
    with (
        st.container(key="help", width="content"),
        st.popover("", icon=":material/help:", help="Help"),
    ):
        st.markdown(
            f"[Help on {PAGES[page].title}]({address(PAGES[page].help)}) · "
            f"[Metrics]({address(METRICS)}) · [Rules]({address(RULES)}) · "
            f"[All documentation]({address('index.md')})"
        )
        st.markdown("\n".join(f"- **{row.title}**: {row.answers}" for row in PAGES.values()))
        st.markdown(
            "Hatched is idle time of the GPU. A struck-out figure is of a graph whose replays do "
            "other work than the step. A dashed one is predicted, not measured. A dash is a figure "
            "that is absent; hover it for the reason."
        )
        st.markdown(
            "In a terminal, `graphviz-dash docs` finds the same pages. In the Timeline and the "
            "Graph, **?** lists the keys."
        )
