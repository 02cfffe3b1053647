"""Two pages, so that switching to the timeline can be measured."""

import streamlit as st

from graphviz_dash.ui.components.timeline import timeline_view
from graphviz_dash.ui.store import STORE

st.set_page_config(layout="wide")


def start() -> None:
    st.write("The other page.")


def timeline() -> None:
    from timeline_traces import PATH

    timeline_view(STORE.register(PATH), ["eager", "graph"], height=620)


st.navigation([st.Page(start), st.Page(timeline)], position="top").run()
