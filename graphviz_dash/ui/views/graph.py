"""Graph: a captured graph as a DAG, the card of the chosen node, and the nodes as a table."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import streamlit as st

from graphviz_dash.analysis.categories import Category
from graphviz_dash.analysis.names import short_name
from graphviz_dash.analysis.nodes import NodeTable
from graphviz_dash.charts.node_card import Field, NodeCard, node_card
from graphviz_dash.charts.palette import CATEGORY
from graphviz_dash.charts.themed import shade
from graphviz_dash.errors import printable
from graphviz_dash.model.graph import KernelParams
from graphviz_dash.ui.components.dag import dag_view
from graphviz_dash.ui.frame import choose_experiment, choose_run, empty, theme
from graphviz_dash.ui.markup import element, show, text
from graphviz_dash.ui.navigation import page
from graphviz_dash.ui.pieces import variables
from graphviz_dash.ui.results import nodes, replays
from graphviz_dash.units import format_count, format_ns, format_percent

_COLOURS: Final = ("category", "kind", "time", "module", "phase")
_HEIGHT: Final = 640


def render() -> None:
    """The page."""
    show(variables(theme()))
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        chosen = choose_experiment()
        runs = [run for run in chosen.experiment.runs if run.graphs]
        if not runs:
            _no_graph(chosen.experiment.runs)
            return
        run = choose_run(runs)
        graphs = [graph.id for graph in run.graphs]
        graph_id = graphs[0]
        if len(graphs) > 1:
            picked = st.selectbox("Graph", graphs, key="graph", bind="query-params", width=180)
            graph_id = picked if picked in graphs else graphs[0]
        colour = st.segmented_control(
            "Colour by",
            _COLOURS,
            default=_COLOURS[0],
            required=True,
            key="colour",
            bind="query-params",
            persist_state="session",
        )
    found = nodes(chosen.key, run.name, graph_id)
    show(element("p", text(_summary(found)), "muted"))
    left, right = st.columns([0.72, 0.28], gap="medium")
    asked = _asked(len(found.rows))
    with left:
        selected = dag_view(
            chosen.key,
            run.name,
            graph_id,
            color_by=colour or _COLOURS[0],
            selected=asked,
            key=f"dag-{chosen.key}-{run.name}-{graph_id}",
            height=_HEIGHT,
        )
    _remember(selected)
    with right, st.container(border=True, height=_HEIGHT):
        if selected is None:
            empty("No node chosen", "Click a node of the graph, or a row of the table below.")
        else:
            matched = replays(chosen.key, run.name)
            durations = matched.samples(graph_id, selected) if matched else np.zeros(0)
            show(_card(node_card(found, selected, np.asarray(durations, dtype=np.int64))))
            st.page_link(
                page("timeline"),
                label="Show in the timeline",
                query_params={
                    "experiment": chosen.entry.name,
                    "select": f"{run.name}/{graph_id}#{selected}",
                },
            )
    _table(found)


def _asked(count: int) -> int | None:
    """The node that the address names, if it is one of the graph's."""
    value = st.query_params.get("node", "")
    return int(value) if value.isdecimal() and len(value) < 10 and int(value) < count else None


def _remember(selected: int | None) -> None:
    if selected is None:
        st.query_params.pop("node", None)
    elif st.query_params.get("node") != str(selected):
        st.query_params["node"] = str(selected)


def _summary(found: NodeTable) -> str:
    rows = found.rows
    total = sum(row.times.median_ns or 0.0 for row in rows)
    parts = [
        f"{format_count(len(rows))} nodes, {format_count(len(found.graph.edges))} edges",
        f"{format_count(found.attributed)} lead to an operator "
        f"({format_percent(found.attributed / len(rows)) if rows else '–'})",
    ]
    if found.replays:
        parts.append(
            f"{format_count(found.matched_kernels)} of {format_count(found.replay_kernels)} GPU "
            f"rows of {format_count(found.replays)} traced replays matched"
        )
        parts.append(f"{format_ns(total)} of GPU work, sum of the nodes' medians")
    return " · ".join(parts)


def _no_graph(runs: Any) -> None:
    reasons = [
        f"{run.name}: {absent.reason}"
        for run in runs
        for absent in run.manifest.absent
        if absent.fact in ("graphs", "capture pass")
    ]
    reasons += [
        f"{run.name} failed in its {failure.during.value} pass"
        + (f" at {failure.location}" if failure.location else "")
        + f": {failure.message.splitlines()[0] if failure.message else failure.error}"
        for run in runs
        for failure in run.manifest.failures
    ]
    empty("This experiment holds no captured graph", *reasons)


def _card(card: NodeCard) -> str:
    colour = shade(CATEGORY[Category(card.category)], theme())
    pieces = [
        element(
            "span",
            f'<i style="background:{colour}"></i>'
            + text(f"node {card.index} · {card.kind} · {card.category}"),
            "kind",
        ),
        element("h3", text(card.title)),
    ]
    if card.name != card.title:
        pieces.append(element("p", text(card.name), "full"))
    for title, fields in card.sections:
        pieces.append(element("h4", text(title)))
        if title.startswith("Time") and card.bins:
            pieces.append(_spark(card.bins, colour))
        pieces.append(element("div", "".join(_pair(field) for field in fields), "pairs"))
    return element("div", "".join(pieces), "node")


def _pair(field: Field) -> str:
    note = element("small", text(field.note)) if field.note else ""
    return element("span", text(field.label)) + element("b", text(field.text) + note)


def _spark(bins: tuple[int, ...], colour: str) -> str:
    highest = max(bins)
    bars = "".join(f'<i style="height:{count / highest * 100:.1f}%"></i>' for count in bins)
    label = "Distribution of the node's duration over the replays, shortest to longest"
    return element(
        "div", bars, "spark", style=f"--bin:{colour}", role="img", **{"aria-label": label}
    )


def _table(found: NodeTable) -> None:
    with st.expander("All nodes as a table", icon=":material/table_rows:"):
        wanted = st.text_input(
            "Search nodes",
            placeholder="name, operator, module or source line",
            key="search",
            bind="query-params",
            width=340,
        ).lower()
        rows = [
            row
            for row in found.rows
            if not wanted
            or any(
                wanted in (part or "").lower()
                for part in (row.node.label, row.origin.op, row.origin.module, row.origin.source)
            )
        ]
        st.dataframe(
            {
                "Node": [row.node.index for row in rows],
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
            key="nodes",
            on_select=_select_row(rows),
            selection_mode="single-row",
        )


def _select_row(rows: list[Any]) -> Any:
    def chosen() -> None:
        state: Any = st.session_state.get("nodes")
        picked = state["selection"]["rows"] if state else []
        if picked:
            st.query_params["node"] = str(rows[picked[0]].node.index)

    return chosen
