"""The page: the timeline of a shipped experiment, and what Python holds to be selected."""

from pathlib import Path

import streamlit as st

from graphviz_dash.ui.components.timeline import timeline_view
from graphviz_dash.ui.state.store import STORE

SAMPLES = Path(__file__).parents[3] / "sample_traces"

st.set_page_config(layout="wide")
experiment = st.query_params.get("experiment", "fork-join")
key = STORE.register(SAMPLES / experiment)
runs = [run.name for run in STORE.experiment(key).runs]
outside = st.query_params.get("selected")


def _measured(span: str | None) -> None:
    if span is None:
        st.query_params.pop("ruler", None)
    else:
        st.query_params["ruler"] = span


ruler = st.query_params.get("ruler")
selection = timeline_view(key, runs, selected=outside, ruler=ruler, on_ruler=_measured, height=560)
if st.button("Ask for g41"):
    st.query_params["selected"] = "graph/g41"
    st.rerun()
st.text(f"selected: {selection.token if selection else 'nothing'}")
st.text(f"ruler: {st.query_params.get('ruler', 'none')}")
