"""List the steps of an engine by phase and mode."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from graphviz_dash.analysis.loop.family_report import LoopReport
from graphviz_dash.features.ladder.narrative import list_mode_columns
from graphviz_dash.ui.page.markup import show_markup
from graphviz_dash.ui.page.tables import format_row_table


def show_modes_panel(report: LoopReport) -> None:
    """Show the steps by phase and mode, folded."""
    with st.expander("Steps by mode", icon=":material/table_rows:"):
        show_markup(_format_modes([report]))


def show_modes_of_runs(reports: Sequence[LoopReport]) -> None:
    """Show the steps of runs with several phases or modes."""
    reports_with_modes = [report for report in reports if _count_timed_modes(report) > 1]
    if reports_with_modes:
        st.header("Steps by mode", anchor=False)
        show_markup(_format_modes(reports_with_modes))


def _count_timed_modes(report: LoopReport) -> int:
    return sum(mode.time_share is not None for mode in report.modes)


def _format_modes(reports: Sequence[LoopReport]) -> str:
    """Format the modes, by run if there are several."""
    groups = []
    for report in reports:
        modes = sorted(report.modes, key=lambda mode: -(mode.time_share or -1))
        groups.append((report.run if len(reports) > 1 else "", modes))
    return format_row_table(list_mode_columns(reports[-1]), groups)
