"""The page: the buttons of the experiment that the environment names."""

import os
from pathlib import Path

import streamlit as st

from graphviz_dash.ui.components.perfetto import perfetto_button
from graphviz_dash.ui.store import STORE

st.set_page_config(layout="wide")
st.button("Again")
key = STORE.register(Path(os.environ["PERFETTO_EXPERIMENT"]))
perfetto_button(key, timeout_ms=int(os.environ.get("PERFETTO_TIMEOUT_MS", "30000")))
