"""The choices at the top of the Graph page: run, graph, an earlier graph, and what colours say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st
from msgspec import Struct

from graphviz_dash.errors import printable
from graphviz_dash.features.graph.page.graph_comparison import AGAINST, choose_other
from graphviz_dash.features.graph.page.state.graphs import (
    GraphAddress,
    graph_titles,
    in_order,
    whole,
)
from graphviz_dash.guidance.remedies import is_attributed
from graphviz_dash.model.run import Run
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import Chosen, choose_run
from graphviz_dash.ui.state.results import comparison

_CHANGE: Final = "change"


class GraphChoice(Struct, frozen=True):
    """The graph that the page shows, and how."""

    run: Run
    """The run that captured it."""
    address: GraphAddress
    """Where the graph is."""
    pair: tuple[GraphAddress, GraphAddress] | None
    """It and the graph that it is compared with, the one captured earlier first; None where there
    is no comparison."""
    colour: str
    """What colours say: a value of charts.dag.view.ColourBy."""

    @property
    def identity(self) -> str:
        """A key that tells widgets of this choice from those of others."""
        return "-".join((*self.address, *(part for each in self.pair or () for part in each)))

    @property
    def drawn(self) -> GraphAddress:
        """The graph that is drawn: of two the later one, with what became of the other in it."""
        return self.pair[1] if self.pair else self.address

    @property
    def against(self) -> GraphAddress | None:
        """The earlier graph of two; None where there is no comparison."""
        return self.pair[0] if self.pair else None


def choose_graph(chosen: Chosen, runs: Sequence[Run]) -> GraphChoice:
    """The pickers, in one row, of a graph of one of ``runs``, which hold one each at least."""
    runs = list(runs)
    row = st.container(
        horizontal=True, gap="medium", vertical_alignment="bottom", key="graph-choice"
    )
    with row:
        run = choose_run(runs, default=_fastest(chosen, runs), clears=("graph", "node", AGAINST))
        _redirect_to_outer_graph(chosen, run)
        address = (chosen.key, run.name, _choose_id(chosen.key, run))
        other = choose_other(chosen.key, runs, address)
        colours = _colours(chosen, other)
        colour = url_state.choose(
            "colour", "Colour by", list(colours), width=180, format_func=colours.__getitem__
        )
    return GraphChoice(run, address, in_order(address, other) if other else None, colour)


def _choose_id(key: str, run: Run) -> str:
    # What lies in another graph is shown there.
    labels = graph_titles(key, run.name)
    if len(labels) == 1:
        return next(iter(labels))
    return url_state.choose(
        "graph",
        "Graph",
        list(labels),
        clears=("node",),
        width=250,
        format_func=lambda graph_id: printable(labels[graph_id]),
    )


def _fastest(chosen: Chosen, runs: Sequence[Run]) -> str | None:
    """The fastest run, if it has a graph; of recorded programs rather one whose captures lead to
    lines."""
    best = comparison(chosen.key).best
    if best is None or best.name not in {run.name for run in runs}:
        return None
    if best.run.recording is None or is_attributed(best.run):
        return best.name
    return next((run.name for run in runs if is_attributed(run)), best.name)


def _colours(chosen: Chosen, other: GraphAddress | None) -> dict[str, str]:
    """What colours can say, with its label."""
    labels = {"category": "kernel category"}
    labels |= {name: name for name in ("kind", "op", "module", "phase", "time", "slack", "stream")}
    labels |= {"op": "operator", "stream": "planned stream"}
    if any(not run.graphs for run in chosen.experiment.runs):
        labels["eager"] = "eager vs graph"
    return labels if other is None else {_CHANGE: "change", **labels}


def _redirect_to_outer_graph(chosen: Chosen, run: Run) -> None:
    """An address that names a graph inside another leads to the node's row in the outer one."""
    by_id = {graph.id: graph for graph in run.graphs}
    named = by_id.get(url_state.value("graph") or "")
    if named is None or named.parent is None:
        return
    outer = named
    while outer.parent is not None:
        outer = by_id[outer.parent[0]]
    index = asked_node(len(named.nodes))
    row = whole(chosen.key, run.name, outer.id).place(named.id, index or 0)
    node = None if index is None or row is None else str(row)
    url_state.change({"graph": outer.id, "node": node})


def asked_node(count: int) -> int | None:
    """The node that the address names, if it is one of ``count``."""
    value = url_state.value("node") or ""
    return int(value) if value.isdecimal() and len(value) < 10 and int(value) < count else None
