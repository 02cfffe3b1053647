"""The dashboard: ``streamlit run app.py``, or ``graphviz-dash serve``, which checks the port too."""

import streamlit as st

from graphviz_dash.ui.server import PAGES, routes

app = st.App(PAGES, routes=routes())
