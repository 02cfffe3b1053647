"""A site with nothing but the Perfetto buttons, for the browser test of the component."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

import streamlit as st

from graphviz_dash.ui.components import local_perfetto, perfetto

app = st.App("page.py", routes=[*perfetto.routes(), *local_perfetto.routes()])
