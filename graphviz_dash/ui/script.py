"""The script of the dashboard: the frame around every page, and the navigation."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from graphviz_dash.ui.frame import enter_page
from graphviz_dash.ui.navigation import pages

ASSETS = Path(__file__).parent / "assets"

st.set_page_config(page_title="graphviz-dash", page_icon=str(ASSETS / "icon.png"), layout="wide")
st.html(ASSETS / "style.css")
st.logo(str(ASSETS / "logo.svg"), size="medium")
chosen = st.navigation(pages(), position="top")
enter_page(chosen.url_path)
chosen.run()
