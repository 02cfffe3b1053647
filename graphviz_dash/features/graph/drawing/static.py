"""Static drawing of a folded graph."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from graphviz_dash.charts.palette import CRITICAL
from graphviz_dash.charts.shades import Shade
from graphviz_dash.charts.static.svg import (
    INK,
    MUTED,
    PAPER,
    build_drawing,
    build_legend,
    build_rectangle,
    build_text,
    css_colour,
    declare_variables,
    escape_text,
    truncate_text,
)
from graphviz_dash.features.graph.drawing.boxes import Box
from graphviz_dash.features.graph.drawing.colours import ColourBy
from graphviz_dash.features.graph.drawing.folded import FoldedGraph
from graphviz_dash.features.graph.drawing.links import Link
from graphviz_dash.features.graph.drawing.view import DagView, build_dag_view
from graphviz_dash.units import pluralize

_ASPECT_RATIO: Final = 1.25
"""Width-to-height ratio, readable on a printed page."""


_STYLE: Final = """
svg {{ font: 13px Inter, system-ui, "Segoe UI", Roboto, Arial, sans-serif; {colours} }}
text {{ fill: {ink}; }}
.num {{ font-family: "JetBrains Mono", ui-monospace, Menlo, Consolas, monospace; }}
.small {{ font-size: 12px; }}
.tiny {{ font-size: 10.5px; fill: {muted}; }}
.box {{ font-size: 11.5px; }}
.strong {{ font-weight: 640; }}
"""
"""Text styles of a standalone file."""


def draw_dag(graph: FoldedGraph, name: str, colour_by: ColourBy = ColourBy.CATEGORY) -> str:
    """Draw the graph as the Graph page initially shows it."""
    return draw_view(build_dag_view(graph, colour_by, _ASPECT_RATIO), name)


def draw_view_file(view: DagView, name: str, dark: bool) -> str:
    """Draw a view as a self-contained SVG file with the theme's background."""
    markup = draw_view(view, name)
    paper = build_rectangle(0, 0, 1e5, 1e5, css_colour(PAPER))
    declarations = declare_variables(markup + paper + css_colour(INK) + css_colour(MUTED))[
        1 if dark else 0
    ]
    style = _STYLE.format(colours=declarations, ink=css_colour(INK), muted=css_colour(MUTED))
    head, _, content = markup.partition(">")
    head = head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return f"{head}><style>{style}</style>{paper}{content}"


def draw_view(view: DagView, name: str) -> str:
    """Draw a view for a page."""
    shades = [Shade(entry.light, entry.dark) for entry in view.legend]
    entries = [(entry.label, shade) for entry, shade in zip(view.legend, shades, strict=True)]
    if any(box.critical for box in view.boxes):
        entries.append(("critical path", CRITICAL))
    width = max(float(view.width), 480.0)
    legend_markup, top = build_legend(entries, 4, 14, width)
    parts = [_draw_link(link) for link in view.links]
    parts += [_draw_box(box, view, shades) for box in view.boxes]
    inside = f'<g transform="translate(0 {top:g})">{"".join(parts)}</g>'
    description = f"Graph {name}: {pluralize(view.nodes, 'node')}, {pluralize(view.edges, 'edge')}"
    return build_drawing(width, top + view.height, description, legend_markup + inside)


def _draw_link(link: Link) -> str:
    points = list(zip(link.points[::2], link.points[1::2], strict=True))
    moves = "L".join(f"{x} {y}" for x, y in points)
    stroke = css_colour(CRITICAL if link.critical else MUTED)
    dash = "stroke-dasharray:5 4;" if link.dashed else "" if link.count else "stroke-dasharray:2 4;"
    width = 2.4 if link.critical else 1.6 if link.count > 1 else 1.1
    line = f'<path d="M{moves}" style="fill:none;stroke:{stroke};{dash}stroke-width:{width}"/>'
    (x, y) = points[-1]
    arrow = f'<path d="M{x} {y}l-3.6-6h7.2z" style="fill:{stroke}"/>'
    label = build_text(x + 5, y - 7, link.text, "tiny") if link.text else ""
    return line + arrow + label


def _draw_box(box: Box, view: DagView, shades: list[Shade]) -> str:
    fill = css_colour(shades[box.colour])
    edge = f'rx="6" stroke="{fill}"' + (' stroke-dasharray="5 4"' if box.disabled else "")
    full_name = view.names[box.name] if box.name >= 0 else box.label
    x, y, width, height = box.x, box.y, box.width, box.height
    stack = ""
    if box.repeats:
        stack = "".join(
            build_rectangle(x + shift, y + shift, width, height, css_colour(PAPER), extra=edge)
            for shift in (6, 3)
        )
    tint = 0 if box.disabled or box.open else 0.13
    background = build_rectangle(x, y, width, height, css_colour(PAPER), extra=edge)
    overlay = build_rectangle(x, y, width, height, fill, extra=f'rx="6" fill-opacity="{tint}"')
    bar = build_rectangle(x, y + 3, 4, height - 6, fill) if not box.open else ""
    if box.critical and not box.open:
        bar += build_rectangle(x + width - 4, y + 3, 4, height - 6, css_colour(CRITICAL))
    badge = f" × {box.repeats}" if box.repeats else ""
    time_width = 6.4 * len(box.time) + 8
    # The header of an unfolded group has one line, a folded box has two: name and time.
    room = width - 20 - (time_width if box.open else 0)
    clip = f'<svg x="{x + 11}" y="{y}" width="{max(room, 1):g}" height="24">'
    label = build_text(0, 16, box.label + badge, "box strong" if box.node < 0 else "box")
    parts = [f"{clip}{label}</svg>"]
    if box.time:
        baseline = y + (16 if box.open else 32)
        parts.append(build_text(x + width - 9, baseline, box.time, "tiny num", "end"))
    if not box.open:
        parts.append(
            build_text(
                x + 11, y + 32, truncate_text(box.note, width - 20 - time_width, 10.5), "tiny"
            )
        )
    step = (width - 24) / max(1, len(box.strip))
    borders = [x + 12 + step * index for index in range(len(box.strip) + 1)]
    for index, (begin, end) in zip(box.strip, pairwise(borders), strict=True):
        wide = max(end - begin - (1 if step > 4 else 0), 0.5)
        parts.append(build_rectangle(begin, y + height - 13, wide, 7, css_colour(shades[index])))
    tip = f"<title>{escape_text(full_name)}</title>"
    return f"<g>{tip}{stack}{background}{overlay}{bar}{''.join(parts)}</g>"
