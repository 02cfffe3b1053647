"""Show the work of a run outside its graphs, and the reasons."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.analysis.trace.kernel_names import short_name
from graphviz_dash.errors import printable
from graphviz_dash.model.absence import Missing
from graphviz_dash.ui.page.markup import element, plain, show, table, text
from graphviz_dash.units import format_count, format_ns, format_percent


def not_captured_panel(run: RunComparison) -> None:
    """Show work of the traced steps that no graph launched, by reason."""
    st.header(f"Not captured in {plain(run.name)}", anchor=False)
    if isinstance(run.coverage, Missing):
        st.caption(plain(run.coverage.reason))
        return
    if not run.coverage.eager:
        st.caption("None: graphs launched all GPU work of the traced steps.")
        return
    by_reason: dict[str, list[list[str]]] = {}
    for group in run.coverage.eager:
        by_reason.setdefault(group.reason.value, []).append(
            [
                text(short_name(printable(group.operator)) if group.operator else "–"),
                element("span", text(format_count(group.count)), "num"),
                element("span", text(format_ns(group.total_ns)), "num"),
                element("span", text(format_percent(group.share)), "num"),
            ]
        )
    groups = [(text(reason.capitalize()), rows) for reason, rows in by_reason.items()]
    head = ["Operator", "Work per step", "Time per step", "Share of GPU time"]
    show(element("div", table(head, groups, "figures runs"), "scroll"))
    st.caption(
        f"{run['graph_work_share'].text} of the kernels, memcpy and memset and "
        f"{run['graph_time_share'].text} of their time ran from graphs. Reasons come from the "
        "operators and ranges around each launch in the traced pass."
    )
