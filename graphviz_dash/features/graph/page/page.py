"""Graph: a captured graph as a DAG, the card of the chosen node, and the nodes as a table."""

from __future__ import annotations

import time
from typing import Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from graphviz_dash.features.graph.diff_narrative import why_no_graph
from graphviz_dash.features.graph.folding.fold import FoldBy
from graphviz_dash.features.graph.page.component import dag_view
from graphviz_dash.features.graph.page.component.preparing import (
    LARGE,
    begin,
    is_ready,
    next_view,
    nodes_of,
)
from graphviz_dash.features.graph.page.graph_choice import GraphChoice, asked_node, choose_graph
from graphviz_dash.features.graph.page.graph_comparison import outcome
from graphviz_dash.features.graph.page.graph_details import PANEL_PX, find_in_graph, graph_details
from graphviz_dash.features.graph.page.graph_summary import graph_summary
from graphviz_dash.features.graph.page.graph_tables import FIND
from graphviz_dash.features.graph.page.state.graphs import (
    GraphAddress,
    graph_pair,
    graph_union,
    whole,
)
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import Chosen, chosen_experiment, nothing
from graphviz_dash.ui.page.markup import element, show
from graphviz_dash.ui.state.store import STORE
from graphviz_dash.units import counted

_FOLD: Final = "fold"
_ASKING_S: Final = 0.4
"""How long a new drawing may take to ask for its view before what stands beside it is sent."""
_DRAWING_S: Final = 0.1
"""How long the browser then has to draw it."""


def render() -> None:
    """The page."""
    chosen = chosen_experiment()
    runs = [run for run in chosen.experiment.runs if run.graphs]
    if not runs:
        every = chosen.experiment.runs
        reasons = why_no_graph(every)
        if any(run.manifest.sources for run in every):
            reasons.append(
                "An imported run has its graphs from the trace of their capture, imported together "
                "with one of their replays, or from the driver's debug DOT."
            )
        nothing("graph", every, "This experiment holds no captured graph", *reasons)
        return
    _graph(chosen, choose_graph(chosen, runs))


def _graph(chosen: Chosen, choice: GraphChoice) -> None:
    count = nodes_of(choice.run, choice.address[2])
    # A large graph that nobody has seen yet is prepared by the drawing, which says how far it is.
    fold = _fold()
    ready = count < LARGE or any(is_ready(choice.drawn, choice.against, order) for order in FoldBy)
    if not ready:
        begin(choice.drawn, choice.against, FoldBy(fold))
    with st.container(key="graph-said", gap="small"):
        drawn = _introduction(choice, count, ready=ready)
    left, right = st.columns([0.7, 0.3], gap="small")
    first_view = None if _key(choice) in st.session_state else next_view(choice.drawn)
    with left:
        selected = _drawing(choice, drawn, fold, ready=ready)
    _select(selected)
    if not ready:
        _waiting(right)
        return
    if first_view is not None and first_view.wait(_ASKING_S):
        time.sleep(_DRAWING_S)
    graph_details(chosen, choice, right, selected)


def _introduction(choice: GraphChoice, count: int, *, ready: bool) -> int:
    """What stands above the drawing; returns how many nodes that has, ``count`` those of the graph
    by itself."""
    if not ready:
        show(element("p", f"{counted(count, 'node')}, being prepared", "muted"))
        show(element("p", "Where they come from and what they take is shown in a moment.", "muted"))
        return sum(nodes_of(STORE.run(*each[:2]), each[2]) for each in choice.pair or ()) or count
    if choice.pair is not None:
        earlier, later = choice.pair
        outcome(*_names(earlier, later), graph_pair(later, earlier))
        return len(graph_union(later, earlier).whole.owner)
    graph_summary(choice.address[0], choice.run, whole(*choice.address))
    return count


def _names(earlier: GraphAddress, later: GraphAddress) -> tuple[str, str]:
    """Two graphs as they are told from each other: by their runs too where these differ."""
    return (
        (earlier[2], later[2])
        if earlier[1] == later[1]
        else (f"{earlier[2]} of {earlier[1]}", f"{later[2]} of {later[1]}")
    )


def _drawing(choice: GraphChoice, count: int, fold: str, *, ready: bool) -> int | None:
    """The graph of ``count`` nodes as it is drawn; returns the node that is selected in it."""
    return dag_view(
        *choice.drawn,
        against=choice.against,
        color_by=choice.colour,
        selected=asked_node(count),
        on_select=url_state.while_here(_select),
        find=url_state.value(FIND) or "",
        on_find=url_state.while_here(find_in_graph),
        fold=fold,
        on_fold=url_state.while_here(_refold),
        ready=ready,
        key=_key(choice),
    )


def _key(choice: GraphChoice) -> str:
    """The drawing's; in the session from when it is on the page until it is not."""
    return f"dag-{choice.identity}"


def _waiting(side: DeltaGenerator) -> None:
    with side, st.container(border=True, height=PANEL_PX, key="node-panel"):
        show(element("p", "The longest nodes are listed here in a moment.", "muted"))


def _fold() -> str:
    """What the fold begins with, by the address."""
    asked = url_state.value(_FOLD)
    return asked if asked in list(FoldBy) else FoldBy.ORDER.value


def _refold(fold: str) -> None:
    url_state.change({_FOLD: None if fold == FoldBy.ORDER else fold})


def _select(node: int | None) -> None:
    url_state.change({"node": None if node is None else str(node)})
