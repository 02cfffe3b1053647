"""A Streamlit app without content, as a baseline."""

from pathlib import Path

import streamlit as st

app = st.App(Path(__file__).parent / "page.py")
