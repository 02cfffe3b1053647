"""Export: the experiment as a trace for Perfetto, a report, and its tables and graphs as files."""

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
    """The page."""
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
        empty("This experiment holds no trace", "Its traced passes failed or were not run.")
        return
    st.markdown(
        "Runs side by side, aligned at their first traced step: CPU threads, GPU streams, "
        "launches linked to their kernels, and how busy the GPU was. Each kernel carries its "
        "operator, module and source line, and the node of the graph it is. The Timeline opens "
        "the steps that it shows, the Graph page the launches of one graph."
    )
    try:
        names = [_ALL, *(run.name for run in traced)]
        picked = url_state.choose("trace", "Runs in it", names)
        part = TracePart() if picked == _ALL else TracePart(((picked, None),))
        with st.container(key="trace-to-open"):
            perfetto_button(chosen.key, part, key=f"perfetto-{chosen.key}-{picked}")
    except InputError as error:
        trouble("The Perfetto UI cannot be opened", str(error))
    st.caption(
        "The public UI runs in your browser; the trace is handed to it there and is not uploaded."
    )
    _command("perfetto", chosen, "trace.pftrace")


def _report(chosen: Chosen) -> None:
    st.header("Report to send", anchor=False)
    st.markdown(
        "The verdict, where the time went, metrics, a step of each run, the graph and the "
        "kernels as one HTML file. It needs no network, and can be printed."
    )
    name = f"{chosen.experiment.name}-report.html"
    _download("HTML report", lambda: _as_report(chosen.key), name, "text/html")
    _command("html", chosen, "report.html")


def _as_report(key: str) -> bytes:
    result = comparison(key)
    drawn = static_charts(result)
    return report(result, kernels(key), drawn.pictures, (drawn.light, drawn.dark))


def _kernels(chosen: Chosen) -> None:
    st.header("Kernels of all runs", anchor=False)
    table = kernels(chosen.key)
    if not table.rows:
        reasons = [f"{name}: {why}." for name, why in table.without.items()]
        said = " ".join(reasons or ["No kernel ran in the traced steps."])
        show(element("p", text(said), "muted"))
        return
    st.markdown(
        "Each kernel, memcpy and memset of a traced step: how often it ran and for how long in "
        "each run, and how that changed."
    )
    stem = f"{chosen.experiment.name}-kernels"
    with st.container(horizontal=True, gap="small"):
        _download("CSV", lambda: as_csv(kernel_frame(table)), f"{stem}.csv", "text/csv")
        _download("Parquet", lambda: as_parquet(kernel_frame(table)), f"{stem}.parquet", _BINARY)
    _command("kernels", chosen, "kernels.csv")


def _node_frame(key: str, run_name: str, graph_id: str) -> pl.DataFrame:
    return node_frame(whole(key, run_name, graph_id), measured(key, run_name, graph_id))


def _graph(chosen: Chosen) -> None:
    st.header("A captured graph", anchor=False)
    runs = [run for run in chosen.experiment.runs if run.graphs]
    if not runs:
        show(element("p", "This experiment holds no captured graph.", "muted"))
        return
    st.markdown(
        "Its nodes with their operators, modules, source lines and times in the replays, or the "
        "graph in the DOT language."
    )
    run = choose_run(runs, clears=("graph", "node"))
    # What lies in another graph is exported with it.
    graphs = [graph.id for graph in run.graphs if graph.parent is None]
    graph_id = graphs[0]
    if len(graphs) > 1:
        graph_id = url_state.choose("graph", "Graph", graphs, clears=("node",), width=180)
    stem = f"{chosen.experiment.name}-{run.name}-{graph_id}"
    with st.container(horizontal=True, gap="small"):
        _download(
            "Nodes, CSV",
            lambda: as_csv(_node_frame(chosen.key, run.name, graph_id)),
            f"{stem}.csv",
            "text/csv",
        )
        _download(
            "Nodes, Parquet",
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
    """A button whose file is made when it is clicked."""
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
    """The command that exports the same, to copy, quoted for a shell: of the experiment, or of its
    run called ``run``. Lines break between its words."""
    folder = chosen.entry.command_path
    if folder is None:
        return
    place = f"{folder}/{run}" if run else folder
    words = ("graphviz-dash", "export", kind, place, *options, "-o", output)
    quoted = " ".join(element("span", text(shlex.quote(word)), "word") for word in words)
    show(element("p", "In a terminal: " + element("code", quoted), "muted"))
