"""The page: the buttons of the experiment that the environment names."""

import os
from pathlib import Path

import streamlit as st

from graphviz_dash.ui.components.perfetto import TracePart, perfetto_button
from graphviz_dash.ui.state.store import STORE

st.set_page_config(layout="wide")
st.button("Again")
key = STORE.register(Path(os.environ["PERFETTO_EXPERIMENT"]))
run, _, step = st.query_params.get("part", "").partition(":")
part = TracePart(((run, int(step) if step else None),)) if run else TracePart()
patience = int(os.environ.get("PERFETTO_TIMEOUT_MS", "30000"))
perfetto_button(key, part, small=bool(run), timeout_ms=patience)
