"""The dashboard: ``streamlit run app.py``; ``graphviz-dash serve`` checks the port as well."""

import streamlit as st

from graphviz_dash.ui.hosting.lifespan import life
from graphviz_dash.ui.hosting.server import MIDDLEWARE, PAGES, routes

app = st.App(PAGES, routes=routes(), middleware=MIDDLEWARE, lifespan=life)
