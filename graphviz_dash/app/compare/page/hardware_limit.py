"""Show the distance of a run's graph from the hardware limit in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.features.efficiency.analysis.ceilings_choice import choose_ceilings
from graphviz_dash.features.efficiency.narrative import describe_efficiency
from graphviz_dash.features.graph.page.state.efficiency import get_efficiency
from graphviz_dash.model.absence import Missing
from graphviz_dash.ui.page.frame import SelectedExperiment
from graphviz_dash.ui.page.markup import escape_html, format_element

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

_KIND: Final = "muted hardware-limit"
"""CSS classes of the sentence, which has the height of two lines."""
_MAX_NODES: Final = 5_000
"""Number of nodes above which only the Graph page reads the graph."""


def reserve_hardware_limit(run: RunComparison) -> DeltaGenerator:
    """Reserve the place of the sentence, so that the page below does not move when it comes."""
    place = st.empty()
    if _find_only_graph(run) and not isinstance(choose_ceilings(run.run), Missing):
        place.html(format_element("p", "", _KIND))
    return place


def _find_only_graph(run: RunComparison) -> str | None:
    """Return the graph of a run with a single graph that is small enough; None otherwise."""
    graphs = [graph for graph in run.run.graphs if graph.parent is None]
    if len(graphs) != 1 or sum(len(graph.nodes) for graph in run.run.graphs) > _MAX_NODES:
        return None
    return graphs[0].id


def show_hardware_limit(
    experiment: SelectedExperiment, run: RunComparison, place: DeltaGenerator
) -> None:
    """Show the sentence in ``place`` if the run has a single graph with known limits."""
    graph = _find_only_graph(run)
    if graph is None or isinstance(choose_ceilings(run.run), Missing):
        return
    report = get_efficiency(experiment.key, run.name, graph)
    if isinstance(report, Missing) or isinstance(report.choice, Missing) or not report.known_ns:
        return
    place.html(format_element("p", escape_html(describe_efficiency(report)), _KIND))
