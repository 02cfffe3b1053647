"""Create the components of pages."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from graphviz_dash.ui.components.scripts import join_modules


@cache
def create_component(script: Path, html: str) -> Any:
    """Create the component of ``script``, whose style is next to it, once per process."""
    return st.components.v2.component(
        f"graphviz_dash_{script.stem}",
        html=html,
        css=script.with_suffix(".css").read_text(encoding="utf-8"),
        js=join_modules(script),
    )


def ignore_change() -> None:
    """Do nothing on a change: the run of the page reads it."""
