"""The script of the dashboard: the frame around every page, and the navigation."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.app.hosting.document import STYLE
from graphviz_dash.app.hosting.preload import preload_all
from graphviz_dash.app.hosting.switch import is_plain
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import tab_title, top_bar
from graphviz_dash.ui.page.navigation import name_of, pages
from graphviz_dash.ui.state.store import ClosedError

chosen = st.navigation(pages(), position="hidden")
name = name_of(chosen)
url_state.arrive()
# Before the page is drawn: a visitor who leaves meanwhile ends this run, and finds it as chosen.
url_state.remember(name)
if is_plain():
    # Else it stands in the document already, before anything is drawn.
    st.html(STYLE)
st.set_page_config(page_title=tab_title(name), layout="wide")
top_bar(name)
try:
    chosen.run()
except ClosedError:
    # What it shows changed on disk while it was made.
    st.rerun()
url_state.remember(name)
# Once the first page is sent.
preload_all()
