"""Dashboard entry point. ``graphviz-dash serve`` also checks the port."""

import streamlit as st

from graphviz_dash.app.hosting.lifespan import lifespan
from graphviz_dash.app.hosting.server import PAGES, list_middleware, list_routes

app = st.App(PAGES, routes=list_routes(), middleware=list_middleware(), lifespan=lifespan)
