"""The timeline component: runs one above the other on one axis, drawn on a canvas.

The script of a page only says which runs; what is seen is fetched from the routes of the same
server, so that zooming and panning run no script.
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
from graphviz_dash.charts.palette import BASELINE, CATEGORY, GRAPH_LAUNCH, RUN, SAVED, STEP_PART
from graphviz_dash.charts.shades import IDLE
from graphviz_dash.errors import InputError
from graphviz_dash.features.timeline.page.component.api import card, routes
from graphviz_dash.features.timeline.view.run import CALLS, CATEGORIES
from graphviz_dash.features.timeline.view.slice_card import SliceCard
from graphviz_dash.features.torch_compile.timeline_lanes import STEP_PARTS
from graphviz_dash.ui.components.component_data import (
    Palette,
    PaletteEntry,
    TimelineData,
    as_data,
    both_themes,
)
from graphviz_dash.ui.components.scripts import one_script
from graphviz_dash.ui.components.selection import latest_selection
from graphviz_dash.ui.state.store import UnknownKeyError

__all__ = ["Selection", "routes", "timeline_view"]

_FOLDER: Final = Path(__file__).parent
_HTML: Final = """
<div class="timeline">
  <div class="bar"><div class="legend"></div>
    <div class="job" role="status" hidden></div><div class="buttons"></div></div>
  <div class="stage">
    <canvas tabindex="0" role="application" aria-label="Timeline, loading"></canvas>
    <p class="wheel" aria-hidden="true" hidden></p>
    <div class="tooltip" role="tooltip" hidden></div>
    <p class="loading" role="status" hidden>Laying out the slices…</p>
    <p class="problem" role="alert" hidden></p>
    <div class="ruler" role="group" aria-label="Ruler" hidden></div>
  </div>
  <div class="panel" role="region" aria-label="Selected slice"></div>
  <div class="live" aria-live="polite"></div>
</div>
"""
_CALL_SHADES: Final = {
    CallClass.GRAPH_LAUNCH: GRAPH_LAUNCH,
    CallClass.COPY: CATEGORY[Category.MEMORY],
    CallClass.MEMORY: CATEGORY[Category.COMMUNICATION],
}


class Selection(Struct, frozen=True):
    """A selected slice. ``token`` gives it again to ``timeline_view(selected=...)`` and is fit for
    an address; ``graph`` and ``node`` are None for what is not known to be a graph's node."""

    token: str
    run: str
    card: SliceCard

    @property
    def graph(self) -> str | None:
        """The graph that launched it."""
        return self.card.graph

    @property
    def node(self) -> int | None:
        """The index of its node in that graph."""
        return self.card.node


def timeline_view(
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
    """Shows the timeline of ``run_names``, the first on top, and returns the selected slice.

    Args:
        experiment_key: key of the experiment in the store.
        run_names: names of runs of the experiment; the first is what the others are held against.
        step: number of the step that is aligned: one for all, one for each run, or None for each
            run's typical step (the one of median length).
        selected: what is selected from outside: "run/g12" (a Selection's token), or
            "run/graph-0#17" for a graph's node; None for nothing. A later click of the reader
            outweighs it.
        on_select: called with the token of what the reader has just selected, or None, before the
            script runs again; who keeps the selection in the address puts it there now, so that
            ``selected`` already holds it.
        ruler: where the ruler lies, "begin,end" in ns since the step's start; None for none.
        on_ruler: called with that when the reader has laid, moved or removed it.
        key: key of the widget.
        height: of the whole component in pixels.
    """
    names = list(run_names)
    chosen = [step] * len(names) if step is None or isinstance(step, int) else list(step)
    state = _component()(
        data=as_data(
            TimelineData(
                experiment=experiment_key,
                runs=names,
                steps=chosen,
                selected=selected,
                ruler=ruler,
                height=height,
                palette=_palette(),
            )
        ),
        key=key,
        on_selected_change=lambda: _clicked(key, on_select),
        on_ruler_change=lambda: _measured(key, on_ruler),
    )
    token = latest_selection(f"{key}:selection", state.get("selected"), selected, _token)
    return _resolve(experiment_key, dict(zip(names, chosen, strict=True)), token)


def _resolve(key: str, steps: dict[str, int | None], token: str | None) -> Selection | None:
    run, _, which = (token or "").partition("/")
    if not which or run not in steps:
        return None
    try:
        selected_card = card(key, run, steps, which)
    except (InputError, UnknownKeyError):
        return None
    return Selection(f"{run}/{selected_card.token}", run, selected_card)


def _clicked(key: str, on_select: Callable[[str | None], None] | None) -> None:
    """Called on a click; its presence alone makes the state known to Streamlit."""
    click = st.session_state[key].get("selected")
    if on_select is not None and isinstance(click, dict):
        on_select(_token(click))


def _measured(key: str, on_ruler: Callable[[str | None], None] | None) -> None:
    """Called when the ruler was laid, moved or removed."""
    ruler = st.session_state[key].get("ruler")
    if on_ruler is None or not isinstance(ruler, dict):
        return
    match ruler.get("span"):
        case [int(begin), int(end)]:
            on_ruler(f"{begin},{end}")
        case None:
            on_ruler(None)


def _token(click: dict[str, Any]) -> str | None:
    token = click.get("slice")
    return token if isinstance(token, str) else None


@cache
def _component() -> Any:
    return st.components.v2.component(
        "graphviz_dash_timeline",
        html=_HTML,
        css=(_FOLDER / "timeline.css").read_text(encoding="utf-8"),
        js=one_script(_FOLDER / "timeline.js"),
    )


@cache
def _palette() -> Palette:
    other = both_themes(CATEGORY[Category.OTHER])
    gpu = [PaletteEntry(category.value, both_themes(CATEGORY[category])) for category in CATEGORIES]
    calls = [
        PaletteEntry(
            f"CPU: {call.value}",
            both_themes(_CALL_SHADES[call]) if call in _CALL_SHADES else other,
            call.value,
        )
        for call in CALLS
    ]
    ranges = [PaletteEntry(f"CPU: {what}", other, what) for what in ("annotation", "operator")]
    parts = [
        PaletteEntry(f"step: {part.value}", both_themes(STEP_PART[part])) for part in STEP_PARTS
    ]
    return Palette(
        gpu + calls + ranges + parts,
        both_themes(IDLE),
        run=both_themes(RUN),
        light=both_themes(BASELINE),
        saved=both_themes(SAVED),
    )
