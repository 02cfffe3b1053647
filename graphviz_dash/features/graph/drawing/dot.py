"""Export of a DAG view in the DOT language: boxes and links as nodes, clusters and edges."""

from __future__ import annotations

from collections.abc import Iterator

from graphviz_dash.dot_text import quote_dot
from graphviz_dash.features.graph.drawing.boxes import Box
from graphviz_dash.features.graph.drawing.links import Link
from graphviz_dash.features.graph.drawing.view import DagView


def format_view_dot(view: DagView, name: str) -> str:
    """Convert the view to DOT: a node for each box, a cluster for each unfolded group, at whose
    border its links end."""
    inside: dict[str, list[Box]] = {}
    open_groups: list[Box] = []
    for box in view.boxes:
        # Boxes come in tree order, so the enclosing box is recent.
        while open_groups and not _encloses(open_groups[-1], box):
            open_groups.pop()
        inside.setdefault(open_groups[-1].id if open_groups else "", []).append(box)
        if box.open:
            open_groups.append(box)
    return "\n".join([
        f"digraph {quote_dot(name)} {{",
        '  compound=true; graph [fontname="Helvetica", fontsize=11];',
        '  node [fontname="Helvetica", fontsize=10, shape=box, style="rounded,filled"];',
        *_format_boxes(view, inside, "", "  "),
        *(f"  {line}" for link in view.links for line in _format_link(link, inside)),
        "}",
        "",
    ])  # fmt: skip


def _encloses(outer: Box, box: Box) -> bool:
    return outer.first <= box.first and box.first + box.count <= outer.first + outer.count


def _format_boxes(
    view: DagView, inside: dict[str, list[Box]], parent: str, indent: str
) -> Iterator[str]:
    for box in inside.get(parent, ()):
        label = f"{box.label} × {box.repeats}" if box.repeats else box.label
        shade = view.legend[box.colour].light
        if box.open:
            yield f"{indent}subgraph {quote_dot(f'cluster {box.id}')} {{"
            yield f"{indent}  label={quote_dot(f'{label}, {box.note}, {box.time}')};"
            yield from _format_boxes(view, inside, box.id, f"{indent}  ")
            yield f"{indent}}}"
            continue
        full_name = view.names[box.name] if box.name >= 0 else box.label
        # The line breaks are DOT escapes, inserted between quoted texts.
        lines = "\\n".join(quote_dot(text)[1:-1] for text in (label, box.note, box.time) if text)
        yield (
            f"{indent}{quote_dot(box.id)} "
            f'[label="{lines}", tooltip={quote_dot(full_name)}, color="{shade}", '
            f'fillcolor="{shade}33"];'
        )


def _format_link(link: Link, inside: dict[str, list[Box]]) -> Iterator[str]:
    style = [] if link.count else ["style=dotted"]
    if link.dashed:
        style.append("style=dashed")
    if link.critical:
        style.append("penwidth=2")
    if link.text:
        style.append(f"label={quote_dot(link.text)}")
    ends = []
    for ident, end in ((link.source, "ltail"), (link.target, "lhead")):
        box = ident
        if ident in inside:
            style.append(f"{end}={quote_dot(f'cluster {ident}')}")
            while box in inside:
                box = inside[box][0].id
        ends.append(quote_dot(box))
    attributes = f" [{', '.join(style)}]" if style else ""
    yield f"{' -> '.join(ends)}{attributes};"
