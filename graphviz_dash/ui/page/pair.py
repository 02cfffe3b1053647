"""Compare any two runs, also of different experiments."""

from __future__ import annotations

from typing import Final

import streamlit as st

from graphviz_dash.ui.page.navigation import show_link
from graphviz_dash.ui.state.catalogue import Catalogue, format_pair_name

_MAX_LISTED: Final = 100
"""Number of experiments above which runs are listed once the panel opens."""


def show_pair_panel(listed: Catalogue) -> None:
    """Show a picker of two runs with a link to their comparison."""
    # Listing all runs reads the folder of each experiment.
    is_lazy = len(listed.entries) > _MAX_LISTED
    panel = st.popover(
        "Compare two runs",
        icon=":material/compare:",
        key="pair-panel",
        on_change="rerun" if is_lazy else "ignore",
    )
    with panel:
        if is_lazy and not panel.open:
            return
        runs = list(listed.list_runs())
        if len(runs) < 2:
            st.caption("Only one run.")
            return
        first = st.selectbox("Baseline", runs, key="pair-baseline")
        others = [run for run in runs if run != first]
        second = st.selectbox("Compare with", others, key="pair-run")
        st.caption("Runs may come from different experiments.")
        show_link("compare", "Compare", {"experiment": format_pair_name(first, second)})
