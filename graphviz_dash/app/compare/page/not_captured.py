"""Show the work of a run outside its graphs, and the reasons."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.analysis.trace.kernel_names import shorten_name
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.model.absence import Missing
from graphviz_dash.ui.page.markup import (
    escape_html,
    escape_markdown,
    format_element,
    format_table,
    show_markup,
)
from graphviz_dash.units import format_count, format_ns, format_percent


def show_not_captured(run: RunComparison) -> None:
    """Show work of the traced steps that no graph launched, by reason."""
    st.header(f"Not captured in {escape_markdown(run.name)}", anchor=False)
    if isinstance(run.coverage, Missing):
        st.caption(escape_markdown(run.coverage.reason))
        return
    if not run.coverage.eager:
        st.caption("None: graphs launched all GPU work of the traced steps.")
        return
    by_reason: dict[str, list[list[str]]] = {}
    for group in run.coverage.eager:
        by_reason.setdefault(group.reason.value, []).append(
            [
                escape_html(
                    shorten_name(escape_control_characters(group.operator))
                    if group.operator
                    else "–"
                ),
                format_element("span", escape_html(format_count(group.count)), "num"),
                format_element("span", escape_html(format_ns(group.total_ns)), "num"),
                format_element("span", escape_html(format_percent(group.share)), "num"),
            ]
        )
    groups = [(escape_html(reason.capitalize()), rows) for reason, rows in by_reason.items()]
    head = ["Operator", "Work per step", "Time per step", "Share of GPU time"]
    show_markup(format_element("div", format_table(head, groups, "figures runs"), "scroll"))
    st.caption(
        f"{run['graph_work_share'].text} of the kernels, memcpy and memset and "
        f"{run['graph_time_share'].text} of their time ran from graphs. Reasons come from the "
        "operators and ranges around each launch in the traced pass."
    )
