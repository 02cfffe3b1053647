"""Compare two graphs on the Graph page: picker, outcome and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from graphviz_dash.analysis.attribution.graph_identity import list_graph_identities
from graphviz_dash.analysis.graph.change import Change
from graphviz_dash.analysis.loop.keys import list_graph_names
from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.analysis.trace.kernel_names import shorten_name
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.graph.diff.graph_diff import GraphDiff
from graphviz_dash.features.graph.diff.graph_pair import GraphPair
from graphviz_dash.features.graph.diff_columns import get_node_title, list_diff_columns
from graphviz_dash.features.graph.diff_narrative import (
    describe_uncompared_properties,
    describe_update_prediction,
    describe_update_result,
    format_graph_title,
    format_node_changes,
    summarize_graph_diff,
)
from graphviz_dash.features.graph.page.state.graphs import GraphAddress, get_graph_titles
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.columns import Column
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import show_fold
from graphviz_dash.ui.page.markup import escape_html, format_element, show_markup
from graphviz_dash.ui.page.tables import show_rows

AGAINST: Final = "against"
_NOTHING: Final = "nothing"
_MAX_CHANGES: Final = 14
"""Changes next to the drawing without scrolling."""


def select_other(key: str, runs: Sequence[Run], current: GraphAddress) -> GraphAddress | None:
    """Show the picker, stored as ``?against=``."""
    addresses: dict[str, GraphAddress] = {}
    names: dict[str, str] = {_NOTHING: _NOTHING}
    for run in runs:
        titles = (
            get_graph_titles(key, run.name)
            if run.name == current[1]
            else {
                graph.id: format_graph_title(graph)
                for graph in list_graph_identities(
                    run.graphs, run.recording, (), list_graph_names(run.loop)
                )
            }
        )
        for graph in run.graphs:
            address = (key, run.name, graph.id)
            if graph.parent is None and address != current:
                addresses[f"{run.name}:{graph.id}"] = address
                names[f"{run.name}:{graph.id}"] = f"{run.name} · {titles[graph.id]}"
    if not addresses:
        return None
    shown_name = names[url_state.get_option(AGAINST, list(names), default=_NOTHING)]
    selected = url_state.select_option(
        AGAINST,
        "Compare with",
        list(names),
        clears=("node",),
        width=url_state.compute_list_width([shown_name]),
        format_func=lambda name: escape_control_characters(names[name]),
    )
    return addresses.get(selected)


def show_outcome(earlier: str, later: str, pair: GraphPair) -> None:
    """Show the differences, and whether the earlier graph can be updated to the later."""
    not_compared = escape_html(describe_uncompared_properties(pair.diff))
    lines = [
        (
            f"Updating an executable of {escape_html(earlier)} to {escape_html(later)} "
            "(cudaGraphExecUpdate)."
        ),
        f"<b>Documented rules:</b> {escape_html(describe_update_prediction(pair.prediction))}",
    ]
    if pair.recorded_update is not None:
        lines.append(f"<b>Driver:</b> {escape_html(describe_update_result(pair.recorded_update))}")
    if pair.is_prediction_correct is False:
        lines.append("The driver's result differs from the prediction.")
    show_markup(
        format_element(
            "p",
            f"From {escape_html(earlier)}, captured earlier, to {escape_html(later)}: "
            f"<b>{escape_html(summarize_graph_diff(pair.diff))}</b> {not_compared}",
        ),
        format_element("p", "<br>".join(lines)),
    )


def show_differences(pair: GraphPair, first: NodeTable, second: NodeTable, identity: str) -> None:
    """Show the changed nodes and edges as tables."""
    for diff in pair.diff.levels:
        _show_nodes(diff, (first, second) if diff is pair.diff else None, identity)
        _show_edges(diff, identity)


def show_change_list(pair: GraphPair, first: NodeTable, second: NodeTable, identity: str) -> None:
    """Show the changed nodes next to the drawing."""
    nodes = [node for node in pair.diff.nodes if node.change is not Change.SAME]
    heading = "Changes" if nodes else "No node differs"
    show_markup(format_element("div", format_element("h2", heading), "node"))
    if not nodes:
        return
    show_rows(
        [
            Column("Change", lambda node: node.change.value),
            Column(
                "Node",
                lambda node: get_node_title(node, (first, second)) or shorten_name(node.label),
            ),
            Column("Difference", format_node_changes),
        ],
        nodes,
        "Changed nodes",
        height="content" if len(nodes) <= _MAX_CHANGES else 36 * _MAX_CHANGES,
        key=f"change-list-{identity}",
    )


def _show_nodes(diff: GraphDiff, tables: tuple[NodeTable, NodeTable] | None, identity: str) -> None:
    nodes = [node for node in diff.nodes if node.change is not Change.SAME]
    if not nodes:
        return
    show_rows(
        list_diff_columns(tables),
        nodes,
        f"Changed nodes of {diff.b.id}",
        key=f"changes-{identity}-{diff.b.id}",
    )


def _show_edges(diff: GraphDiff, identity: str) -> None:
    edges = [edge for edge in diff.edges if edge.change is not Change.SAME]
    if not edges:
        return
    show_fold(
        f"{len(edges):,} changed edges",
        f"edges-{identity}-{diff.b.id}",
        lambda: show_rows(
            [
                Column("Change", lambda edge: edge.change.value),
                Column("Earlier", lambda edge: _format_ends(edge.a)),
                Column("Later", lambda edge: _format_ends(edge.b)),
            ],
            edges,
            f"Changed edges of {diff.b.id}",
            key=f"edges-{identity}-{diff.b.id}",
        ),
        icon=":material/timeline:",
    )


def _format_ends(pair: tuple[int, int] | None) -> str | None:
    return None if pair is None else f"{pair[0]} \N{RIGHTWARDS ARROW} {pair[1]}"
