"""Export a captured graph in the DOT language (graphviz.org/doc/info/lang.html)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from graphviz_dash.analysis.nodes.node_table import NodeRow
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph, GraphBody
from graphviz_dash.dot_text import quote_dot
from graphviz_dash.exports.files import replace_file
from graphviz_dash.model.graph import EdgeType, GraphEdge, NodeKind
from graphviz_dash.units import format_ns

_LABEL_CHARS = 60
_SHAPES = {
    NodeKind.KERNEL: "box",
    NodeKind.MEMCPY: "cds",
    NodeKind.MEMSET: "note",
    NodeKind.CHILD_GRAPH: "box3d",
    NodeKind.CONDITIONAL: "diamond",
    NodeKind.HOST: "house",
    NodeKind.EMPTY: "circle",
    NodeKind.MEM_ALLOC: "folder",
    NodeKind.MEM_FREE: "folder",
}


def export_dot(full_graph: ExpandedGraph, title: str, file: Path) -> None:
    """Write a graph and its nested graphs as DOT.

    Labels hold name, operator and median time; tooltips hold full name, module and source.
    Programmatic dependencies are dashed. Child graphs and bodies are clusters with a dotted
    incoming edge.

    Raises:
        InputError: the file cannot be written.
    """
    with replace_file(file) as target:
        target.write(format_dot(full_graph, title))


def format_dot(full_graph: ExpandedGraph, title: str) -> bytes:
    """Return the content written by ``export_dot``."""
    return b"".join(line.encode() + b"\n" for line in _generate_lines(full_graph, title))


def _generate_lines(full_graph: ExpandedGraph, title: str) -> Iterator[str]:
    yield f"digraph {quote_dot(title)} {{"
    yield '  node [fontname="Helvetica", fontsize=10, shape=ellipse];'
    if full_graph.bodies:
        yield '  compound=true; graph [fontname="Helvetica", fontsize=10];'
    yield from _generate_nodes(full_graph, full_graph.root_nodes, "  ")
    for edge in full_graph.table.graph.edges:
        style = _format_edge_attributes(edge)
        yield f"  n{edge.source} -> n{edge.target}{f' [{style}]' if style else ''};"
    for holder, bodies in full_graph.bodies.items():
        for body in bodies:
            if body.nodes:
                attributes = f"style=dotted, lhead={_format_cluster_name(body)}"
                yield f"  n{holder} -> n{body.nodes[0]} [{attributes}];"
    yield "}"


def _generate_nodes(
    full_graph: ExpandedGraph, row_indices: tuple[int, ...], indent: str
) -> Iterator[str]:
    for row_index in row_indices:
        row, index = full_graph.table.rows[row_index], full_graph.owners[row_index][1]
        yield f"{indent}n{row_index} [{_format_node_attributes(row, index)}];"
        for body in full_graph.bodies.get(row_index, ()):
            yield f"{indent}subgraph {_format_cluster_name(body)} {{"
            label = quote_dot(f"{row.node.label}: {body.title} ({body.graph})")
            yield f"{indent}  style=dashed; label={label};"
            yield from _generate_nodes(full_graph, body.nodes, indent + "  ")
            yield f"{indent}}}"


def _format_cluster_name(body: GraphBody) -> str:
    return quote_dot(f"cluster {body.graph}")


def _format_node_attributes(row: NodeRow, index: int) -> str:
    node, origin = row.node, row.origin
    name = node.label if len(node.label) <= _LABEL_CHARS else f"{node.label[: _LABEL_CHARS - 1]}…"
    parts = [f"{index}: {name}"]
    if origin.op is not None:
        parts.append(origin.op)
    if row.times.median_ns is not None:
        parts.append(format_ns(row.times.median_ns))
    details = [node.label, origin.module, origin.source]
    # A DOT line break, inserted between texts that are already quoted.
    label = "\\n".join(quote_dot(part)[1:-1] for part in parts)
    tooltip = "\\n".join(quote_dot(part)[1:-1] for part in details if part)
    attributes = [f'label="{label}"', f'tooltip="{tooltip}"']
    if node.kind in _SHAPES:
        attributes.append(f"shape={_SHAPES[node.kind]}")
    return ", ".join(attributes)


def _format_edge_attributes(edge: GraphEdge) -> str:
    style = ["style=dashed"] if edge.type is EdgeType.PROGRAMMATIC else []
    if edge.from_port or edge.to_port:
        style.append(f'label="{edge.from_port}:{edge.to_port}"')
    return ", ".join(style)
