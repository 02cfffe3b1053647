"""Show the tables below a graph: nodes and source lines.

The row of the selected node is first and selected. Selecting a row updates the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import streamlit as st

from graphviz_dash.analysis.nodes.node_table import NodeRow
from graphviz_dash.analysis.nodes.source_lines import LineShare, list_source_lines
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.graph.drawing.node_note import format_work_name
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.markup import format_element, show_markup
from graphviz_dash.ui.page.picked_row import build_selection_callback

FIND: Final = "find"
"""URL parameter of the search in the drawing."""

_HEIGHT: Final = 420
_MAX_LINES: Final = 5
"""Number of source lines next to the drawing."""
_PICKED: Final = "picked-in-table"


def show_node_table(whole: ExpandedGraph, identity: str, selected: int | None) -> None:
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
        rows = [row for row in whole.table.rows if not query or _matches(row, query)]
        first = _get_first_node(f"{_PICKED}-{identity}", selected)
        rows = _move_to_front(rows, [row.node.index == first for row in rows])
        key = f"nodes-{identity}-{query}-{first}"
        _show_table(whole, rows, key, first, f"{_PICKED}-{identity}")


def _matches(row: NodeRow, query: str) -> bool:
    fields = (row.node.label, row.origin.op, row.origin.module, row.origin.source)
    return any(query in (part or "").lower() for part in fields)


def _get_first_node(slot: str, selected: int | None) -> int | None:
    """Return the node moved to the top: the selected one, unless selected in the table itself."""
    return selected if selected != st.session_state.get(slot) else st.session_state.get(f"{slot}+")


def _move_to_front(rows: list[Any], is_first: list[bool]) -> list[Any]:
    return [row for row, first in zip(rows, is_first, strict=True) if first] + [
        row for row, first in zip(rows, is_first, strict=True) if not first
    ]


def _show_table(
    whole: ExpandedGraph, rows: Sequence[NodeRow], key: str, first: int | None, slot: str
) -> None:
    st.dataframe(
        {
            "Node": [
                _format_node_name(whole, row.node.index) if whole.bodies else row.node.index
                for row in rows
            ],
            "Operator": [escape_control_characters(row.origin.op or "") for row in rows],
            "Module": [escape_control_characters(row.origin.module or "") for row in rows],
            "Kernel": [format_work_name(row.node) for row in rows],
            "Median (µs)": [
                None if row.times.median_ns is None else row.times.median_ns / 1e3 for row in rows
            ],
            "Kind": [row.node.kind.value for row in rows],
            "Source": [escape_control_characters(row.origin.source or "") for row in rows],
            "Phase": [row.origin.phase for row in rows],
            "Stream": [row.times.stream for row in rows],
            "Confidence": [row.times.confidence for row in rows],
        },
        column_config={
            "Median (µs)": st.column_config.NumberColumn(format="%.2f"),
            "Confidence": st.column_config.NumberColumn(format="percent"),
            "Kernel": st.column_config.TextColumn(width="medium"),
        },
        hide_index=True,
        height=_HEIGHT,
        key=key,
        on_select=build_selection_callback(
            key, lambda row: _select_node([entry.node.index for entry in rows], row, first, slot)
        ),
        selection_mode="single-cell",
        selection_default=_build_selection(
            first is not None and bool(rows) and rows[0].node.index == first
        ),
        placeholder="–",
        alt="All nodes of the graph; the selected row is the selected node",
    )


def _build_selection(chosen: bool) -> Any:
    return {"selection": {"cells": [(0, "Node")]}} if chosen else None


def _select_node(nodes: list[int], row: int | None, first: int | None, slot: str) -> None:
    if row is not None and row < len(nodes):
        node = nodes[row]
        st.session_state[slot], st.session_state[f"{slot}+"] = node, first
        url_state.set_parameters({"node": str(node)})


def _format_node_name(whole: ExpandedGraph, row_index: int) -> str:
    graph, index = whole.owners[row_index]
    return str(index) if row_index < len(whole.root_nodes) else f"{index} of {graph}"


def show_line_list(graph: ExpandedGraph, identity: str) -> None:
    """Show the source lines with the most GPU time; selecting one highlights its nodes. Nothing
    without source lines."""
    lines = list_source_lines(graph)[:_MAX_LINES]
    if not lines:
        return
    show_markup(format_element("div", format_element("h2", "Source lines"), "line-list"))
    key = f"top-lines-{identity}"
    sources = [line.source for line in lines]
    st.dataframe(
        {
            "Source line": [_shorten_source(line.source) for line in lines],
            "Share": [line.share for line in lines],
            "Operators": [escape_control_characters(", ".join(line.operators)) for line in lines],
        },
        column_config={
            "Share": st.column_config.ProgressColumn(
                format="percent", min_value=0.0, max_value=1.0, width="small"
            ),
        },
        hide_index=True,
        height="content",
        key=key,
        on_select=build_selection_callback(key, lambda row: _select_line(sources, row)),
        selection_mode="single-cell",
        placeholder="–",
        alt="Source lines with the most GPU time",
    )


def _shorten_source(source: str) -> str:
    """Shorten ``folder/file.py:12`` to its last two parts."""
    return escape_control_characters("/".join(source.split("/")[-2:]))


def show_line_table(whole: ExpandedGraph, identity: str, selected: int | None) -> None:
    """Show the source lines of the nodes; selecting a row highlights its nodes in the drawing."""
    table = st.expander(
        "Source lines", icon=":material/code:", key=f"lines-{identity}", on_change="rerun"
    )
    if not table.open:
        return
    selected_line = None if selected is None else whole.table.rows[selected].origin.source
    lines: list[LineShare] = list(list_source_lines(whole))
    with table:
        if not lines:
            st.caption("No node has a source line.")
            return
        lines = _move_to_front(lines, [line.source == selected_line for line in lines])
        key = f"lines-{identity}-{selected_line}"
        st.dataframe(
            {
                "Source line": [escape_control_characters(line.source) for line in lines],
                "Nodes": [line.nodes for line in lines],
                "Time (µs)": [
                    None if line.work_ns is None else line.work_ns / 1e3 for line in lines
                ],
                "Share": [line.share for line in lines],
                "Operators": [
                    escape_control_characters(", ".join(line.operators)) for line in lines
                ],
            },
            column_config={
                "Time (µs)": st.column_config.NumberColumn(format="%.2f"),
                "Share": st.column_config.NumberColumn(format="percent"),
                "Source line": st.column_config.TextColumn(width="medium"),
                "Operators": st.column_config.TextColumn(width="large"),
            },
            hide_index=True,
            height="content" if len(lines) <= 12 else _HEIGHT,
            key=key,
            on_select=build_selection_callback(
                key, lambda row: _select_line([line.source for line in lines], row)
            ),
            selection_mode="single-cell",
            selection_default={"selection": {"cells": [(0, "Source line")]}}
            if selected_line
            else None,
            placeholder="–",
            alt="Source lines of the graph's nodes with their time",
        )


def _select_line(sources: list[str], row: int | None) -> None:
    if row is not None and row < len(sources):
        url_state.set_parameters({FIND: sources[row]})
