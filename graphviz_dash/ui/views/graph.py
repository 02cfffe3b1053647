"""Graph: a captured graph as a DAG, the card of the chosen node, and the nodes as a table."""

from __future__ import annotations

from typing import Final

import numpy as np
import streamlit as st

from graphviz_dash.analysis.names import short_name
from graphviz_dash.analysis.whole import WholeGraph
from graphviz_dash.charts.node_card import node_card
from graphviz_dash.errors import printable
from graphviz_dash.model.graph import KernelParams
from graphviz_dash.model.run import Run
from graphviz_dash.ui import address
from graphviz_dash.ui.components.dag import dag_view
from graphviz_dash.ui.frame import Chosen, choose_run, chosen_experiment, empty, theme, why_no_graph
from graphviz_dash.ui.markup import element, show, text
from graphviz_dash.ui.navigation import link
from graphviz_dash.ui.node_panel import longest_nodes, node_panel, selecting
from graphviz_dash.ui.results import comparison, node_replays, nodes, whole
from graphviz_dash.units import format_count, format_ns, format_percent

_COLOURS: Final = ("category", "kind", "time", "module", "phase")
_HEIGHT: Final = 640


def render() -> None:
    """The page."""
    chosen = chosen_experiment()
    runs = [run for run in chosen.experiment.runs if run.graphs]
    if not runs:
        empty("This experiment holds no captured graph", *why_no_graph(chosen.experiment.runs))
        return
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        run = choose_run(runs, default=_usual(chosen, runs), clears=("graph", "node"))
        _lead_to_whole(chosen, run)
        # What lies in another graph is shown there.
        graphs = [graph.id for graph in run.graphs if graph.parent is None]
        graph_id = graphs[0]
        if len(graphs) > 1:
            graph_id = address.choose("graph", "Graph", graphs, clears=("node",), width=160)
        colour = address.choose("colour", "Colour by", _COLOURS)
    found = whole(chosen.key, run.name, graph_id)
    show(element("p", text(_summary(found)), "muted"))
    left, right = st.columns([0.7, 0.3], gap="small")
    with left:
        selected = dag_view(
            chosen.key,
            run.name,
            graph_id,
            color_by=colour,
            selected=_asked(len(found.owner)),
            on_select=_select,
            key=f"dag-{chosen.key}-{run.name}-{graph_id}",
            height=_HEIGHT,
        )
    _select(selected)
    with right, st.container(border=True, height=_HEIGHT, key="node-panel"):
        if selected is None:
            longest_nodes(found.table, f"{chosen.key}-{run.name}-{graph_id}")
        else:
            owner, index = found.owner[selected]
            matched = node_replays(chosen.key, run.name)
            durations = matched.samples(owner, index) if matched else np.zeros(0)
            table = nodes(chosen.key, run.name, owner)
            card = node_card(table, index, np.asarray(durations, dtype=np.int64))
            show(node_panel(card, theme()))
            query = {"select": f"{run.name}/{owner}#{index}"}
            link("timeline", "Show in the timeline", {"experiment": chosen.entry.name} | query)
    _table(found, f"{chosen.key}-{run.name}-{graph_id}")


def _lead_to_whole(chosen: Chosen, run: Run) -> None:
    """An address that names a graph inside another leads to the node's place in the whole."""
    by_id = {graph.id: graph for graph in run.graphs}
    named = by_id.get(address.value("graph") or "")
    if named is None or named.parent is None:
        return
    root = named
    while root.parent is not None:
        root = by_id[root.parent[0]]
    index = _asked(len(named.nodes))
    place = whole(chosen.key, run.name, root.id).place(named.id, index or 0)
    node = None if index is None or place is None else str(place)
    address.change({"graph": root.id, "node": node})


def _usual(chosen: Chosen, runs: list[Run]) -> str | None:
    """The fastest run, if it has a graph."""
    best = comparison(chosen.key).best
    return best.name if best and best.name in {run.name for run in runs} else None


def _select(node: int | None) -> None:
    address.change({"node": None if node is None else str(node)})


def _asked(count: int) -> int | None:
    """The node that the address names, if it is one of the graph's."""
    value = address.value("node") or ""
    return int(value) if value.isdecimal() and len(value) < 10 and int(value) < count else None


def _summary(whole: WholeGraph) -> str:
    found = whole.table
    rows = found.rows
    inside = len(rows) - len(whole.top)
    parts = [
        f"{format_count(len(rows))} nodes"
        + (f" ({format_count(inside)} of them inside others)" if inside else "")
        + f", {format_count(len(found.graph.edges))} edges",
        f"{format_count(found.attributed)} lead to an operator "
        f"({format_percent(found.attributed / len(rows)) if rows else '–'})",
    ]
    if found.replays:
        parts.append(
            f"{format_count(found.matched_kernels)} of {format_count(found.replay_kernels)} GPU "
            f"rows of {format_count(found.replays)} replays of the {found.timed_in} matched"
        )
        parts.append(f"{format_ns(whole.work_ns)} of GPU work, sum of the nodes' medians")
    return " · ".join(parts)


def _name(found: WholeGraph, place: int) -> str:
    """A node's index, with its graph where that lies inside the one shown."""
    graph, index = found.owner[place]
    return str(index) if place < len(found.top) else f"{index} of {graph}"


def _table(found: WholeGraph, identity: str) -> None:
    with st.expander("All nodes as a table", icon=":material/table_rows:"):
        wanted = address.search(
            "search", "Search nodes", "Search by name, operator, module or source line"
        )
        rows = [
            row
            for row in found.table.rows
            if not wanted
            or any(
                wanted in (part or "").lower()
                for part in (row.node.label, row.origin.op, row.origin.module, row.origin.source)
            )
        ]
        st.dataframe(
            {
                "Node": [
                    _name(found, row.node.index) if found.bodies else row.node.index for row in rows
                ],
                "Kind": [row.node.kind.value for row in rows],
                "Name": [
                    short_name(printable(row.node.label))
                    if isinstance(row.node.params, KernelParams)
                    else row.node.label
                    for row in rows
                ],
                "Median, us": [
                    None if row.times.median_ns is None else row.times.median_ns / 1e3
                    for row in rows
                ],
                "Operator": [printable(row.origin.op or "") for row in rows],
                "Module": [printable(row.origin.module or "") for row in rows],
                "Source": [printable(row.origin.source or "") for row in rows],
                "Phase": [row.origin.phase for row in rows],
                "Stream": [row.times.stream for row in rows],
                "Confidence": [row.times.confidence for row in rows],
            },
            column_config={
                "Median, us": st.column_config.NumberColumn(format="%.2f"),
                "Confidence": st.column_config.NumberColumn(format="percent"),
                "Name": st.column_config.TextColumn(width="medium"),
            },
            hide_index=True,
            height=420,
            key=f"nodes-{identity}-{wanted}",
            on_select=selecting(f"nodes-{identity}-{wanted}", [row.node.index for row in rows]),
            selection_mode="single-cell",
            placeholder="–",
        )
