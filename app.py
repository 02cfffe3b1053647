"""The dashboard: ``streamlit run app.py``; ``graphviz-dash serve`` checks the port as well."""

import streamlit as st

from graphviz_dash.ui.server import MIDDLEWARE, PAGES, routes
from graphviz_dash.ui.sockets import at_once

app = st.App(PAGES, routes=routes(), middleware=MIDDLEWARE, lifespan=at_once)
