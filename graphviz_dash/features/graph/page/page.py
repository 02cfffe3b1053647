"""Graph: a captured graph as a DAG, the card of the selected node, and the nodes as a table."""

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
"""Seconds that a new drawing may need to request its view before the other panels are sent."""
_DRAWING_S: Final = 0.1
"""Seconds that the browser then has to draw it."""


def render() -> None:
    """Render the page."""
    chosen = chosen_experiment()
    runs = [run for run in chosen.experiment.runs if run.graphs]
    if not runs:
        all_runs = chosen.experiment.runs
        reasons = why_no_graph(all_runs)
        if any(run.manifest.sources for run in all_runs):
            reasons.append(
                "For imported runs, graphs come from a trace of their capture, imported "
                "together with a trace of their replays, or from the driver's debug DOT."
            )
        nothing("graph", all_runs, "No captured graph in this experiment", *reasons)
        return
    _graph(chosen, choose_graph(chosen, runs))


def _graph(chosen: Chosen, choice: GraphChoice) -> None:
    count = nodes_of(choice.run, choice.address[2])
    # The drawing prepares a large graph on first use and shows the progress.
    fold = _fold()
    ready = count < LARGE or any(is_ready(choice.drawn, choice.against, order) for order in FoldBy)
    if not ready:
        begin(choice.drawn, choice.against, FoldBy(fold))
    with st.container(key="graph-said", gap="small"):
        drawn_count = _introduction(choice, count, ready=ready)
    left, right = st.columns([0.7, 0.3], gap="small")
    first_view = None if _key(choice) in st.session_state else next_view(choice.drawn)
    with left:
        selected = _drawing(choice, drawn_count, fold, ready=ready)
    _select(selected)
    if not ready:
        _waiting(right)
        return
    if first_view is not None and first_view.wait(_ASKING_S):
        time.sleep(_DRAWING_S)
    graph_details(chosen, choice, right, selected)


def _introduction(choice: GraphChoice, count: int, *, ready: bool) -> int:
    """Show the summary above the drawing and return the number of drawn nodes.

    ``count`` is the number of nodes of the graph alone.
    """
    if not ready:
        show(element("p", f"{counted(count, 'node')}, preparing…", "muted"))
        show(element("p", "Origins and times will appear shortly.", "muted"))
        return (
            sum(nodes_of(STORE.run(*address[:2]), address[2]) for address in choice.pair or ())
            or count
        )
    if choice.pair is not None:
        earlier, later = choice.pair
        outcome(*_names(earlier, later), graph_pair(later, earlier))
        return len(graph_union(later, earlier).whole.owner)
    graph_summary(choice.address[0], choice.run, whole(*choice.address))
    return count


def _names(earlier: GraphAddress, later: GraphAddress) -> tuple[str, str]:
    return (
        (earlier[2], later[2])
        if earlier[1] == later[1]
        else (f"{earlier[2]} of {earlier[1]}", f"{later[2]} of {later[1]}")
    )


def _drawing(choice: GraphChoice, count: int, fold: str, *, ready: bool) -> int | None:
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
    """Return the key of the drawing, in the session while it is on the page."""
    return f"dag-{choice.identity}"


def _waiting(side: DeltaGenerator) -> None:
    with side, st.container(border=True, height=PANEL_PX, key="node-panel"):
        show(element("p", "The longest nodes will appear shortly.", "muted"))


def _fold() -> str:
    requested = url_state.value(_FOLD)
    return requested if requested in list(FoldBy) else FoldBy.ORDER.value


def _refold(fold: str) -> None:
    url_state.change({_FOLD: None if fold == FoldBy.ORDER else fold})


def _select(node: int | None) -> None:
    url_state.change({"node": None if node is None else str(node)})
