"""Sections of the Memory page with the ledger of each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from graphviz_dash.analysis.ledger.report import LedgerReport
from graphviz_dash.documentation import MEMORY_COSTS
from graphviz_dash.features.ledger.chart import draw_memory_ledger, draw_startup
from graphviz_dash.features.ledger.narrative import (
    GRAPH_COLUMNS,
    GROWTH_COLUMNS,
    SAVING_COLUMNS,
    TIME_COLUMNS,
    build_size_columns,
    describe_losses,
    describe_memory,
    describe_process,
    describe_startup,
    describe_workspaces,
    list_growths,
    list_size_rows,
    list_time_rows,
)
from graphviz_dash.narrative.columns import omit_empty_columns
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import SelectedExperiment, draw_figure, get_figure
from graphviz_dash.ui.page.help import format_help_link
from graphviz_dash.ui.page.markup import (
    escape_html,
    format_element,
    show_caption,
    show_markup,
    show_paragraph,
)
from graphviz_dash.ui.page.tables import format_row_table, show_rows
from graphviz_dash.units import format_count

_GROWTH_ROWS: Final = 12
_LINEAR, _LOG = "linear", "logarithmic"


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
    show_caption(describe_process(report.process))
    scale = url_state.select_option("memory-scale", "Scale", [_LINEAR, _LOG])
    chart = get_figure(
        selection.key,
        ("ledger-memory", report.run, scale),
        lambda theme: draw_memory_ledger(memory, theme, log=scale == _LOG),
    )
    draw_figure(chart, "ledger-memory")
    columns = build_size_columns(label for label, _ in report.key_moments)
    parts, totals = list_size_rows(report)
    show_markup(format_row_table(columns, [("Parts", parts), ("Total", totals)]))
    if growths := list_growths(memory):
        title = "Growth outside the allocator"
        if len(growths) > _GROWTH_ROWS:
            title += f", {_GROWTH_ROWS} of {format_count(len(growths))}"
        show_markup(format_row_table(GROWTH_COLUMNS, [(title, growths[:_GROWTH_ROWS])]))
    for text in (describe_workspaces(memory), *describe_losses(report)):
        if text is not None:
            st.caption(text)


def _show_graphs(report: LedgerReport) -> None:
    graphs = report.largest_graphs
    if not graphs:
        return
    st.header("Memory of each graph", anchor=False)
    show_rows(
        omit_empty_columns(GRAPH_COLUMNS, graphs), graphs, "Memory and start-up time of each graph"
    )
    st.caption(
        "Added: reserved by the allocator (in pools and outside), kernels and executable. "
        "Pool growth: since the previous capture into the same pool. Executable: share by nodes of "
        "the growth of all instantiations. Warm-up: growth since the previous capture."
    )


def _show_startup(selection: SelectedExperiment, report: LedgerReport) -> None:
    startup = report.startup
    st.header("Start-up", anchor=False)
    show_paragraph(describe_startup(startup), "sentence")
    chart = get_figure(
        selection.key, ("ledger-startup", report.run), lambda theme: draw_startup(startup, theme)
    )
    draw_figure(chart, "ledger-startup")
    parts, totals = list_time_rows(startup)
    show_markup(format_row_table(TIME_COLUMNS, [("Parts", parts), ("Total", totals)]))


def _show_savings(report: LedgerReport) -> None:
    if not report.savings:
        return
    st.header("Possible savings", anchor=False)
    groups = [("Savings", report.savings)]
    show_markup(format_row_table(SAVING_COLUMNS, groups, "figures runs savings"))
