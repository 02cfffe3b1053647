"""Help, on every page: what each page answers, and where to read more."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.ui.page.registry import PAGES


def help_panel() -> None:
    """What each page answers, and what the marks mean."""
    with (
        st.container(key="help", width="content"),
        st.popover("", icon=":material/help:", help="Help"),
    ):
        st.markdown("\n".join(f"- **{page.title}**: {page.answers}" for page in PAGES.values()))
        st.markdown(
            "Hatched is idle time of the GPU. A struck-out figure is of a graph whose replays do "
            "other work than the step. A dashed one is predicted, not measured. A dash is a figure "
            "that is absent; hover it for the reason."
        )
        st.markdown(
            "More in `README.md` and `docs/` of the project; on a terminal `graphviz-dash --help`. "
            "In the Timeline and the Graph, **?** lists the keys."
        )
