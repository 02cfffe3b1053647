"""A captured graph, folded, as a drawing that stands still."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from graphviz_dash.charts.palette import CRITICAL
from graphviz_dash.charts.shades import Shade
from graphviz_dash.charts.static.svg import (
    INK,
    MUTED,
    PAPER,
    colour,
    drawing,
    fitted,
    legend,
    rectangle,
    text,
    variables,
    words,
)
from graphviz_dash.features.graph.drawing.boxes import Box
from graphviz_dash.features.graph.drawing.colours import ColourBy
from graphviz_dash.features.graph.drawing.folded import FoldedGraph
from graphviz_dash.features.graph.drawing.view import DagView, dag_view
from graphviz_dash.units import counted

if TYPE_CHECKING:
    from graphviz_dash.features.graph.drawing.links import Link

_RATIO: Final = 1.25
"""Width over height: what a page of paper can still be read at."""


_STYLE: Final = """
svg {{ font: 13px Inter, system-ui, "Segoe UI", Roboto, Arial, sans-serif; {colours} }}
text {{ fill: {ink}; }}
.num {{ font-family: "JetBrains Mono", ui-monospace, Menlo, Consolas, monospace; }}
.small {{ font-size: 12px; }}
.tiny {{ font-size: 10.5px; fill: {muted}; }}
.box {{ font-size: 11.5px; }}
.strong {{ font-weight: 640; }}
"""
"""What a page around the drawing says of its texts, for a file of its own."""


def static_dag(graph: FoldedGraph, name: str) -> str:
    """The graph as the Graph page first shows it, coloured by the category of its work."""
    return static_view(dag_view(graph, ColourBy.CATEGORY, _RATIO), name)


def view_file(view: DagView, name: str, dark: bool) -> str:
    """A view as an SVG file that needs nothing beside it, on paper of the theme's colour."""
    drawn = static_view(view, name)
    paper = rectangle(0, 0, 1e5, 1e5, colour(PAPER))
    used = variables(drawn + paper + colour(INK) + colour(MUTED))[1 if dark else 0]
    style = _STYLE.format(colours=used, ink=colour(INK), muted=colour(MUTED))
    head, _, content = drawn.partition(">")
    head = head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return f"{head}><style>{style}</style>{paper}{content}"


def static_view(view: DagView, name: str) -> str:
    """A view as a drawing for a page; ``name`` is the graph's."""
    shades = [Shade(entry.light, entry.dark) for entry in view.legend]
    entries = [(entry.label, shade) for entry, shade in zip(view.legend, shades, strict=True)]
    if any(box.critical for box in view.boxes):
        entries.append(("critical path", CRITICAL))
    width = max(float(view.width), 480.0)
    shown, top = legend(entries, 4, 14, width)
    parts = [_link(link) for link in view.links]
    parts += [_box(box, view, shades) for box in view.boxes]
    inside = f'<g transform="translate(0 {top:g})">{"".join(parts)}</g>'
    said = f"Graph {name}: {counted(view.nodes, 'node')}, {counted(view.edges, 'edge')}"
    return drawing(width, top + view.height, said, shown + inside)


def _link(link: Link) -> str:
    points = list(zip(link.points[::2], link.points[1::2], strict=True))
    moves = "L".join(f"{x} {y}" for x, y in points)
    stroke = colour(CRITICAL if link.critical else MUTED)
    dash = "stroke-dasharray:5 4;" if link.dashed else "" if link.count else "stroke-dasharray:2 4;"
    width = 2.4 if link.critical else 1.6 if link.count > 1 else 1.1
    line = f'<path d="M{moves}" style="fill:none;stroke:{stroke};{dash}stroke-width:{width}"/>'
    (x, y) = points[-1]
    arrow = f'<path d="M{x} {y}l-3.6-6h7.2z" style="fill:{stroke}"/>'
    said = words(x + 5, y - 7, link.text, "tiny") if link.text else ""
    return line + arrow + said


def _box(box: Box, view: DagView, shades: list[Shade]) -> str:
    fill = colour(shades[box.colour])
    edge = f'rx="6" stroke="{fill}"' + (' stroke-dasharray="5 4"' if box.disabled else "")
    whole = view.names[box.name] if box.name >= 0 else box.label
    x, y, width, height = box.x, box.y, box.width, box.height
    stack = ""
    if box.repeats:
        stack = "".join(
            rectangle(x + shift, y + shift, width, height, colour(PAPER), extra=edge)
            for shift in (6, 3)
        )
    tint = 0 if box.disabled or box.open else 0.13
    under = rectangle(x, y, width, height, colour(PAPER), extra=edge)
    over = rectangle(x, y, width, height, fill, extra=f'rx="6" fill-opacity="{tint}"')
    bar = rectangle(x, y + 3, 4, height - 6, fill) if not box.open else ""
    if box.critical and not box.open:
        bar += rectangle(x + width - 4, y + 3, 4, height - 6, colour(CRITICAL))
    badge = f" × {box.repeats}" if box.repeats else ""
    told = 6.4 * len(box.time) + 8
    # The head of an unfolded group is one line, a folded box two: its name, and its time below.
    room = width - 20 - (told if box.open else 0)
    clip = f'<svg x="{x + 11}" y="{y}" width="{max(room, 1):g}" height="24">'
    label = words(0, 16, box.label + badge, "box strong" if box.node < 0 else "box")
    parts = [f"{clip}{label}</svg>"]
    if box.time:
        at = y + (16 if box.open else 32)
        parts.append(words(x + width - 9, at, box.time, "tiny num", "end"))
    if not box.open:
        parts.append(words(x + 11, y + 32, fitted(box.note, width - 20 - told, 10.5), "tiny"))
    step = (width - 24) / max(1, len(box.strip))
    edges = [x + 12 + step * index for index in range(len(box.strip) + 1)]
    for index, (begin, end) in zip(box.strip, pairwise(edges), strict=True):
        wide = max(end - begin - (1 if step > 4 else 0), 0.5)
        parts.append(rectangle(begin, y + height - 13, wide, 7, colour(shades[index])))
    tip = f"<title>{text(whole)}</title>"
    return f"<g>{tip}{stack}{under}{over}{bar}{''.join(parts)}</g>"
