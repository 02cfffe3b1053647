"""A site with nothing but components, for their tests in a browser."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

import streamlit as st

from graphviz_dash.features.perfetto.page import component as perfetto
from graphviz_dash.features.perfetto.page import local_perfetto
from graphviz_dash.features.timeline.page import component as timeline

app = st.App(
    "page.py",
    routes=[*timeline.build_routes(), *perfetto.build_routes(), *local_perfetto.build_routes()],
)
