"""Page script: the frame around every page, and the navigation."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.app.hosting.document import STYLE
from graphviz_dash.app.hosting.preload import preload_all
from graphviz_dash.app.hosting.switch import is_plain
from graphviz_dash.errors import InputError, WorkerError
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import build_tab_title, draw_top_bar, show_error_panel
from graphviz_dash.ui.page.listing import refresh_listing
from graphviz_dash.ui.page.navigation import get_page_name, list_pages
from graphviz_dash.ui.state.store import ClosedError

chosen = st.navigation(list_pages(), position="hidden")
name = get_page_name(chosen)
url_state.sync_address()
# Before the page is drawn, because leaving the page ends this run.
url_state.remember_address(name)
if is_plain():
    # Otherwise the document already contains it.
    st.html(STYLE)
st.set_page_config(page_title=build_tab_title(name), layout="wide")
draw_top_bar(name)
try:
    chosen.run()
except ClosedError:
    # The experiment changed on disk while the page was built.
    st.rerun()
except (InputError, WorkerError) as error:
    # A file was damaged or replaced after the page had loaded the experiment.
    show_error_panel("Experiment cannot be read", str(error))
url_state.remember_address(name)
# After the page is sent.
preload_all()
refresh_listing()
