"""The least that Streamlit serves: what its start and its first page take by themselves."""

from pathlib import Path

import streamlit as st

app = st.App(Path(__file__).parent / "page.py")
