"""Export: Perfetto trace, HTML report, tables and graphs as files."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Final

import polars as pl
import streamlit as st

from graphviz_dash.app.report.report import report
from graphviz_dash.app.report.static_charts import static_charts
from graphviz_dash.errors import InputError
from graphviz_dash.exports.tables import as_csv, as_parquet, kernel_frame, node_frame
from graphviz_dash.features.graph.dot_export import as_dot
from graphviz_dash.features.graph.page.state.graphs import measured, whole
from graphviz_dash.features.perfetto.page.component import TracePart, perfetto_button
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import Chosen, choose_run, chosen_experiment, empty, trouble
from graphviz_dash.ui.page.markup import element, show, text
from graphviz_dash.ui.state.results import comparison, kernels

_ALL: Final = "all"


def render() -> None:
    """Render the page."""
    chosen = chosen_experiment()
    left, right = st.columns([0.56, 0.44], gap="medium")
    with left, st.container(border=True, height="stretch"):
        _trace(chosen)
        _report(chosen)
    with right, st.container(border=True, height="stretch"):
        _kernels(chosen)
        _graph(chosen)


def _trace(chosen: Chosen) -> None:
    st.header("Trace for Perfetto", anchor=False)
    traced = [run for run in chosen.experiment.runs if run.replay_trace is not None]
    if not traced:
        empty("No trace in this experiment", "The traced passes failed or were not run.")
        return
    st.markdown(
        "All runs, aligned at their first traced step: CPU threads, GPU streams, launches "
        "linked to their kernels, and GPU utilization. Each kernel has its operator, module, "
        "source line and graph node. To open only some steps or the launches of one graph, "
        "use the Timeline or the Graph page."
    )
    try:
        names = [_ALL, *(run.name for run in traced)]
        picked = url_state.choose("trace", "Runs", names)
        part = TracePart() if picked == _ALL else TracePart(((picked, None),))
        with st.container(key="trace-to-open"):
            perfetto_button(chosen.key, part, key=f"perfetto-{chosen.key}-{picked}")
    except InputError as error:
        trouble("Perfetto UI cannot be opened", str(error))
    st.caption(
        "The public UI runs in your browser. The trace stays on this computer and is not uploaded."
    )
    _command("perfetto", chosen, "trace.pftrace")


def _report(chosen: Chosen) -> None:
    st.header("Report", anchor=False)
    st.markdown(
        "The verdict, the time breakdown, metrics, a step of each run, the graph and the "
        "kernels in one HTML file that works offline and can be printed."
    )
    name = f"{chosen.experiment.name}-report.html"
    _download("HTML report", lambda: _as_report(chosen.key), name, "text/html")
    _command("html", chosen, "report.html")


def _as_report(key: str) -> bytes:
    result = comparison(key)
    charts = static_charts(result)
    return report(result, kernels(key), charts.pictures, (charts.light, charts.dark))


def _kernels(chosen: Chosen) -> None:
    st.header("Kernels of all runs", anchor=False)
    table = kernels(chosen.key)
    if not table.rows:
        reasons = [f"{name}: {reason}." for name, reason in table.without.items()]
        message = " ".join(reasons or ["No kernel ran in the traced steps."])
        show(element("p", text(message), "muted"))
        return
    st.markdown(
        "Count and time of each kernel, memcpy and memset of a traced step in each run, and "
        "the change."
    )
    stem = f"{chosen.experiment.name}-kernels"
    with st.container(horizontal=True, gap="small"):
        _download("CSV", lambda: as_csv(kernel_frame(table)), f"{stem}.csv", "text/csv")
        _download("Parquet", lambda: as_parquet(kernel_frame(table)), f"{stem}.parquet", _BINARY)
    _command("kernels", chosen, "kernels.csv")


def _node_frame(key: str, run_name: str, graph_id: str) -> pl.DataFrame:
    return node_frame(whole(key, run_name, graph_id), measured(key, run_name, graph_id))


def _graph(chosen: Chosen) -> None:
    st.header("Captured graph", anchor=False)
    runs = [run for run in chosen.experiment.runs if run.graphs]
    if not runs:
        show(element("p", "No captured graph in this experiment", "muted"))
        return
    st.markdown(
        "Nodes with operators, modules, source lines and replay times, or the graph in the "
        "DOT language."
    )
    run = choose_run(runs, clears=("graph", "node"))
    # Nested graphs are exported with their outer graph.
    graphs = [graph.id for graph in run.graphs if graph.parent is None]
    graph_id = graphs[0]
    if len(graphs) > 1:
        graph_id = url_state.choose("graph", "Graph", graphs, clears=("node",), width=180)
    stem = f"{chosen.experiment.name}-{run.name}-{graph_id}"
    with st.container(horizontal=True, gap="small"):
        _download(
            "Nodes (CSV)",
            lambda: as_csv(_node_frame(chosen.key, run.name, graph_id)),
            f"{stem}.csv",
            "text/csv",
        )
        _download(
            "Nodes (Parquet)",
            lambda: as_parquet(_node_frame(chosen.key, run.name, graph_id)),
            f"{stem}.parquet",
            _BINARY,
        )
        _download(
            "Graphviz DOT",
            lambda: as_dot(whole(chosen.key, run.name, graph_id), stem),
            f"{stem}.dot",
            "text/vnd.graphviz",
        )
    graph = ("--graph", graph_id) if len(graphs) > 1 else ()
    _command("nodes", chosen, "nodes.csv", run.name, *graph)
    _command("dot", chosen, "graph.dot", run.name, *graph)


_BINARY = "application/octet-stream"


def _download(label: str, content: Callable[[], bytes], name: str, kind: str) -> None:
    """Show a button that creates its file on click."""
    st.download_button(
        label,
        content,
        file_name=name,
        mime=kind,
        on_click="ignore",
        icon=":material/download:",
        key=f"download-{name}",
    )


def _command(kind: str, chosen: Chosen, output: str, run: str = "", *options: str) -> None:
    """Show the equivalent shell command for the experiment, or for its run ``run``.

    Lines break between words.
    """
    folder = chosen.entry.command_path
    if folder is None:
        return
    path = f"{folder}/{run}" if run else folder
    words = ("graphviz-dash", "export", kind, path, *options, "-o", output)
    quoted = " ".join(element("span", text(shlex.quote(word)), "word") for word in words)
    show(element("p", "In a terminal: " + element("code", quoted), "muted"))
