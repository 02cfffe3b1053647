"""Compare a graph family between runs, size by size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from graphviz_dash.analysis.loop.family_report import LoopReport
from graphviz_dash.features.ladder.analysis.size_comparison import SizeComparison, compare_sizes
from graphviz_dash.features.ladder.charts.size_comparison import draw_size_comparison
from graphviz_dash.features.ladder.narrative import describe_size_comparison
from graphviz_dash.ui.page.frame import draw_figure, get_theme
from graphviz_dash.ui.page.markup import (
    escape_html,
    escape_markdown,
    format_element,
    format_table,
    show_markup,
)
from graphviz_dash.units import format_count, format_ns, format_signed_percent

_ROWS: Final = 60
"""Maximum number of listed sizes."""


def show_comparison_panel(key: str, reports: Sequence[LoopReport], family: str) -> None:
    """Show the family in all runs that have it; nothing if only one does."""
    compared = next((sizes for sizes in compare_sizes(reports) if sizes.family == family), None)
    if compared is None:
        return
    st.header(f"{escape_markdown(family)} in {len(compared.families)} runs", anchor=False)
    for sentence in describe_size_comparison(compared):
        show_markup(format_element("p", escape_html(sentence), "said"))
    chart = draw_size_comparison(compared, get_theme())
    if chart is not None:
        draw_figure(chart, f"compared-{key}-{family}")
    show_markup(format_element("div", _format_table(compared), "scroll"))
    if len(compared.rows) > _ROWS:
        st.caption(f"The first {_ROWS} of {format_count(len(compared.rows))} keys.")


def _format_table(compared: SizeComparison) -> str:
    runs = list(compared.families)
    rows = []
    for row in compared.rows[:_ROWS]:
        cells = [escape_html(", ".join(f"{number:,}" for number in (row.size, *row.other_axes)))]
        for run in runs:
            member = row.members.get(run)
            if member is None or member.gpu is None:
                reason = "not captured in this run, or no replay was timed"
                cells.append(format_element("span", "–", "absent", title=reason))
                continue
            change = row.compute_change(runs[0], run) if run != runs[0] else None
            change_label = "" if change is None else format_signed_percent(change)
            cells.append(
                format_element("span", escape_html(format_ns(member.gpu.median)), "num")
                + (
                    format_element("span", escape_html(change_label), "spread")
                    if change_label
                    else ""
                )
            )
        rows.append(cells)
    head = [escape_html(compared.axis), *(escape_html(run) for run in runs)]
    return format_table(head, [("GPU time per replay", rows)], "figures runs")
