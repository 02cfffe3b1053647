"""Help, on every page: what each page answers, and where to read more."""

from __future__ import annotations

from typing import Final

import streamlit as st

_ANSWERS: Final = {
    "Overview": "which experiments there are, and what graphs gain in each",
    "Compare": "whether graphs are worth it, why, and what they cost; without a graph, what one "
    "would gain and what stops its capture",
    "Graphs": "of a program with many graphs: what each size takes, what padding and fallbacks "
    "cost, and which sizes would be best to capture",
    "Graph": "what a graph is made of: its nodes, where they come from and what they take",
    "Timeline": "what ran when, runs above each other, and where one loses time",
    "Compile": "what torch.compile made of a step, where its time goes, and what to mend first",
    "Memory": "what device memory is made of, and what graphs take of it",
    "Ranks": "which of several ranks is late, and what the others wait",
    "Launch": "what launching graphs costs on a GPU",
    "Doctor": "why a capture fails, what its replays do wrong, or what breaks a compiled step, and "
    "what to write instead",
    "Export": "reports, tables and traces to take along",
}


def help_panel() -> None:
    """What each page answers, and what the marks mean."""
    with (
        st.container(key="help", width="content"),
        st.popover("", icon=":material/help:", help="Help"),
    ):
        st.markdown("\n".join(f"- **{page}**: {answer}" for page, answer in _ANSWERS.items()))
        st.markdown(
            "Hatched is idle time of the GPU. A struck-out figure is of a graph whose replays do "
            "other work than the step. A dashed one is predicted, not measured. A dash is a figure "
            "that is absent; hover it for the reason."
        )
        st.markdown(
            "More in `README.md` and `docs/` of the project; on a terminal `graphviz-dash --help`. "
            "In the Timeline and the Graph, **?** lists the keys."
        )
