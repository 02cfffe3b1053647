"""Show the side panel of a graph: the card of the selected node, or the longest nodes."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from math import isfinite
from typing import Final

import streamlit as st

from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.charts.palette import CATEGORY_SHADES
from graphviz_dash.charts.shades import GREY, IDLE, Theme, get_colour
from graphviz_dash.features.graph.drawing.node_card import Field, NodeCard
from graphviz_dash.features.graph.drawing.node_note import (
    build_node_lines,
    format_module_tail,
    format_work_name,
)
from graphviz_dash.model.replay_check import WrongElements
from graphviz_dash.narrative.replay_check import (
    format_differing_elements,
    format_element_difference,
)
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.markup import escape_html, format_element, format_text, show_markup
from graphviz_dash.ui.page.tables import build_selection_callback

_MAX_NODES: Final = 14
_PICTURE_PX: Final = 44
_DIFFERENCES_PX: Final = 32


def format_node_panel(card: NodeCard, theme: Theme) -> str:
    """Format all details of one node."""
    colour = get_colour(CATEGORY_SHADES[Category(card.category)], theme)
    pieces = [
        format_element(
            "span",
            f'<i style="background:{colour}"></i>'
            + escape_html(f"{card.where} · {card.kind} · {card.category}"),
            "kind",
        ),
        format_text("h2", card.title),
    ]
    if card.name != card.title:
        pieces.append(format_text("p", card.name, "full", tabindex="0"))
    for title, fields in card.sections:
        pieces.append(format_text("h3", title))
        if title == "Replay check" and card.wrong_elements is not None:
            pieces.append(_format_elements(card.wrong_elements, theme))
        if title.startswith("Time") and card.bins:
            pieces.append(_format_histogram(card.bins, colour))
        pieces.append(
            format_element("div", "".join(_format_field(field) for field in fields), "pairs")
        )
    return format_element("div", "".join(pieces), "node")


def show_longest_nodes(nodes: NodeTable, identity: str) -> None:
    """Show the longest nodes for selection; ``identity`` distinguishes graphs."""
    timed = (row for row in nodes.rows if row.times.median_ns is not None)
    rows = nsmallest(_MAX_NODES, timed, key=lambda row: -(row.times.median_ns or 0.0))
    rows = rows or list(nodes.rows[:_MAX_NODES])
    heading = "Longest nodes" if nodes.replays else "First nodes"
    show_markup(
        format_element(
            "div",
            format_text("h2", heading) + format_element("p", "Select a node for details.", "muted"),
            "node",
        )
    )
    times = [None if row.times.median_ns is None else row.times.median_ns / 1e3 for row in rows]
    highest = max((time for time in times if time is not None), default=1.0)
    names = [build_node_lines(row)[0] for row in rows]
    modules = [format_module_tail(row.origin.module) for row in rows]
    kernels = [format_work_name(row.node) for row in rows]
    key = f"longest-{identity}"
    st.dataframe(
        {
            # Omit empty and duplicate columns.
            **({"µs": times} if any(time is not None for time in times) else {}),
            "Node": names,
            **({"Module": modules} if any(modules) else {}),
            **({"Kernel": kernels} if kernels != names else {}),
        },
        column_config={
            "µs": st.column_config.ProgressColumn(
                format="%.2f", min_value=0.0, max_value=highest, width="small"
            ),
        },
        hide_index=True,
        height="content",
        key=key,
        on_select=build_selection_callback(
            key, lambda row: _select_node([entry.node.index for entry in rows], row)
        ),
        selection_mode="single-cell",
        placeholder="–",
        alt="The longest nodes of the graph with their median time",
    )


def _select_node(nodes: Sequence[int], row: int | None) -> None:
    if row is not None and row < len(nodes):
        url_state.set_parameters({"node": str(nodes[row])})


def _format_field(field: Field) -> str:
    note = format_text("small", field.note) if field.note else ""
    # Break long paths after a folder, not within the line number.
    value = escape_html(field.text).replace("/", "/<wbr>")
    return format_text("span", field.label) + format_element("b", value + note)


def _format_elements(elements: WrongElements, theme: Theme) -> str:
    """Format eager and replayed values on one scale, and their differences on another."""
    grey, red = get_colour(GREY, theme), get_colour(IDLE, theme)
    titles = list(map(format_element_difference, elements.first))
    pairs = [(item.eager, item.replay) for item in elements.first]
    differences = [(replay - eager,) for eager, replay in pairs]
    key = "".join(
        format_element("i", "", style=f"background:{colour}") + name
        for name, colour in (("eager", grey), ("replay", red))
    )
    label = "First wrong elements, eager next to replay: " + "; ".join(titles)
    picture = (
        format_element("p", f"{key}, up to {_format_highest(pairs)}")
        + _format_bars(pairs, titles, (grey, red), _PICTURE_PX)
        + format_element("p", f"replay − eager, up to {_format_highest(differences)}")
        + _format_bars(differences, titles, (red,), _DIFFERENCES_PX)
    )
    count = format_differing_elements(elements)
    if len(elements.first) < elements.differing_elements:
        count += f"; first {len(elements.first)} shown"
    return format_element(
        "div", picture, "elements", role="img", **{"aria-label": label}
    ) + format_text("p", count, "elements-count")


def _format_bars(
    groups: Sequence[Sequence[float]], titles: Sequence[str], colours: Sequence[str], height: int
) -> str:
    """Format groups of bars from a common zero line on one scale."""
    finite = [value for group in groups for value in group if isfinite(value)]
    low, high = min((*finite, 0.0)), max((*finite, 0.0))
    scale = height / ((high - low) or 1.0)
    spans = [
        format_element(
            "span",
            "".join(
                format_element("i", "", style=_format_bar(value, low, scale, height, colour))
                for value, colour in zip(group, colours, strict=True)
            ),
            title=title,
        )
        for group, title in zip(groups, titles, strict=True)
    ]
    style = f"height:{height}px;--zero:{abs(low) * scale:.1f}px"
    return format_element("div", "".join(spans), "value-bars", style=style)


def _format_bar(value: float, low: float, scale: float, height: int, colour: str) -> str:
    """Position a bar from zero; a value that is no finite number fills the height."""
    if not isfinite(value):
        return f"background:{colour};bottom:0;height:{height}px;opacity:0.35"
    bottom = (min(value, 0.0) - low) * scale
    return f"background:{colour};bottom:{bottom:.1f}px;height:{max(abs(value) * scale, 1):.1f}px"


def _format_highest(groups: Sequence[Sequence[float]]) -> str:
    """Format the largest absolute value, without values that are no finite numbers."""
    finite = [abs(value) for group in groups for value in group if isfinite(value)]
    return f"{max(finite):.3g}" if finite else "no finite value"


def _format_histogram(bins: tuple[int, ...], colour: str) -> str:
    highest = max(bins)
    bars = "".join(f'<i style="height:{count / highest * 100:.1f}%"></i>' for count in bins)
    label = "Distribution of the node's duration over the replays, shortest to longest"
    return format_element(
        "div", bars, "spark", style=f"--bin:{colour}", role="img", **{"aria-label": label}
    )
