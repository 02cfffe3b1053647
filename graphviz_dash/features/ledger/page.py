"""Sections of the Memory page with the ledger of each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from graphviz_dash.analysis.ledger.memory import LedgerPart
from graphviz_dash.analysis.ledger.report import LedgerReport
from graphviz_dash.documentation import MEMORY_COSTS
from graphviz_dash.features.ledger.chart import draw_memory_ledger, draw_startup
from graphviz_dash.features.ledger.narrative import (
    GRAPH_COLUMNS,
    PART_MEANINGS,
    SAVING_COLUMNS,
    describe_losses,
    describe_memory,
    describe_process,
    describe_startup,
    describe_workspaces,
    name_growth,
)
from graphviz_dash.narrative.columns import omit_empty_columns
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import SelectedExperiment, draw_figure, get_figure
from graphviz_dash.ui.page.help import format_help_link
from graphviz_dash.ui.page.markup import (
    escape_html,
    escape_markdown,
    format_element,
    format_table,
    show_markup,
)
from graphviz_dash.ui.page.tables import format_rows, list_headings, show_rows
from graphviz_dash.units import format_bytes, format_ns, format_percent, format_signed_bytes

_MIB: Final = 1 << 20
_GROWTH_ROWS: Final = 12


def show_ledgers(selection: SelectedExperiment, reports: Sequence[LedgerReport]) -> None:
    """Show the ledger of the selected run."""
    if not reports:
        return
    names = [report.run for report in reports]
    name = names[0]
    if len(names) > 1:
        name = url_state.select_option("ledger", "Ledger of", names, default=names[-1])
    report = reports[names.index(name)]
    _show_memory(selection, report)
    _show_graphs(report)
    _show_startup(selection, report)
    _show_savings(report)


def _show_memory(selection: SelectedExperiment, report: LedgerReport) -> None:
    memory = report.memory
    if memory is None:
        return
    st.header("Device memory over time", anchor=False)
    help_link = format_help_link(MEMORY_COSTS, "Ledger of memory and start-up")
    sentence = escape_html(describe_memory(memory)) + help_link
    show_markup(format_element("p", sentence, "sentence"))
    st.caption(escape_markdown(describe_process(report.process)))
    chart = get_figure(
        selection.key,
        ("ledger-memory", report.run),
        lambda theme: draw_memory_ledger(memory, theme),
    )
    if chart is not None:
        draw_figure(chart, "ledger-memory")
    moments = report.key_moments
    head = ["", *(escape_html(label) for label, _ in moments)]
    parts = [
        [
            format_element(
                "abbr", escape_html(part.value), title=PART_MEANINGS[part], tabindex="0"
            ),
            *(_format_number(moment.parts.get(part, 0)) for _, moment in moments),
        ]
        for part in LedgerPart
        if any(moment.parts.get(part) for _, moment in moments)
    ]
    totals = [
        ["used (cudaMemGetInfo)", *(_format_number(moment.used) for _, moment in moments)],
        ["resident on the host", *(_format_number(moment.host) for _, moment in moments)],
    ]
    causes = [
        [
            escape_html(name_growth(growth)),
            format_element("span", escape_html(format_signed_bytes(growth.bytes)), "num"),
        ]
        for growth in memory.growths[:_GROWTH_ROWS]
        if abs(growth.bytes) >= _MIB
    ]
    tables = format_table(head, [("Parts", parts), ("Total", totals)], "figures runs")
    if causes:
        tables += format_table(
            ("Growth outside the allocator", ""), [("Causes", causes)], "figures runs"
        )
    show_markup(format_element("div", tables, "scroll"))
    for text in (describe_workspaces(memory), *describe_losses(report)):
        if text is not None:
            st.caption(text)


def _format_number(size: int) -> str:
    return format_element("span", escape_html(format_bytes(size)), "num")


def _show_graphs(report: LedgerReport) -> None:
    graphs = report.largest_graphs
    if not graphs:
        return
    st.header("Memory of each graph", anchor=False)
    show_rows(
        omit_empty_columns(GRAPH_COLUMNS, graphs), graphs, "Memory and start-up time of each graph"
    )
    st.caption(
        "Added: pool, kernels and executable. Executable: share by nodes of the growth of all "
        "instantiations. Warm-up: growth since the previous capture."
    )


def _show_startup(selection: SelectedExperiment, report: LedgerReport) -> None:
    startup = report.startup
    st.header("Start-up", anchor=False)
    show_markup(format_element("p", escape_html(describe_startup(startup)), "sentence"))
    chart = get_figure(
        selection.key, ("ledger-startup", report.run), lambda theme: draw_startup(startup, theme)
    )
    if chart is not None:
        draw_figure(chart, "ledger-startup")
    rows = [
        [
            escape_html(part.value),
            format_element("span", escape_html(format_ns(time)), "num"),
            format_element("span", escape_html(format_percent(time / startup.total_ns)), "num"),
        ]
        for part, time in startup.parts.items()
    ]
    total = [
        ["wall clock", format_element("span", escape_html(format_ns(startup.total_ns)), "num"), ""]
    ]
    table = format_table(("", "Time", "Share"), [("Parts", rows), ("Total", total)], "figures runs")
    show_markup(format_element("div", table, "scroll"))


def _show_savings(report: LedgerReport) -> None:
    if not report.savings:
        return
    st.header("Possible savings", anchor=False)
    groups = [("Savings", format_rows(SAVING_COLUMNS, report.savings))]
    table = format_table(list_headings(SAVING_COLUMNS), groups, "figures runs savings")
    show_markup(format_element("div", table, "scroll"))
