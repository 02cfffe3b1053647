"""A captured graph in the DOT language (graphviz.org/doc/info/lang.html), for dot and its kin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from graphviz_dash.analysis.nodes import NodeRow, NodeTable
from graphviz_dash.errors import printable
from graphviz_dash.exports.files import replacing
from graphviz_dash.model.graph import EdgeType, GraphEdge, NodeKind
from graphviz_dash.units import format_ns

_LABEL_CHARS = 60
_SHAPES = {
    NodeKind.KERNEL: "box",
    NodeKind.MEMCPY: "cds",
    NodeKind.MEMSET: "note",
    NodeKind.CHILD_GRAPH: "box3d",
    NodeKind.CONDITIONAL: "diamond",
}


def export_dot(table: NodeTable, title: str, file: Path) -> None:
    """Writes the graph of ``table``: a node each with its label, operator and median time, whole
    name, module and source in its tooltip; programmatic dependencies dashed.

    Raises:
        InputError: the file cannot be written.
    """
    with replacing(file) as target:
        target.write(as_dot(table, title))


def as_dot(table: NodeTable, title: str) -> bytes:
    """What ``export_dot`` writes."""
    return b"".join(line.encode() + b"\n" for line in _lines(table, title))


def quoted(text: str) -> str:
    """``text`` as a quoted string of DOT that means nothing but itself, in labels too."""
    return '"' + printable(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _lines(table: NodeTable, title: str) -> Iterator[str]:
    yield f"digraph {quoted(title)} {{"
    yield '  node [fontname="Helvetica", fontsize=10, shape=ellipse];'
    for row in table.rows:
        yield f"  n{row.node.index} [{_attributes(row)}];"
    for edge in table.graph.edges:
        style = _edge(edge)
        yield f"  n{edge.source} -> n{edge.target}{f' [{style}]' if style else ''};"
    yield "}"


def _attributes(row: NodeRow) -> str:
    node, origin = row.node, row.origin
    name = node.label if len(node.label) <= _LABEL_CHARS else f"{node.label[: _LABEL_CHARS - 1]}…"
    parts = [f"{node.index}: {name}"]
    if origin.op is not None:
        parts.append(origin.op)
    if row.times.median_ns is not None:
        parts.append(format_ns(row.times.median_ns))
    told = [node.label, origin.module, origin.source]
    # The line break is DOT's own, put between texts that are quoted already.
    label = "\\n".join(quoted(part)[1:-1] for part in parts)
    tooltip = "\\n".join(quoted(part)[1:-1] for part in told if part)
    attributes = [f'label="{label}"', f'tooltip="{tooltip}"']
    if node.kind in _SHAPES:
        attributes.append(f"shape={_SHAPES[node.kind]}")
    return ", ".join(attributes)


def _edge(edge: GraphEdge) -> str:
    style = ["style=dashed"] if edge.type is EdgeType.PROGRAMMATIC else []
    if edge.from_port or edge.to_port:
        style.append(f'label="{edge.from_port}:{edge.to_port}"')
    return ", ".join(style)
