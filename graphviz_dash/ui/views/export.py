"""Export: the experiment as a trace for Perfetto, and its tables as files."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.exports.tables import as_csv, kernel_frame, node_frame
from graphviz_dash.model.run import Run
from graphviz_dash.ui.components.perfetto import perfetto_button
from graphviz_dash.ui.frame import Chosen, choose_experiment, empty, theme
from graphviz_dash.ui.markup import element, show, text
from graphviz_dash.ui.pieces import variables
from graphviz_dash.ui.results import kernels, nodes


def render() -> None:
    """The page."""
    show(variables(theme()))
    chosen = choose_experiment()
    left, right = st.columns([0.6, 0.4], gap="large")
    with left, st.container(border=True):
        _trace(chosen)
    with right, st.container(border=True):
        _tables(chosen)
    show(
        element(
            "p",
            "In a terminal: "
            + element(
                "code",
                text(f"graphviz-dash export perfetto {chosen.entry.path.name} -o trace.pftrace"),
            ),
            "muted",
        )
    )


def _trace(chosen: Chosen) -> None:
    st.subheader("Trace for Perfetto", anchor=False)
    traced = [run for run in chosen.experiment.runs if run.replay_trace is not None]
    if not traced:
        empty("This experiment holds no trace", "Its traced passes failed or were not run.")
        return
    names = ", ".join(run.name for run in traced)
    st.markdown(
        "All runs side by side, aligned at their first traced step: CPU threads, GPU streams, "
        "launches linked to their kernels, and how busy the GPU was. Each kernel carries its "
        "operator, module and source line, and the node of the graph it is."
    )
    show(element("p", text(f"Runs: {names}"), "muted"))
    perfetto_button(chosen.key, key=f"perfetto-{chosen.key}")
    st.caption(
        "The public UI runs in your browser; the trace is handed to it there and is not uploaded."
    )


def _tables(chosen: Chosen) -> None:
    st.subheader("Tables", anchor=False)
    st.download_button(
        "Kernels, all runs (CSV)",
        lambda: as_csv(kernel_frame(kernels(chosen.key))),
        file_name=f"{chosen.experiment.name}-kernels.csv",
        mime="text/csv",
        on_click="ignore",
        icon=":material/download:",
    )
    for run in chosen.experiment.runs:
        for graph in run.graphs:
            _nodes(chosen, run, graph.id)


def _nodes(chosen: Chosen, run: Run, graph_id: str) -> None:
    st.download_button(
        f"Nodes of {run.name}, {graph_id} (CSV)",
        lambda: as_csv(node_frame(nodes(chosen.key, run.name, graph_id))),
        file_name=f"{chosen.experiment.name}-{run.name}-{graph_id}.csv",
        mime="text/csv",
        on_click="ignore",
        icon=":material/download:",
        key=f"nodes-{run.name}-{graph_id}",
    )
