"""The timeline component: runs one above the other on one time axis, on a canvas.

The page only names the runs. The component loads views from routes of the same server, so zooming
and panning do not run the script of the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import streamlit as st
from msgspec import Struct

from graphviz_dash.analysis.trace.api_calls import CallClass
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.charts.palette import (
    BASELINE,
    CATEGORY_SHADES,
    GRAPH_LAUNCH,
    RUN,
    SAVED,
    STEP_PART_SHADES,
)
from graphviz_dash.charts.shades import IDLE
from graphviz_dash.errors import InputError
from graphviz_dash.features.timeline.page.component.api import build_routes, load_card
from graphviz_dash.features.timeline.view.run import CALLS, CATEGORIES
from graphviz_dash.features.timeline.view.slice_card import SliceCard
from graphviz_dash.features.torch_compile.timeline_lanes import STEP_PARTS
from graphviz_dash.ui.components.component_data import (
    Palette,
    PaletteEntry,
    TimelineData,
    get_theme_colours,
    to_plain_data,
)
from graphviz_dash.ui.components.creation import create_component
from graphviz_dash.ui.components.selection import resolve_selection
from graphviz_dash.ui.state.store import UnknownKeyError

__all__ = ["Selection", "build_routes", "render_timeline"]

_SCRIPT: Final = Path(__file__).with_name("timeline.js")
_HTML: Final = """
<div class="timeline">
  <div class="bar"><div class="legend"></div>
    <div class="job" role="status" hidden></div>
    <input class="search" type="search" placeholder="Search kernels ( / )"
      aria-label="Search kernels">
    <output class="hits"></output><div class="buttons"></div></div>
  <div class="body">
  <div class="stage">
    <canvas tabindex="0" role="application" aria-label="Timeline, loading"></canvas>
    <p class="wheel" aria-hidden="true" hidden></p>
    <div class="tooltip" role="tooltip" hidden></div>
    <p class="loading" role="status" hidden>Loading slices…</p>
    <p class="problem" role="alert" hidden></p>
    <div class="ruler" role="group" aria-label="Ruler" hidden></div>
  </div>
  <div class="panel" role="region" aria-label="Selected slice"></div>
  </div>
  <div class="live" aria-live="polite"></div>
</div>
"""
_CALL_SHADES: Final = {
    CallClass.GRAPH_LAUNCH: GRAPH_LAUNCH,
    CallClass.COPY: CATEGORY_SHADES[Category.MEMORY],
    CallClass.MEMORY: CATEGORY_SHADES[Category.COMMUNICATION],
}


class Selection(Struct, frozen=True):
    """A selected slice. ``token`` is valid for ``timeline_view(selected=...)`` and in an address.
    ``graph`` and ``node`` are None if the slice is not known to be a graph node."""

    token: str
    run: str
    card: SliceCard

    @property
    def graph(self) -> str | None:
        """Graph that launched the slice."""
        return self.card.graph

    @property
    def node(self) -> int | None:
        """Index of its node in that graph."""
        return self.card.node


def render_timeline(
    experiment_key: str,
    run_names: Sequence[str],
    *,
    step: int | Sequence[int | None] | None = None,
    selected: str | None = None,
    on_select: Callable[[str | None], None] | None = None,
    ruler: str | None = None,
    on_ruler: Callable[[str | None], None] | None = None,
    key: str = "timeline",
    height: int = 620,
) -> Selection | None:
    """Show the timeline of ``run_names``, the first on top, and return the selected slice.

    Args:
        experiment_key: key of the experiment in the store.
        run_names: the others are compared with the first.
        step: number of the aligned step: one for all runs, one per run, or None for the typical
            step (of median length).
        selected: token of a Selection ("run/g12"), a graph node ("run/graph-0#17"), or None. A
            later click overrides it.
        on_select: called with the clicked token, or None, before the script runs again, so that
            ``selected`` can already have it.
        ruler: ruler as "begin,end" in ns since the start of the step, or None.
        on_ruler: called with the ruler when the reader changes it.
        key: key of the widget.
        height: height of the component in pixels.
    """
    names = list(run_names)
    chosen = [step] * len(names) if step is None or isinstance(step, int) else list(step)
    state = create_component(_SCRIPT, _HTML)(
        data=to_plain_data(
            TimelineData(
                experiment=experiment_key,
                runs=names,
                steps=chosen,
                selected=selected,
                ruler=ruler,
                height=height,
                palette=_build_palette(),
            )
        ),
        key=key,
        on_selected_change=lambda: _handle_click(key, on_select),
        on_ruler_change=lambda: _handle_ruler(key, on_ruler),
    )
    token = resolve_selection(f"{key}:selection", state.get("selected"), selected, _read_token)
    return _resolve_selection(experiment_key, dict(zip(names, chosen, strict=True)), token)


def _resolve_selection(
    key: str, steps: dict[str, int | None], token: str | None
) -> Selection | None:
    run, _, slice_token = (token or "").partition("/")
    if not slice_token or run not in steps:
        return None
    try:
        selected_card = load_card(key, run, steps, slice_token)
    except (InputError, UnknownKeyError):
        return None
    return Selection(f"{run}/{selected_card.token}", run, selected_card)


def _handle_click(key: str, on_select: Callable[[str | None], None] | None) -> None:
    """Handle a click. Streamlit keeps the state only if there is a callback."""
    click = st.session_state[key].get("selected")
    if on_select is not None and isinstance(click, dict):
        on_select(_read_token(click))


def _handle_ruler(key: str, on_ruler: Callable[[str | None], None] | None) -> None:
    ruler = st.session_state[key].get("ruler")
    if on_ruler is None or not isinstance(ruler, dict):
        return
    match ruler.get("span"):
        case [int(begin), int(end)]:
            on_ruler(f"{begin},{end}")
        case None:
            on_ruler(None)


def _read_token(click: dict[str, Any]) -> str | None:
    token = click.get("slice")
    return token if isinstance(token, str) else None


@cache
def _build_palette() -> Palette:
    other = get_theme_colours(CATEGORY_SHADES[Category.OTHER])
    gpu = [
        PaletteEntry(category.value, get_theme_colours(CATEGORY_SHADES[category]))
        for category in CATEGORIES
    ]
    calls = [
        PaletteEntry(
            f"CPU: {call.value}",
            get_theme_colours(_CALL_SHADES[call]) if call in _CALL_SHADES else other,
            call.value,
        )
        for call in CALLS
    ]
    ranges = [PaletteEntry(f"CPU: {kind}", other, kind) for kind in ("annotation", "operator")]
    parts = [
        PaletteEntry(f"step: {part.value}", get_theme_colours(STEP_PART_SHADES[part]))
        for part in STEP_PARTS
    ]
    return Palette(
        gpu + calls + ranges + parts,
        get_theme_colours(IDLE),
        run=get_theme_colours(RUN),
        light=get_theme_colours(BASELINE),
        saved=get_theme_colours(SAVED),
    )
