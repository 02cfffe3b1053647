"""The dashboard as ``graphviz-dash serve`` starts it from an installed package; see app.py."""

import streamlit as st

from graphviz_dash.ui.hosting.lifespan import life
from graphviz_dash.ui.hosting.server import MIDDLEWARE, PAGES, routes

app = st.App(PAGES, routes=routes(), middleware=MIDDLEWARE, lifespan=life)
