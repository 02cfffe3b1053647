"""The dashboard: ``streamlit run app.py``; ``graphviz-dash serve`` checks the port as well."""

import streamlit as st

from graphviz_dash.app.hosting.lifespan import lifespan
from graphviz_dash.app.hosting.server import PAGES, middleware, routes

app = st.App(PAGES, routes=routes(), middleware=middleware(), lifespan=lifespan)
