"""List the steps of an engine by phase and mode."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from graphviz_dash.analysis.loop.family_report import LoopReport
from graphviz_dash.analysis.loop.step_modes import StepMode
from graphviz_dash.features.ladder.narrative import (
    format_mode,
    format_mode_spread,
)
from graphviz_dash.narrative.engine_steps import format_size_range
from graphviz_dash.ui.page.markup import escape_html, format_element, format_table, show_markup
from graphviz_dash.units import format_count, format_ns, format_percent


def show_modes_panel(report: LoopReport) -> None:
    """Show the steps by phase and mode, folded."""
    with st.expander("Steps by mode", icon=":material/table_rows:"):
        show_markup(_format_modes([report]))


def show_modes_of_runs(reports: Sequence[LoopReport]) -> None:
    """Show the steps of runs with several phases or modes; nothing without any."""
    reports_with_modes = [report for report in reports if _count_timed_modes(report) > 1]
    if reports_with_modes:
        st.header("Steps by mode", anchor=False)
        show_markup(_format_modes(reports_with_modes))


def _count_timed_modes(report: LoopReport) -> int:
    return sum(mode.time_share is not None for mode in report.modes)


def _format_modes(reports: Sequence[LoopReport]) -> str:
    """Format the steps by phase and mode, by run if there are several."""
    heads = ["Phase", "Mode", "Steps", "Size", "Requests", "Median step", "p25 to p75", "Time"]
    groups = [
        (
            escape_html(report.run) if len(reports) > 1 else "",
            [
                _format_row(report, mode)
                for mode in sorted(report.modes, key=lambda mode: -(mode.time_share or -1))
            ],
        )
        for report in reports
    ]
    return format_element("div", format_table(heads, groups, "figures runs"), "scroll")


def _format_row(report: LoopReport, mode: StepMode) -> list[str]:
    share = "–" if mode.time_share is None else format_percent(mode.time_share)
    numbers = (
        format_count(mode.steps),
        format_size_range(mode.sizes),
        format_size_range(mode.requests),
        format_ns(mode.step_time.median if mode.step_time else None),
        format_mode_spread(mode),
        share,
    )
    return [
        escape_html(mode.phase or "–"),
        escape_html(format_mode(report, mode)),
        *(format_element("span", escape_html(number), "num") for number in numbers),
    ]
