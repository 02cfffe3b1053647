"""Show the side panel of a graph: the card of the selected node, or the longest nodes."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from typing import Final

import streamlit as st

from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.charts.palette import CATEGORY_SHADES
from graphviz_dash.charts.shades import Theme, get_colour
from graphviz_dash.features.graph.drawing.node_card import Field, NodeCard
from graphviz_dash.features.graph.drawing.node_note import (
    build_node_lines,
    format_module_tail,
    format_work_name,
)
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.markup import escape_html, format_element, show_markup
from graphviz_dash.ui.page.picked_row import build_selection_callback

_MAX_NODES: Final = 14


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
        format_element("h2", escape_html(card.title)),
    ]
    if card.name != card.title:
        pieces.append(format_element("p", escape_html(card.name), "full", tabindex="0"))
    for title, fields in card.sections:
        pieces.append(format_element("h3", escape_html(title)))
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
            format_element("h2", escape_html(heading))
            + format_element("p", "Select a node for details.", "muted"),
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
    note = format_element("small", escape_html(field.note)) if field.note else ""
    # Break long paths after a folder, not within the line number.
    value = escape_html(field.text).replace("/", "/<wbr>")
    return format_element("span", escape_html(field.label)) + format_element("b", value + note)


def _format_histogram(bins: tuple[int, ...], colour: str) -> str:
    highest = max(bins)
    bars = "".join(f'<i style="height:{count / highest * 100:.1f}%"></i>' for count in bins)
    label = "Distribution of the node's duration over the replays, shortest to longest"
    return format_element(
        "div", bars, "spark", style=f"--bin:{colour}", role="img", **{"aria-label": label}
    )
