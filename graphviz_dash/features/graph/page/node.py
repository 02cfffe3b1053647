"""Show the side panel of a graph: the card of the selected node, or the longest nodes."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from typing import Final

import streamlit as st

from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.charts.palette import CATEGORY
from graphviz_dash.charts.shades import Theme, shade
from graphviz_dash.features.graph.drawing.node_card import Field, NodeCard
from graphviz_dash.features.graph.drawing.node_note import module_tail, node_lines, work_name
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.markup import element, show, text
from graphviz_dash.ui.page.picked_row import picking

_LONGEST: Final = 14


def node_panel(card: NodeCard, theme: Theme) -> str:
    """Format all details of one node."""
    colour = shade(CATEGORY[Category(card.category)], theme)
    pieces = [
        element(
            "span",
            f'<i style="background:{colour}"></i>'
            + text(f"{card.where} · {card.kind} · {card.category}"),
            "kind",
        ),
        element("h2", text(card.title)),
    ]
    if card.name != card.title:
        pieces.append(element("p", text(card.name), "full", tabindex="0"))
    for title, fields in card.sections:
        pieces.append(element("h3", text(title)))
        if title.startswith("Time") and card.bins:
            pieces.append(_spark(card.bins, colour))
        pieces.append(element("div", "".join(_pair(field) for field in fields), "pairs"))
    return element("div", "".join(pieces), "node")


def longest_nodes(nodes: NodeTable, identity: str) -> None:
    """Show the longest nodes for selection; ``identity`` distinguishes graphs."""
    timed = (row for row in nodes.rows if row.times.median_ns is not None)
    rows = nsmallest(_LONGEST, timed, key=lambda row: -(row.times.median_ns or 0.0))
    rows = rows or list(nodes.rows[:_LONGEST])
    heading = "Longest nodes" if nodes.replays else "First nodes"
    show(
        element(
            "div",
            element("h2", text(heading)) + element("p", "Select a node for details.", "muted"),
            "node",
        )
    )
    times = [None if row.times.median_ns is None else row.times.median_ns / 1e3 for row in rows]
    highest = max((time for time in times if time is not None), default=1.0)
    names = [node_lines(row)[0] for row in rows]
    modules = [module_tail(row.origin.module) for row in rows]
    kernels = [work_name(row.node) for row in rows]
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
        on_select=picking(key, lambda row: _select([entry.node.index for entry in rows], row)),
        selection_mode="single-cell",
        placeholder="–",
        alt="The longest nodes of the graph with their median time",
    )


def _select(nodes: Sequence[int], row: int | None) -> None:
    if row is not None and row < len(nodes):
        url_state.change({"node": str(nodes[row])})


def _pair(field: Field) -> str:
    note = element("small", text(field.note)) if field.note else ""
    # Break long paths after a folder, not within the line number.
    value = text(field.text).replace("/", "/<wbr>")
    return element("span", text(field.label)) + element("b", value + note)


def _spark(bins: tuple[int, ...], colour: str) -> str:
    highest = max(bins)
    bars = "".join(f'<i style="height:{count / highest * 100:.1f}%"></i>' for count in bins)
    label = "Distribution of the node's duration over the replays, shortest to longest"
    return element(
        "div", bars, "spark", style=f"--bin:{colour}", role="img", **{"aria-label": label}
    )
