"""Show a summary of a graph above its drawing."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.features.graph.diff_narrative import (
    describe_device_launch,
    format_device_launch_result,
)
from graphviz_dash.features.graph.page.state.graphs import get_device_launch, get_graph_ledger
from graphviz_dash.features.ledger.narrative import describe_graph
from graphviz_dash.model.run import Run
from graphviz_dash.ui.page.markup import format_text, show_markup, show_paragraph
from graphviz_dash.units import format_count, format_ns, format_percent, pluralize


def show_graph_summary(full_graph: ExpandedGraph) -> None:
    """Show the size of the graph, and a note if its edges are only an order."""
    show_paragraph(_describe_size(full_graph), "muted")
    if full_graph.table.graph.capture_index is not None:
        show_paragraph(_describe_unknown_edges(full_graph), "muted")


def show_graph_properties(key: str, run: Run, graph: ExpandedGraph) -> None:
    """Show launch options, data quality, memory and start-up time, folded."""
    with st.expander("Graph properties", icon=":material/info:"):
        lines = [_describe_launch(key, run, graph), *_describe_quality(graph)]
        ledger = get_graph_ledger(key, run.name, graph.table.graph.id)
        if ledger is not None:
            lines += describe_graph(ledger)
        show_markup(*(format_text("p", line, "muted") for line in lines))


def _describe_launch(key: str, run: Run, full_graph: ExpandedGraph) -> str:
    graph = full_graph.table.graph
    recorded = next((other.device_launch for other in run.graphs if other.id == graph.id), None)
    verdict = describe_device_launch(get_device_launch(key, run.name, graph.id))
    driver = (
        "" if recorded is None else f"; the driver returned {format_device_launch_result(recorded)}"
    )
    if recorded is not None and verdict == format_device_launch_result(recorded):
        driver = ", confirmed by the driver"
    line = f"Device-side launch: {verdict}{driver}."
    disabled = sum(row.node.enabled is False for row in full_graph.table.rows)
    if disabled:
        nodes_are = "1 node is" if disabled == 1 else f"{format_count(disabled)} nodes are"
        line += f" {nodes_are} disabled in the graph exec."
    return line


def _describe_unknown_edges(graph: ExpandedGraph) -> str:
    return (
        f"Read from the {graph.table.graph.source_api}: node dependencies are unknown. The edges "
        "show the order in which replays ran the nodes on one stream."
    )


def _describe_size(full_graph: ExpandedGraph) -> str:
    table = full_graph.table
    nested = len(table.rows) - len(full_graph.root_nodes)
    parts = [
        pluralize(len(table.rows), "node")
        + (f" ({format_count(nested)} of them nested)" if nested else "")
        + f", {pluralize(len(table.graph.edges), 'edge')}",
    ]
    if table.replays:
        parts.append(f"{format_ns(full_graph.work_ns)} of GPU work (sum of node medians)")
    return " · ".join(parts)


def _describe_quality(graph: ExpandedGraph) -> list[str]:
    table = graph.table
    share = format_percent(table.attributed_nodes / len(table.rows)) if table.rows else "–"
    lines = [
        f"{pluralize(table.attributed_nodes, 'node')} ({share}) "
        f"{'is' if table.attributed_nodes == 1 else 'are'} attributed to operators."
    ]
    if table.replays:
        lines.append(
            f"{format_count(table.matched_kernels)} of {format_count(table.replay_kernels)} GPU "
            f"records are matched in {pluralize(table.replays, 'replay')} of the {table.timed_in}."
        )
    return lines
