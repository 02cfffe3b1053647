"""Two graphs compared on the Graph page: the choice of the earlier one, the outcome, the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from graphviz_dash.analysis.diff.graph_diff import Change, GraphDiff
from graphviz_dash.analysis.diff.graph_pair import GraphPair
from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.analysis.trace.kernel_names import short_name
from graphviz_dash.errors import printable
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.graphs import (
    answer_sentence,
    diff_sentence,
    node_changes,
    prediction_sentence,
)
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.markup import element, show, text
from graphviz_dash.ui.state.graphs import GraphAddress

AGAINST: Final = "against"
_NOTHING: Final = "nothing"


def choose_earlier(key: str, runs: Sequence[Run], of: GraphAddress) -> GraphAddress | None:
    """The picker of the graph that the one shown is compared with, which is ``?against=``."""
    places: dict[str, GraphAddress] = {}
    names: dict[str, str] = {_NOTHING: _NOTHING}
    for run in runs:
        for graph in run.graphs:
            address = (key, run.name, graph.id)
            if graph.parent is None and address != of:
                places[f"{run.name}:{graph.id}"] = address
                names[f"{run.name}:{graph.id}"] = f"{run.name} · {graph_label(graph)}"
    if not places:
        return None
    chosen = url_state.choose(
        AGAINST,
        "Compare with",
        list(names),
        clears=("node",),
        width=250,
        format_func=lambda name: printable(names[name]),
    )
    return places.get(chosen)


def graph_label(graph: CapturedGraph) -> str:
    """A graph by its id and what the workload calls it."""
    return f"{graph.id} ({graph.name})" if graph.name else graph.id


def outcome(pair: GraphPair) -> None:
    """What differs, and whether the earlier graph's executable could be updated."""
    unseen = "Kernel arguments and addresses are in no bundle: a difference in them is not seen."
    lines = [
        "Updating an executable of the earlier graph to this one (cudaGraphExecUpdate).",
        f"<b>By its rules:</b> {text(prediction_sentence(pair.prediction))}",
    ]
    if pair.recorded is not None:
        lines.append(f"<b>The driver:</b> {text(answer_sentence(pair.recorded))}")
    if pair.agreed is False:
        lines.append("The driver did not answer as predicted.")
    show(
        element("p", f"<b>{text(diff_sentence(pair.diff))}</b> {unseen}"),
        element("p", "<br>".join(lines)),
    )


def differences(pair: GraphPair, first: NodeTable, second: NodeTable, identity: str) -> None:
    """The nodes and edges that differ, as tables."""
    for diff in pair.diff.whole:
        _nodes(diff, (first, second) if diff is pair.diff else None, identity)
        _edges(diff, identity)


def _nodes(diff: GraphDiff, tables: tuple[NodeTable, NodeTable] | None, identity: str) -> None:
    nodes = [node for node in diff.nodes if node.change is not Change.SAME]
    if not nodes:
        return
    before = [
        None if node.a is None or tables is None else tables[0].rows[node.a].times.median_ns
        for node in nodes
    ]
    after = [
        None if node.b is None or tables is None else tables[1].rows[node.b].times.median_ns
        for node in nodes
    ]
    st.dataframe(
        {
            "Change": [node.change.value for node in nodes],
            "Earlier": [node.a for node in nodes],
            "This": [node.b for node in nodes],
            "Node": [short_name(printable(node.label)) for node in nodes],
            "What differs": [printable(node_changes(node)) for node in nodes],
            "Earlier, µs": [None if median is None else median / 1e3 for median in before],
            "This, µs": [None if median is None else median / 1e3 for median in after],
        },
        column_config={
            "Earlier, µs": st.column_config.NumberColumn(format="%.2f"),
            "This, µs": st.column_config.NumberColumn(format="%.2f"),
            "Node": st.column_config.TextColumn(width="medium"),
            "What differs": st.column_config.TextColumn(width="large"),
        },
        hide_index=True,
        height="content" if len(nodes) <= 12 else 420,
        key=f"changes-{identity}-{diff.b.id}",
        placeholder="–",
    )


def _edges(diff: GraphDiff, identity: str) -> None:
    edges = [edge for edge in diff.edges if edge.change is not Change.SAME]
    if not edges:
        return
    with st.expander(f"{len(edges):,} edges that differ", icon=":material/timeline:"):
        st.dataframe(
            {
                "Change": [edge.change.value for edge in edges],
                "Earlier": [_ends(edge.a) for edge in edges],
                "This": [_ends(edge.b) for edge in edges],
            },
            hide_index=True,
            height="content" if len(edges) <= 12 else 420,
            key=f"edges-{identity}-{diff.b.id}",
            placeholder="–",
        )


def _ends(pair: tuple[int, int] | None) -> str | None:
    return None if pair is None else f"{pair[0]} \N{RIGHTWARDS ARROW} {pair[1]}"
