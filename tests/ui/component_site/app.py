"""A site with nothing but components, for their tests in a browser."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

import streamlit as st

from graphviz_dash.ui.components import local_perfetto, perfetto, timeline

app = st.App("page.py", routes=[*timeline.routes(), *perfetto.routes(), *local_perfetto.routes()])
