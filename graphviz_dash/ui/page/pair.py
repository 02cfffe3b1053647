"""Compare any two runs, also of different experiments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from graphviz_dash.ui.page.navigation import show_link
from graphviz_dash.ui.state.catalogue import Catalogue, format_pair_name

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

_MAX_LISTED: Final = 100
"""Number of experiments above which runs are listed once the panel opens."""


def show_pair_panel(catalogue: Catalogue) -> None:
    """Show the button and the panel of a picker of two runs."""
    # Listing all runs reads the folder of each experiment.
    is_lazy = len(catalogue.entries) > _MAX_LISTED
    panel = st.popover(
        "Compare two runs",
        icon=":material/compare:",
        key="pair-panel",
        on_change="rerun" if is_lazy else "ignore",
    )
    if not is_lazy or panel.open:
        _fill_panel(panel, catalogue)


def _fill_panel(panel: DeltaGenerator, catalogue: Catalogue) -> None:
    with panel:
        runs = list(catalogue.list_runs())
        if len(runs) < 2:
            st.caption("Only one run.")
            return
        first = st.selectbox("Baseline", runs, key="pair-baseline")
        others = [run for run in runs if run != first]
        second = st.selectbox("Compare with", others, key="pair-run")
        st.caption("Runs may come from different experiments.")
        show_link("compare", "Compare", {"experiment": format_pair_name(first, second)})
