"""Show the chart of launch cost over graph size with its pickers."""

from __future__ import annotations

from typing import Any, Final

import streamlit as st

from graphviz_dash.bundle.references import published_launch
from graphviz_dash.charts.shades import Theme
from graphviz_dash.features.launch.analysis.launch_costs import LaunchCosts
from graphviz_dash.features.launch.analysis.own_graphs import OwnGraph
from graphviz_dash.features.launch.charts.launch import launch_chart
from graphviz_dash.features.launch.narrative import (
    MEASURE_MEANINGS,
    MEASURE_TITLES,
)
from graphviz_dash.model.launch import LaunchMeasure
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import draw, empty, let_draw, theme

_LOG, _LINEAR = "logarithmic", "linear"
_OWN, _PUBLISHED = "your graphs", "published"
_MEASURES: Final = {title: measure for measure, title in MEASURE_TITLES.items()}


def launch_graph(
    recordings: dict[str, LaunchCosts], own: tuple[OwnGraph, ...], made_of: tuple[str, ...]
) -> None:
    """Draw the chart of ``recordings`` by name, overlaid with an experiment's graphs.

    ``made_of`` is the cache key of both.
    """
    with st.container(horizontal=True, vertical_alignment="bottom"):
        standard = MEASURE_TITLES[LaunchMeasure.REPEAT_LAUNCH_CPU]
        title = url_state.choose("measure", "Measure", [*_MEASURES], default=standard, width=260)
        scale = url_state.choose("scale", "Scale", [_LOG, _LINEAR])
        overlays = url_state.choose_several("beside", "Overlay", [_OWN, _PUBLISHED], [_OWN])
    measure = _MEASURES[title]
    figure = _figure(made_of, measure, theme(), scale, tuple(overlays), recordings, own)
    if figure is None:
        empty("Not measured", f"No recording has samples of: {MEASURE_MEANINGS[measure]}.")
        return
    draw(figure, "launch")
    let_draw()
    st.caption(f"{title}: {MEASURE_MEANINGS[measure]}.")


# Cached because building a Plotly figure costs 30 ms; shared read-only.
@st.cache_resource(max_entries=32, show_spinner=False)
def _figure(
    made_of: tuple[str, ...],
    measure: LaunchMeasure,
    seen: Theme,
    scale: str,
    beside: tuple[str, ...],
    _recordings: dict[str, LaunchCosts],
    _own: tuple[OwnGraph, ...],
) -> Any:
    return launch_chart(
        _recordings,
        measure,
        seen,
        log=scale == _LOG,
        own=_own if _OWN in beside else (),
        published=published_launch() if _PUBLISHED in beside else None,
    )
