"""Show the chart of launch cost over graph size with its pickers."""

from __future__ import annotations

from typing import Any, Final

import streamlit as st

from graphviz_dash.bundle.references import read_published_launch
from graphviz_dash.charts.shades import Theme
from graphviz_dash.features.launch.analysis.launch_costs import LaunchCosts
from graphviz_dash.features.launch.analysis.own_graphs import ProgramGraph
from graphviz_dash.features.launch.charts.launch import draw_launch_costs
from graphviz_dash.features.launch.narrative import (
    MEASURE_MEANINGS,
    MEASURE_TITLES,
)
from graphviz_dash.model.launch import LaunchMeasure
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import draw_figure, flush_to_browser, get_theme, show_empty_state

_LOG, _LINEAR = "logarithmic", "linear"
_OWN, _PUBLISHED = "your graphs", "published"
_MEASURES: Final = {title: measure for measure, title in MEASURE_TITLES.items()}


def show_launch_graph(
    recordings: dict[str, LaunchCosts], graphs: tuple[ProgramGraph, ...], cache_key: tuple[str, ...]
) -> None:
    """Draw the chart of ``recordings`` by name, overlaid with an experiment's graphs.

    ``made_of`` is the cache key of both.
    """
    with st.container(horizontal=True, vertical_alignment="bottom"):
        standard = MEASURE_TITLES[LaunchMeasure.REPEAT_LAUNCH_CPU]
        title = url_state.select_option(
            "measure", "Measure", [*_MEASURES], default=standard, width=260
        )
        scale = url_state.select_option("scale", "Scale", [_LOG, _LINEAR])
        overlays = url_state.select_several("beside", "Overlay", [_OWN, _PUBLISHED], [_OWN])
    measure = _MEASURES[title]
    figure = _build_figure(
        cache_key, measure, get_theme(), scale, tuple(overlays), recordings, graphs
    )
    if figure is None:
        show_empty_state(
            "Not measured", f"No recording has samples of: {MEASURE_MEANINGS[measure]}."
        )
        return
    draw_figure(figure, "launch")
    flush_to_browser()
    st.caption(f"{title}: {MEASURE_MEANINGS[measure]}.")


# Cached because building a Plotly figure costs 30 ms; shared read-only.
@st.cache_resource(max_entries=32, show_spinner=False)
def _build_figure(
    cache_key: tuple[str, ...],
    measure: LaunchMeasure,
    seen: Theme,
    scale: str,
    overlays: tuple[str, ...],
    _recordings: dict[str, LaunchCosts],
    _graphs: tuple[ProgramGraph, ...],
) -> Any:
    return draw_launch_costs(
        _recordings,
        measure,
        seen,
        log=scale == _LOG,
        own=_graphs if _OWN in overlays else (),
        published=read_published_launch() if _PUBLISHED in overlays else None,
    )
