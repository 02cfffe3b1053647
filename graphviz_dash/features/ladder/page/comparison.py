"""Compare a graph family between runs, size by size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from graphviz_dash.analysis.loop.family_report import LoopReport
from graphviz_dash.features.ladder.analysis.size_comparison import SizeComparison, compare_sizes
from graphviz_dash.features.ladder.charts.size_comparison import comparison_chart
from graphviz_dash.features.ladder.narrative import comparison_sentence
from graphviz_dash.ui.page.frame import draw, theme
from graphviz_dash.ui.page.markup import element, plain, show, table, text
from graphviz_dash.units import format_count, format_ns, format_signed_percent

_ROWS: Final = 60
"""Maximum number of listed sizes."""


def comparison_panel(key: str, reports: Sequence[LoopReport], family: str) -> None:
    """Show the family in all runs that have it; nothing if only one does."""
    compared = next((sizes for sizes in compare_sizes(reports) if sizes.family == family), None)
    if compared is None:
        return
    st.header(f"{plain(family)} in {len(compared.families)} runs", anchor=False)
    for sentence in comparison_sentence(compared):
        show(element("p", text(sentence), "said"))
    chart = comparison_chart(compared, theme())
    if chart is not None:
        draw(chart, f"compared-{key}-{family}")
    show(element("div", _table(compared), "scroll"))
    if len(compared.rows) > _ROWS:
        st.caption(f"The first {_ROWS} of {format_count(len(compared.rows))} keys.")


def _table(compared: SizeComparison) -> str:
    runs = list(compared.families)
    rows = []
    for row in compared.rows[:_ROWS]:
        cells = [text(", ".join(f"{number:,}" for number in (row.size, *row.rest)))]
        for run in runs:
            member = row.members.get(run)
            if member is None or member.gpu is None:
                reason = "not captured in this run, or no replay was timed"
                cells.append(element("span", "–", "absent", title=reason))
                continue
            change = row.change(runs[0], run) if run != runs[0] else None
            change_label = "" if change is None else format_signed_percent(change)
            cells.append(
                element("span", text(format_ns(member.gpu.median)), "num")
                + (element("span", text(change_label), "spread") if change_label else "")
            )
        rows.append(cells)
    head = [text(compared.axis), *(text(run) for run in runs)]
    return table(head, [("GPU time per replay", rows)], "figures runs")
