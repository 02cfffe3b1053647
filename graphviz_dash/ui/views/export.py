"""Export: the experiment as a trace for Perfetto, and its tables as files."""

from __future__ import annotations

import streamlit as st


def render() -> None:
    """The page."""
    st.write("")
