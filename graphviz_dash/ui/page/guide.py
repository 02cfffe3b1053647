"""Show help on every page: the purpose of each page, and where to read more."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.ui.page.registry import PAGES


def show_help_panel() -> None:
    """Show the purpose of each page and the meaning of marks."""
    with (
        st.container(key="help", width="content"),
        st.popover("", icon=":material/help:", help="Help"),
    ):
        st.markdown("\n".join(f"- **{page.title}**: {page.answers}" for page in PAGES.values()))
        st.markdown(
            "Hatching marks GPU idle time. A struck-out value belongs to a graph whose "
            "replays compute something else than the step. A dashed value is predicted, not "
            "measured. A dash means not available; hover over it for the reason."
        )
        st.markdown(
            "Read more in `README.md` and `docs/` of the project, or run `graphviz-dash "
            "--help`. In the Timeline and the Graph, **?** lists the keys."
        )
