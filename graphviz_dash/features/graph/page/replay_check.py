"""Show the result of a check of replays above the drawing of a graph."""

from __future__ import annotations

from typing import Final

import streamlit as st

from graphviz_dash.analysis.nodes.replay_faults import LocatedFault
from graphviz_dash.features.graph.page.state.graphs import GraphAddress
from graphviz_dash.features.graph.page.state.replay_faults import get_graph_faults
from graphviz_dash.narrative.replay_check import format_fault, format_replay_verdict
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.markup import escape_html, format_element, show_markup

_MAX_FAULTS: Final = 3


def show_replay_check(address: GraphAddress) -> None:
    """Show each fault in the graph with a button that selects its node, or the verdict."""
    faults = get_graph_faults(*address)
    if faults is None:
        return
    if not faults.faults:
        if not faults.diagnosis.fault_count:
            text = f"Replay check: {format_replay_verdict(faults.diagnosis)}"
            show_markup(format_element("p", escape_html(text), "muted"))
        return
    for number, location in enumerate(faults.faults[:_MAX_FAULTS]):
        _show_fault(location, number)


def _show_fault(location: LocatedFault, number: int) -> None:
    node = location.nodes[0]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        text = escape_html(format_fault(location.fault))
        st.html(format_element("div", text, "failed", role="note"))
        st.button(
            f"Show node {node}",
            icon=":material/my_location:",
            key=f"fault-{number}",
            type="tertiary",
            on_click=url_state.only_on_this_page(_select),
            args=(node,),
        )


def _select(node: int) -> None:
    url_state.set_parameters({"node": str(node)})
