import os
from pathlib import Path

import streamlit as st

from graphviz_dash.features.perfetto.page.component import (
    UI_VARIABLE,
    TracePart,
    render_perfetto_buttons,
)
from graphviz_dash.features.timeline.page.component import render_timeline
from graphviz_dash.ui.state.store import STORE

SAMPLES = Path(__file__).parents[3] / "sample_traces"


def show_timeline() -> None:
    """The timeline of a sample, and what Python holds to be selected and measured."""
    key = STORE.register(SAMPLES / "fork-join")
    runs = [run.name for run in STORE.load_experiment_of_key(key).runs]
    outside = st.query_params.get("selected")
    ruler = st.query_params.get("ruler")
    selection = render_timeline(
        key, runs, selected=outside, ruler=ruler, on_ruler=_measured, height=560
    )
    if st.button("Ask for g41"):
        st.query_params["selected"] = "graph/g41"
        st.rerun()
    st.text(f"selected: {selection.token if selection else 'nothing'}")
    st.text(f"ruler: {st.query_params.get('ruler', 'none')}")


def _measured(span: str | None) -> None:
    if span is None:
        st.query_params.pop("ruler", None)
    else:
        st.query_params["ruler"] = span


def show_perfetto() -> None:
    """The buttons of an experiment, which open the UI at an address."""
    st.button("Again")
    st.session_state["runs"] = st.session_state.get("runs", 0) + 1
    st.text(f"run {st.session_state['runs']}")
    key = STORE.register(Path(st.query_params["experiment"]))
    run, _, step = st.query_params.get("part", "").partition(":")
    part = TracePart(((run, int(step) if step else None),)) if run else TracePart()
    patience = int(st.query_params.get("timeout_ms", "30000"))
    os.environ[UI_VARIABLE] = st.query_params["ui"]
    render_perfetto_buttons(key, part, small=bool(run), timeout_ms=patience)


st.set_page_config(layout="wide")
shown = st.query_params.get("show")
if shown == "timeline":
    show_timeline()
elif shown == "perfetto":
    show_perfetto()
else:
    st.text("nothing is shown")
