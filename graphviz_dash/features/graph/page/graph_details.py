"""Show the panels next to and below the drawing of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import streamlit as st
from msgspec.structs import replace

from graphviz_dash.analysis.graph.nesting import find_root
from graphviz_dash.errors import InputError
from graphviz_dash.features.efficiency.narrative import format_term, format_work
from graphviz_dash.features.efficiency.page.panel import show_efficiency_panel
from graphviz_dash.features.graph.drawing.node_card import Field, build_node_card
from graphviz_dash.features.graph.page.concurrency import show_concurrency_panel, show_streams_panel
from graphviz_dash.features.graph.page.graph_choice import GraphChoice
from graphviz_dash.features.graph.page.graph_comparison import show_change_list, show_differences
from graphviz_dash.features.graph.page.graph_summary import show_graph_properties
from graphviz_dash.features.graph.page.graph_tables import (
    FIND,
    show_node_table,
)
from graphviz_dash.features.graph.page.node import format_node_panel, show_longest_nodes
from graphviz_dash.features.graph.page.state.efficiency import get_efficiency
from graphviz_dash.features.graph.page.state.graphs import (
    GraphAddress,
    find_row_owner,
    get_concurrency,
    get_eager_nodes,
    get_graph_faults,
    get_graph_pair,
    get_measured_graph,
    get_nodes,
    get_whole_graph,
)
from graphviz_dash.features.graph.page.state.streams import get_node_needs
from graphviz_dash.features.perfetto.page.component import TracePart, render_perfetto_buttons
from graphviz_dash.model.absence import Missing
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import SelectedExperiment, get_theme, show_error_panel
from graphviz_dash.ui.page.markup import show_markup
from graphviz_dash.ui.page.navigation import carry_parameters, show_link
from graphviz_dash.ui.state.results import get_node_replays
from graphviz_dash.ui.state.store import STORE
from graphviz_dash.units import format_ns, format_percent

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

    from graphviz_dash.analysis.nodes.concurrency import Concurrency
    from graphviz_dash.analysis.nodes.conditional_runs import ConditionalRuns
    from graphviz_dash.analysis.nodes.node_table import NodeTable
    from graphviz_dash.features.graph.diff.graph_pair import GraphPair


PANEL_PX: Final = 640
"""Height of the side panel until style.css stretches both to the window height."""


def show_graph_details(
    selection: SelectedExperiment, choice: GraphChoice, side: DeltaGenerator, selected: int | None
) -> None:
    """Show the selected node in ``side``, and tables below the drawing."""
    nodes = get_whole_graph(*choice.address)
    comparison = None if choice.pair is None else _load_comparison(*choice.pair)
    with side, st.container(border=True, height=PANEL_PX, key="node-panel"):
        if selected is None and comparison is not None:
            show_change_list(*comparison, choice.identity)
            if comparison[0].diff.is_same:
                show_longest_nodes(nodes.table, choice.identity)
        elif selected is None:
            show_longest_nodes(nodes.table, choice.identity)
        else:
            _show_node(selection, find_row_owner(choice.address, choice.pair, selected))
    if comparison is not None:
        show_differences(*comparison, choice.identity)
    show_perfetto_launches(choice.address)
    if choice.pair is None:
        show_graph_properties(choice.address[0], choice.run, nodes)
    show_concurrency_panel(get_concurrency(*choice.address), nodes, get_theme())
    show_streams_panel(choice.address, nodes, get_theme())
    show_efficiency_panel(
        choice.identity,
        lambda: get_efficiency(*choice.address),
        find_in_graph,
        get_theme(),
        STORE.get_run(*choice.address[:2]),
    )
    row = selected if choice.pair is None else None
    show_node_table(nodes, choice.identity, row)


def _load_comparison(
    first: GraphAddress, second: GraphAddress
) -> tuple[GraphPair, NodeTable, NodeTable]:
    """Return the difference of two graphs, the earlier one first, and their nodes."""
    return get_graph_pair(second, first), get_nodes(*first), get_nodes(*second)


def find_in_graph(search_text: str) -> None:
    """Search the drawing, through the address."""
    url_state.set_parameters({FIND: search_text or None})


def _list_limit_fields(key: str, run: str, graph: str, place: int) -> tuple[Field, ...]:
    """List the limit of a node's operator call; empty if unknown."""
    report = get_efficiency(key, run, graph)
    limit = None if isinstance(report, Missing) else report.places.get(place)
    if limit is None or limit.limit_ns is None or limit.unit.work is None:
        return ()
    kernels = len(limit.unit.items)
    shared = f"{kernels} kernels of one call" if kernels > 1 else ""
    return (
        Field("Share of limit", format_percent(limit.share), shared),
        Field("Limit", format_ns(limit.limit_ns), format_term(limit)),
        Field("Work", format_work(limit.unit.work)),
    )


def _show_node(selection: SelectedExperiment, owner: tuple[str, str, int]) -> None:
    run, graph, index = owner
    matched = get_node_replays(selection.key, run)
    durations = matched.get_samples(graph, index) if matched else np.zeros(0)
    by_id = {other.id: other for other in STORE.get_run(selection.key, run).graphs}
    outer = find_root(by_id[graph], by_id)
    times = get_measured_graph(selection.key, run, outer)
    table = get_nodes(selection.key, run, graph)
    row = get_whole_graph(selection.key, run, outer).find_place(graph, index) or 0
    card = build_node_card(
        table,
        index,
        np.asarray(durations, dtype=np.int64),
        None if isinstance(times, Missing) else times,
        get_eager_nodes(selection.key, run, outer).get(row),
        get_node_needs(selection.key, run, outer, (graph, index)),
        get_graph_faults(selection.key, run, outer),
        row,
        _find_runs(get_concurrency(selection.key, run, outer), graph, index),
    )
    limit_fields = _list_limit_fields(selection.key, run, outer, row)
    if limit_fields:
        # Next to the origin, whose shapes give the work.
        sections = (*card.sections[:1], ("Hardware limit", limit_fields), *card.sections[1:])
        card = replace(card, sections=sections)
    show_markup(format_node_panel(card, get_theme()))
    query = {"select": f"{run}/{graph}#{index}"}
    # Navigation to the timeline also shows this slice.
    carry_parameters("timeline", query)
    show_link("timeline", "Show in the timeline", {"experiment": selection.entry.name} | query)
    source = table.rows[index].origin.source
    if source is not None:
        st.button(
            "Find all nodes of this source line",
            icon=":material/code:",
            key="same-line",
            type="tertiary",
            on_click=url_state.only_on_this_page(find_in_graph),
            args=(source,),
            help="Highlights the nodes launched by the same line.",
        )


def _find_runs(
    concurrency: Concurrency | Missing, graph: str, index: int
) -> ConditionalRuns | None:
    """Return the runs of a conditional node, or None for another node."""
    if isinstance(concurrency, Missing):
        return None
    return next(
        (runs for runs in concurrency.conditionals if (runs.graph, runs.node) == (graph, index)),
        None,
    )


def show_perfetto_launches(address: GraphAddress) -> None:
    """Show a button for the launches; nothing without a trace of replays."""
    key, run_name, graph_id = address
    if STORE.get_run(key, run_name).replay_trace is None:
        return
    try:
        render_perfetto_buttons(
            key,
            TracePart(((run_name, None),), graph_id),
            label="Open launches in Perfetto",
            small=True,
            key=f"perfetto-{'-'.join(address)}",
        )
    except InputError as error:
        show_error_panel("Perfetto cannot be opened", str(error))
