"""List the steps of an engine by phase and mode."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.analysis.loop.family_report import LoopReport
from graphviz_dash.features.ladder.narrative import (
    format_mode,
    format_mode_spread,
)
from graphviz_dash.narrative.engine_steps import describe_eager_steps, format_size_range
from graphviz_dash.ui.page.markup import escape_html, format_element, format_table, show_markup
from graphviz_dash.units import format_count, format_ns, format_percent


def show_modes_panel(report: LoopReport) -> None:
    """Show the steps by phase and mode, and why steps ran without a graph."""
    st.header("Steps by mode", anchor=False)
    rows = []
    for mode in report.modes:
        share = "–" if mode.time_share is None else format_percent(mode.time_share)
        numbers = (
            format_count(mode.steps),
            format_size_range(mode.sizes),
            format_size_range(mode.requests),
            format_ns(mode.step_time.median if mode.step_time else None),
            format_mode_spread(mode),
            share,
        )
        rows.append(
            [
                escape_html(mode.phase or "–"),
                escape_html(format_mode(report, mode)),
                *(format_element("span", escape_html(number), "num") for number in numbers),
            ]
        )
    heads = ["Phase", "Mode", "Steps", "Size", "Requests", "Median step", "p25 to p75", "Time"]
    table = format_table(heads, [("", rows)], "figures runs")
    show_markup(
        format_element("div", table, "scroll"),
        *(
            format_element("p", escape_html(sentence), "said")
            for sentence in describe_eager_steps(report)
        ),
    )
