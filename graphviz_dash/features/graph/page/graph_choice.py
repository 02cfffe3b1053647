"""Show the pickers of the Graph page: run, graph, earlier graph and colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st
from msgspec import Struct

from graphviz_dash.analysis.graph.nesting import find_root
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.graph.page.graph_comparison import AGAINST, select_other
from graphviz_dash.features.graph.page.state.graphs import (
    GraphAddress,
    get_fault_states,
    get_graph_titles,
    get_whole_graph,
    sort_by_capture,
)
from graphviz_dash.guidance.remedies import is_attributed
from graphviz_dash.model.run import Run
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import SelectedExperiment, select_run
from graphviz_dash.ui.state.results import get_comparison

_CHANGE: Final = "change"


class GraphChoice(Struct, frozen=True):
    """The selected graph and its presentation."""

    run: Run
    address: GraphAddress
    pair: tuple[GraphAddress, GraphAddress] | None
    """The earlier capture first; None without a comparison."""
    colour: str
    """Meaning of colours: a value of charts.dag.view.ColourBy."""

    @property
    def identity(self) -> str:
        """Key that distinguishes the widgets of this choice."""
        return "-".join((*self.address, *(part for address in self.pair or () for part in address)))

    @property
    def drawn_graph(self) -> GraphAddress:
        """Graph that is drawn: the later of two."""
        return self.pair[1] if self.pair else self.address

    @property
    def earlier_graph(self) -> GraphAddress | None:
        """Earlier graph of two; None without a comparison."""
        return self.pair[0] if self.pair else None


def select_graph(selection: SelectedExperiment, runs: Sequence[Run]) -> GraphChoice:
    """Show the pickers; each of ``runs`` has a graph."""
    runs = list(runs)
    row = st.container(
        horizontal=True, gap="medium", vertical_alignment="bottom", key="graph-choice"
    )
    with row:
        run = select_run(
            runs, default=_find_fastest(selection, runs), clears=("graph", "node", AGAINST)
        )
        _redirect_to_outer_graph(selection, run)
        address = (selection.key, run.name, _select_id(selection.key, run))
        other = select_other(selection.key, runs, address)
        colours = _list_colours(selection, other, address)
        colour = url_state.select_option(
            "colour", "Colour by", list(colours), width=180, format_func=colours.__getitem__
        )
    return GraphChoice(run, address, sort_by_capture(address, other) if other else None, colour)


def _select_id(key: str, run: Run) -> str:
    # Nested graphs are shown in their outer graph.
    labels = get_graph_titles(key, run.name)
    if len(labels) == 1:
        return next(iter(labels))
    return url_state.select_option(
        "graph",
        "Graph",
        list(labels),
        clears=("node",),
        width=url_state.compute_list_width(labels.values()),
        format_func=lambda graph_id: escape_control_characters(labels[graph_id]),
    )


def _find_fastest(selection: SelectedExperiment, runs: Sequence[Run]) -> str | None:
    """Return the fastest run, if it has a graph.

    For recorded programs, prefer a run with source lines.
    """
    best = get_comparison(selection.key).best
    if best is None or best.name not in {run.name for run in runs}:
        return None
    if best.run.recording is None or is_attributed(best.run):
        return best.name
    return next((run.name for run in runs if is_attributed(run)), best.name)


def _list_colours(
    selection: SelectedExperiment, other: GraphAddress | None, address: GraphAddress
) -> dict[str, str]:
    labels = {"category": "kernel category"}
    labels |= {
        name: name for name in ("kind", "op", "module", "phase", "time", "slack", "stream", "limit")
    }
    labels |= {"op": "operator", "stream": "planned stream", "limit": "share of limit"}
    if any(not run.graphs for run in selection.experiment.runs):
        labels["eager"] = "eager vs graph"
    if other is not None:
        return {_CHANGE: "change", **labels}
    has_check = any(run.replay_check is not None for run in selection.experiment.runs)
    if has_check and get_fault_states(*address):
        # First, so that the drawing shows the fault.
        return {"fault": "replay check", **labels}
    return labels


def _redirect_to_outer_graph(selection: SelectedExperiment, run: Run) -> None:
    by_id = {graph.id: graph for graph in run.graphs}
    requested = by_id.get(url_state.get_value("graph") or "")
    if requested is None or requested.parent is None:
        return
    outer = find_root(requested, by_id)
    index = get_requested_node(len(requested.nodes))
    row = get_whole_graph(selection.key, run.name, outer).find_place(requested.id, index or 0)
    node = None if index is None or row is None else str(row)
    url_state.set_parameters({"graph": outer, "node": node})


def get_requested_node(count: int) -> int | None:
    """Return the node in the address, if it is below ``count``."""
    value = url_state.get_value("node") or ""
    return int(value) if value.isdecimal() and len(value) < 10 and int(value) < count else None
