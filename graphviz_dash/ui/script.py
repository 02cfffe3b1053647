"""The script of the dashboard: the frame around every page, and the navigation."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.ui import address
from graphviz_dash.ui.frame import top_bar
from graphviz_dash.ui.navigation import name_of, pages
from graphviz_dash.ui.warm import warm_up

st.set_page_config(page_title="graphviz-dash", layout="wide")
chosen = st.navigation(pages(), position="hidden")
name = name_of(chosen)
# Before the page is drawn: a visitor who leaves meanwhile ends this run, and finds it as chosen.
address.remember(name)
top_bar(name)
chosen.run()
address.remember(name)
# Once the first page is sent.
warm_up()
