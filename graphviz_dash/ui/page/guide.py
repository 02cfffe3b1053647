"""Show help on every page: the purpose of each page, and where to read more."""

from __future__ import annotations

from typing import Final

import streamlit as st

_ANSWERS: Final = {
    "Overview": "all experiments and their speedup",
    "Compare": "speedup, its causes and costs; for an eager run, the predicted gain and what "
    "blocks a capture",
    "Graphs": "programs with many graphs: time per size, cost of padding and fallbacks, and "
    "recommended capture sizes",
    "Graph": "the nodes of a graph with their origin and time",
    "Timeline": "when each kernel ran, in one lane per run, and where time is lost",
    "Compile": "how torch.compile ran a step, its time breakdown, and the top fixes",
    "Memory": "device memory by use, including the memory of graphs",
    "Ranks": "ranks that arrive late, and how long the others wait",
    "Launch": "launch cost of graphs on a GPU",
    "Doctor": "why a capture fails, a replay is wrong or a compiled step is split, and how to "
    "fix it",
    "Export": "reports, tables and traces",
}


def help_panel() -> None:
    """Show the purpose of each page and the meaning of marks."""
    with (
        st.container(key="help", width="content"),
        st.popover("", icon=":material/help:", help="Help"),
    ):
        st.markdown("\n".join(f"- **{page}**: {answer}" for page, answer in _ANSWERS.items()))
        st.markdown(
            "Hatching marks GPU idle time. A struck-out value belongs to a graph whose "
            "replays compute something else than the step. A dashed value is predicted, not "
            "measured. A dash means not available; hover over it for the reason."
        )
        st.markdown(
            "Read more in `README.md` and `docs/` of the project, or run `graphviz-dash "
            "--help`. In the Timeline and the Graph, **?** lists the keys."
        )
