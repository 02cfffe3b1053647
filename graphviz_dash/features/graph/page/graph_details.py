"""Show the panels next to and below the drawing of a graph."""

from __future__ import annotations

from typing import Final

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from graphviz_dash.features.graph.drawing.node_card import node_card
from graphviz_dash.features.graph.page.concurrency import concurrency_panel, streams_panel
from graphviz_dash.features.graph.page.graph_choice import GraphChoice
from graphviz_dash.features.graph.page.graph_comparison import differences
from graphviz_dash.features.graph.page.graph_tables import FIND, line_table, node_table
from graphviz_dash.features.graph.page.node import longest_nodes, node_panel
from graphviz_dash.features.graph.page.perfetto_launches import perfetto_launches
from graphviz_dash.features.graph.page.state.graphs import (
    concurrency,
    eager_nodes,
    graph_pair,
    measured,
    nodes,
    row_owner,
    whole,
)
from graphviz_dash.features.graph.page.state.streams import needs_of_node
from graphviz_dash.model.absence import Missing
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import Chosen, theme
from graphviz_dash.ui.page.markup import show
from graphviz_dash.ui.page.navigation import carry, link
from graphviz_dash.ui.state.results import node_replays

PANEL_PX: Final = 640
"""Height of the side panel until style.css stretches both to the window height."""


def graph_details(
    chosen: Chosen, choice: GraphChoice, side: DeltaGenerator, selected: int | None
) -> None:
    """Show the node ``selected`` in ``side``, and the tables below the drawing."""
    shown = whole(*choice.address)
    with side, st.container(border=True, height=PANEL_PX, key="node-panel"):
        if selected is None:
            longest_nodes(shown.table, choice.identity)
        else:
            _node(chosen, row_owner(choice.address, choice.pair, selected))
    if choice.pair is not None:
        earlier, later = choice.pair
        differences(graph_pair(later, earlier), nodes(*earlier), nodes(*later), choice.identity)
    perfetto_launches(choice.address)
    concurrency_panel(concurrency(*choice.address), shown, theme())
    streams_panel(choice.address, shown, theme())
    row = selected if choice.pair is None else None
    line_table(shown, choice.identity, row)
    node_table(shown, choice.identity, row)


def find_in_graph(wanted: str) -> None:
    """Search the drawing, through the address."""
    url_state.change({FIND: wanted or None})


def _node(chosen: Chosen, owner: tuple[str, str, int]) -> None:
    run, graph, index = owner
    matched = node_replays(chosen.key, run)
    durations = matched.samples(graph, index) if matched else np.zeros(0)
    outer = _outer_graph(chosen, run, graph)
    times = measured(chosen.key, run, outer)
    table = nodes(chosen.key, run, graph)
    row = whole(chosen.key, run, outer).place(graph, index) or 0
    card = node_card(
        table,
        index,
        np.asarray(durations, dtype=np.int64),
        None if isinstance(times, Missing) else times,
        eager_nodes(chosen.key, run, outer).get(row),
        needs_of_node(chosen.key, run, outer, (graph, index)),
    )
    show(node_panel(card, theme()))
    query = {"select": f"{run}/{graph}#{index}"}
    # Navigation to the timeline also shows this slice.
    carry("timeline", query)
    link("timeline", "Show in the timeline", {"experiment": chosen.entry.name} | query)
    source = table.rows[index].origin.source
    if source is not None:
        st.button(
            "Find all nodes of this source line",
            icon=":material/code:",
            key="same-line",
            type="tertiary",
            on_click=url_state.while_here(find_in_graph),
            args=(source,),
            help="Highlights the nodes launched by the same line.",
        )


def _outer_graph(chosen: Chosen, run_name: str, graph_id: str) -> str:
    """Return the graph launched when this one runs: itself, or the one that contains it."""
    parents = {
        graph.id: graph.parent
        for run in chosen.experiment.runs
        if run.name == run_name
        for graph in run.graphs
    }
    while (parent := parents.get(graph_id)) is not None:
        graph_id = parent[0]
    return graph_id
