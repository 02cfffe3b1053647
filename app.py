"""Dashboard entry point. ``graphviz-dash serve`` also checks the port."""

import streamlit as st

from graphviz_dash.app.hosting.lifespan import lifespan
from graphviz_dash.app.hosting.server import PAGES, middleware, routes

app = st.App(PAGES, routes=routes(), middleware=middleware(), lifespan=lifespan)
