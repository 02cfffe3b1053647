"""The page: the buttons of the experiment that the environment names, with the UI that the address
names."""

import os
from pathlib import Path

import streamlit as st

from graphviz_dash.ui.components.perfetto import UI_VARIABLE, TracePart, perfetto_button
from graphviz_dash.ui.state.store import STORE

st.set_page_config(layout="wide")
st.button("Again")
key = STORE.register(Path(os.environ["PERFETTO_EXPERIMENT"]))
run, _, step = st.query_params.get("part", "").partition(":")
part = TracePart(((run, int(step) if step else None),)) if run else TracePart()
patience = int(st.query_params.get("timeout_ms", "30000"))
os.environ[UI_VARIABLE] = f"{os.environ['PERFETTO_MOCK']}/{st.query_params.get('ui', 'ui/3')}"
perfetto_button(key, part, small=bool(run), timeout_ms=patience)
