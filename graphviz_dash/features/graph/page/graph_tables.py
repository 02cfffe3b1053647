"""Show the table of nodes below a graph.

The row of the selected node is first and selected. Selecting a row updates the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from graphviz_dash.analysis.nodes.node_table import NodeRow
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.features.graph.drawing.node_note import format_work_name
from graphviz_dash.narrative.columns import MICROSECONDS, SHARE, Column
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.tables import build_selection_callback, show_rows

FIND: Final = "find"

_HEIGHT: Final = 420
_PICKED: Final = "picked-in-table"


def show_node_table(full_graph: ExpandedGraph, identity: str, selected: int | None) -> None:
    """Show all nodes, filtered by ``?search=``; selecting a row selects its node."""
    # Build and send up to 50,000 rows only if the expander is open.
    table = st.expander(
        "All nodes",
        icon=":material/table_rows:",
        expanded=url_state.get_value("search") is not None,
        key=f"table-{identity}",
        on_change="rerun",
    )
    if not table.open:
        return
    with table:
        query = url_state.show_search_field(
            "search", "Search nodes", "Search by name, operator, module or source line"
        )
        rows = [row for row in full_graph.table.rows if not query or _matches(row, query)]
        first = _get_first_node(f"{_PICKED}-{identity}", selected)
        rows.sort(key=lambda row: row.node.index != first)
        key = f"nodes-{identity}-{query}-{first}"
        _show_table(full_graph, rows, key, first, f"{_PICKED}-{identity}")


def _matches(row: NodeRow, query: str) -> bool:
    fields = (row.node.label, row.origin.op, row.origin.module, row.origin.source)
    return any(query in (part or "").lower() for part in fields)


def _get_first_node(slot: str, selected: int | None) -> int | None:
    """Return the selected node, unless selected in the table itself."""
    return selected if selected != st.session_state.get(slot) else st.session_state.get(f"{slot}+")


def _show_table(
    full_graph: ExpandedGraph, rows: Sequence[NodeRow], key: str, first: int | None, slot: str
) -> None:
    show_rows(
        [
            Column(
                "Node",
                lambda row: (
                    _format_node_name(full_graph, row.node.index)
                    if full_graph.bodies
                    else row.node.index
                ),
            ),
            Column("Operator", lambda row: row.origin.op or ""),
            Column("Module", lambda row: row.origin.module or ""),
            Column("Kernel", lambda row: format_work_name(row.node), width="medium"),
            Column("Median", lambda row: row.times.median_ns, MICROSECONDS),
            Column("Kind", lambda row: row.node.kind.value),
            Column("Source", lambda row: row.origin.source or ""),
            Column("Phase", lambda row: row.origin.phase),
            Column("Stream", lambda row: row.times.stream),
            Column("Confidence", lambda row: row.times.confidence, SHARE),
        ],
        rows,
        "All nodes of the graph; the selected row is the selected node",
        height=_HEIGHT,
        key=key,
        on_select=build_selection_callback(
            key, lambda row: _select_node([entry.node.index for entry in rows], row, first, slot)
        ),
        selection_mode="single-cell",
        selection_default={"selection": {"cells": [(0, "Node")]}}
        if (first is not None and bool(rows) and rows[0].node.index == first)
        else None,
    )


def _select_node(nodes: list[int], row: int | None, first: int | None, slot: str) -> None:
    if row is not None and row < len(nodes):
        node = nodes[row]
        st.session_state[slot], st.session_state[f"{slot}+"] = node, first
        url_state.set_parameters({"node": str(node)})


def _format_node_name(full_graph: ExpandedGraph, row_index: int) -> str:
    graph, index = full_graph.owners[row_index]
    return str(index) if row_index < len(full_graph.root_nodes) else f"{index} of {graph}"
