"""Columns of changed nodes for the page and the terminal."""

from __future__ import annotations

from typing import Final

from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.analysis.trace.kernel_names import shorten_name
from graphviz_dash.features.graph.diff.graph_diff import NodeDiff
from graphviz_dash.features.graph.diff_document import read_medians
from graphviz_dash.features.graph.diff_narrative import format_node_changes
from graphviz_dash.features.graph.drawing.node_note import build_node_lines
from graphviz_dash.narrative.columns import COUNT, MICROSECONDS, Column

NodeTables = tuple[NodeTable, NodeTable]


def get_node_title(node: NodeDiff, tables: NodeTables | None) -> str | None:
    """Return operator or module from the later graph that has it; None in a body."""
    if tables is None:
        return None
    row = tables[0].rows[node.a] if node.b is None and node.a is not None else None
    row = tables[1].rows[node.b] if node.b is not None else row
    return build_node_lines(row)[0] if row else None


def list_diff_columns(tables: NodeTables | None) -> list[Column[NodeDiff]]:
    """List the columns of changed nodes; ``tables`` is None for bodies of nodes."""
    return [
        Column("Change", lambda node: node.change.value),
        Column("Earlier", lambda node: node.a, COUNT, "A"),
        Column("Later", lambda node: node.b, COUNT, "B"),
        Column(
            "Node", lambda node: get_node_title(node, tables), terminal_title=None, width="medium"
        ),
        Column("Kernel", lambda node: shorten_name(node.label), terminal_title=None),
        Column(None, lambda node: node.label, terminal_title="node", limit=_NAME_LENGTH),
        Column("Earlier", lambda node: read_medians(node, tables)[0], MICROSECONDS, "median A"),
        Column("Later", lambda node: read_medians(node, tables)[1], MICROSECONDS, "median B"),
        Column("Difference", format_node_changes, width="large"),
    ]


_NAME_LENGTH: Final = 56
