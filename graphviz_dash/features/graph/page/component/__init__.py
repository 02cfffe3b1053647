"""The DAG component: a folded captured graph on a canvas.

The page only names the graph. The component loads views from routes of the same server, so
unfolding, zooming and panning do not run the script of the page.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import streamlit as st

from graphviz_dash.charts.palette import CRITICAL
from graphviz_dash.charts.shades import IDLE
from graphviz_dash.features.graph.folding.fold import FoldCriterion
from graphviz_dash.features.graph.page.component.api import build_routes
from graphviz_dash.ui.components.component_data import (
    DagData,
    Palette,
    get_theme_colours,
    to_plain_data,
)
from graphviz_dash.ui.components.creation import create_component, ignore_change
from graphviz_dash.ui.components.selection import resolve_selection

__all__ = ["build_routes", "render_dag"]

_SCRIPT: Final = Path(__file__).with_name("dag.js")
_AGAINST_PARAMETERS: Final = ("against", "against_run", "against_graph")

_MAX_SEARCH_LENGTH: Final = 200

_HTML: Final = """
<div class="dag">
  <div class="bar">
    <div class="legend"></div>
    <div class="buttons">
      <input class="search" type="search" aria-label="Search nodes" autocomplete="off"
        placeholder="Search nodes  ( / )">
      <span class="hits" aria-live="polite"></span>
    </div>
  </div>
  <div class="stage">
    <canvas tabindex="0" role="application" aria-label="Graph, loading"></canvas>
    <p class="wheel" aria-hidden="true" hidden></p>
    <div class="tooltip" role="tooltip" hidden></div>
    <p class="problem" role="alert" hidden></p>
    <div class="waiting" role="status" hidden></div>
    <div class="edges" role="dialog" aria-label="Edges" hidden></div>
  </div>
  <div class="foot">
    <p class="state"></p>
    <div class="repeat" role="group" aria-label="Blocks of a repeat" hidden></div>
  </div>
  <div class="live" aria-live="polite"></div>
</div>
"""


def render_dag(
    experiment_key: str,
    run_name: str,
    graph_id: str,
    *,
    other_graph: tuple[str, str, str] | None = None,
    color_by: str = "category",
    selected: int | None = None,
    on_select: Callable[[int | None], None] | None = None,
    find: str = "",
    on_find: Callable[[str], None] | None = None,
    fold: str = "order",
    on_fold: Callable[[str], None] | None = None,
    ready: bool = True,
    key: str = "dag",
) -> int | None:
    """Show a captured graph and return the index of the selected node.

    Args:
        experiment_key: key of the experiment in the store.
        graph_id: id of a graph of the run.
        other_graph: key, run and id of an earlier graph to draw together with this one, or None.
        color_by: a value of ColourBy.
        selected: node to unfold and show, or None. A later click overrides it.
        on_select: called with the clicked node, or None, before the script runs again, so that
            ``selected`` can already have it.
        find: search text. A later search of the reader overrides it.
        on_find: called with a new search text.
        fold: a value of FoldCriterion. A later choice overrides it.
        on_fold: called with a new choice.
        ready: whether the graph is prepared. If not, the component prepares it, shows the progress,
            and runs the script again.
        key: key of the widget.
    """
    state = create_component(_SCRIPT, _HTML)(
        data=to_plain_data(
            DagData(
                experiment=experiment_key,
                run=run_name,
                graph=graph_id,
                against=dict(zip(_AGAINST_PARAMETERS, other_graph or (), strict=False)),
                colour=color_by,
                selected=selected,
                find=find,
                fold=fold,
                ready=ready,
                palette=Palette([], get_theme_colours(IDLE), critical=get_theme_colours(CRITICAL)),
            )
        ),
        key=key,
        on_selected_change=lambda: _handle_click(key, on_select),
        on_found_change=lambda: _handle_search(key, on_find),
        on_fold_change=lambda: _handle_fold(key, on_fold),
        on_loaded_change=ignore_change,
    )
    return resolve_selection(f"{key}:selection", state.get("selected"), selected, _read_node)


def _handle_click(key: str, on_select: Callable[[int | None], None] | None) -> None:
    """Handle a click. Streamlit keeps the state only if there is a callback."""
    click = st.session_state[key].get("selected")
    if on_select is not None and isinstance(click, dict):
        on_select(_read_node(click))


def _handle_search(key: str, on_find: Callable[[str], None] | None) -> None:
    text = st.session_state[key].get("found")
    if on_find is not None and isinstance(text, str):
        on_find(text[:_MAX_SEARCH_LENGTH])


def _handle_fold(key: str, on_fold: Callable[[str], None] | None) -> None:
    by = st.session_state[key].get("fold")
    if on_fold is not None and by in list(FoldCriterion):
        on_fold(by)


def _read_node(click: dict[str, Any]) -> int | None:
    node = click.get("node")
    return node if isinstance(node, int) else None
