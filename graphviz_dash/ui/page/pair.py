"""Any two runs compared, of whichever experiments."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.ui.page.navigation import link
from graphviz_dash.ui.state.catalogue import Catalogue, pair_name


def pair_panel(listed: Catalogue) -> None:
    """A choice of two runs, and the link to their comparison; nothing where there is one run."""
    with st.popover("Compare two runs", icon=":material/compare:"):
        runs = list(listed.runs())
        if len(runs) < 2:
            st.caption("There is one run alone.")
            return
        first = st.selectbox("Baseline", runs, key="pair-baseline")
        others = [run for run in runs if run != first]
        second = st.selectbox("Compared with it", others, key="pair-run")
        st.caption("Of any two experiments. What differs besides graphs is yours to judge.")
        link("compare", "Compare them", {"experiment": pair_name(first, second)})
