"""Open the traced launches of a graph in Perfetto."""

from __future__ import annotations

from graphviz_dash.errors import InputError
from graphviz_dash.features.graph.page.state.graphs import GraphAddress
from graphviz_dash.features.perfetto.page.component import TracePart, render_perfetto_buttons
from graphviz_dash.ui.page.frame import show_error_panel
from graphviz_dash.ui.state.store import STORE


def show_perfetto_launches(address: GraphAddress) -> None:
    """Show a button for the graph's launches; nothing without a trace of replays."""
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
