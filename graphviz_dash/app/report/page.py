"""Export: Perfetto trace, HTML report, tables and graphs as files."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Final

import polars as pl
import streamlit as st

from graphviz_dash.app.report.report import render_report
from graphviz_dash.app.report.static_charts import draw_charts
from graphviz_dash.errors import InputError
from graphviz_dash.exports.tables import (
    build_kernel_frame,
    build_node_frame,
    format_csv,
    format_parquet,
)
from graphviz_dash.features.graph.dot_export import format_dot
from graphviz_dash.features.graph.page.state.graphs import get_measured_graph, get_whole_graph
from graphviz_dash.features.perfetto.page.component import TracePart, render_perfetto_buttons
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import (
    SelectedExperiment,
    load_selected_experiment,
    select_run,
    show_empty_state,
    show_error_panel,
)
from graphviz_dash.ui.page.markup import (
    format_details,
    format_element,
    format_text,
    show_markup,
    show_paragraph,
)
from graphviz_dash.ui.state.results import get_comparison, get_kernels

_ALL: Final = "all"


def render() -> None:
    """Render the page."""
    selection = load_selected_experiment()
    left, right = st.columns([0.56, 0.44], gap="medium")
    with left, st.container(border=True, height="stretch"):
        _show_report(selection)
        _show_trace(selection)
    with right, st.container(border=True, height="stretch"):
        _show_kernels(selection)
        graph_words = _show_graph(selection)
    _show_commands(selection, graph_words)


def _show_trace(selection: SelectedExperiment) -> None:
    st.header("Trace for Perfetto", anchor=False)
    traced = [run for run in selection.experiment.runs if run.replay_trace is not None]
    if not traced:
        show_empty_state("No trace in this experiment", "The traced passes failed or were not run.")
        return
    st.markdown(
        "All runs, aligned at their first traced step: CPU threads, GPU streams, launches "
        "linked to their kernels, and GPU utilization. Each kernel has its operator, module, "
        "source line and graph node. To open only some steps or the launches of one graph, "
        "use the Timeline or the Graph page."
    )
    try:
        names = [_ALL, *(run.name for run in traced)]
        picked = url_state.select_option("trace", "Runs", names)
        part = TracePart() if picked == _ALL else TracePart(((picked, None),))
        with st.container(key="trace-to-open"):
            render_perfetto_buttons(selection.key, part, key=f"perfetto-{selection.key}-{picked}")
    except InputError as error:
        show_error_panel("Perfetto UI cannot be opened", str(error))
    st.caption(
        "The public UI runs in your browser. The trace stays on this computer and is not uploaded."
    )


def _show_report(selection: SelectedExperiment) -> None:
    st.header("Report", anchor=False)
    st.markdown(
        "The verdict, the time breakdown, metrics, a step of each run, the graph and the "
        "kernels in one HTML file that works offline and can be printed."
    )
    name = f"{selection.experiment.name}-report.html"
    _show_download("HTML report", lambda: _render_report(selection.key), name, "text/html")


def _render_report(key: str) -> bytes:
    result = get_comparison(key)
    charts = draw_charts(result)
    return render_report(result, get_kernels(key), charts.pictures, (charts.light, charts.dark))


def _show_kernels(selection: SelectedExperiment) -> None:
    st.header("Kernels of all runs", anchor=False)
    table = get_kernels(selection.key)
    if not table.rows:
        reasons = [f"{name}: {reason}." for name, reason in table.missing_reasons.items()]
        message = " ".join(reasons or ["No kernel ran in the traced steps."])
        show_paragraph(message, "muted")
        return
    st.markdown(
        "Count and time of each kernel, memcpy and memset of a traced step in each run, and "
        "the change."
    )
    stem = f"{selection.experiment.name}-kernels"
    with st.container(horizontal=True, gap="small"):
        _show_download(
            "CSV", lambda: format_csv(build_kernel_frame(table)), f"{stem}.csv", "text/csv"
        )
        _show_download(
            "Parquet", lambda: format_parquet(build_kernel_frame(table)), f"{stem}.parquet", _BINARY
        )


def _build_node_frame(key: str, run_name: str, graph_id: str) -> pl.DataFrame:
    return build_node_frame(
        get_whole_graph(key, run_name, graph_id), get_measured_graph(key, run_name, graph_id)
    )


def _show_graph(selection: SelectedExperiment) -> tuple[str, ...]:
    """Show the downloads of a graph and return the words that select it in a command, or none."""
    st.header("Captured graph", anchor=False)
    runs = [run for run in selection.experiment.runs if run.graphs]
    if not runs:
        show_markup(format_element("p", "No captured graph in this experiment", "muted"))
        return ()
    st.markdown(
        "Nodes with operators, modules, source lines and replay times, or the graph in the "
        "DOT language."
    )
    run = select_run(runs, clears=("graph", "node"))
    # Nested graphs are exported with their outer graph.
    graphs = [graph.id for graph in run.graphs if graph.parent is None]
    graph_id = graphs[0]
    if len(graphs) > 1:
        graph_id = url_state.select_option("graph", "Graph", graphs, clears=("node",), width=180)
    stem = f"{selection.experiment.name}-{run.name}-{graph_id}"
    with st.container(horizontal=True, gap="small"):
        _show_download(
            "Nodes (CSV)",
            lambda: format_csv(_build_node_frame(selection.key, run.name, graph_id)),
            f"{stem}.csv",
            "text/csv",
        )
        _show_download(
            "Nodes (Parquet)",
            lambda: format_parquet(_build_node_frame(selection.key, run.name, graph_id)),
            f"{stem}.parquet",
            _BINARY,
        )
        _show_download(
            "Graphviz DOT",
            lambda: format_dot(get_whole_graph(selection.key, run.name, graph_id), stem),
            f"{stem}.dot",
            "text/vnd.graphviz",
        )
    return run.name, *(("--graph", graph_id) if len(graphs) > 1 else ())


_BINARY = "application/octet-stream"


def _show_download(label: str, content: Callable[[], bytes], name: str, kind: str) -> None:
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


def _show_commands(chosen: SelectedExperiment, graph_words: tuple[str, ...]) -> None:
    """Show the equivalent shell commands; ``graph_words`` selects the graph."""
    folder = chosen.entry.command_path
    if folder is None:
        return
    exports: list[tuple[str, str, tuple[str, ...]]] = [
        ("perfetto", "trace.pftrace", ()),
        ("html", "report.html", ()),
        ("kernels", "kernels.csv", ()),
    ]
    if graph_words:
        exports += [("nodes", "nodes.csv", graph_words), ("dot", "graph.dot", graph_words)]
    commands = []
    for kind, output, selection in exports:
        path = f"{folder}/{selection[0]}" if selection else folder
        words = ("graphviz-dash", "export", kind, path, *selection[1:], "-o", output)
        commands.append(shlex.join(words))
    folded = format_text("pre", "\n".join(commands), "command")
    show_markup(format_details("In a terminal", folded))
