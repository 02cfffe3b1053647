"""Sections of the Memory page with the ledger of each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import streamlit as st

from graphviz_dash.analysis.ledger.memory import LedgerPart
from graphviz_dash.analysis.ledger.report import LedgerReport
from graphviz_dash.documentation import MEMORY_COSTS
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.ledger.chart import draw_memory_ledger, draw_startup
from graphviz_dash.features.ledger.narrative import (
    PART_MEANINGS,
    describe_losses,
    describe_memory,
    describe_process,
    describe_saving,
    describe_startup,
    describe_workspaces,
    name_growth,
)
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
from graphviz_dash.units import format_bytes, format_ns, format_percent, format_signed_bytes

_MIB: Final = 1 << 20
_GROWTH_ROWS: Final = 12
"""Maximum number of causes in the table."""


def show_ledgers(selection: SelectedExperiment, reports: Sequence[LedgerReport]) -> None:
    """Show the ledger of the selected run; nothing without ledgers."""
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
    columns: dict[str, list[Any]] = {
        "Graph": [escape_control_characters(graph.graph) for graph in graphs],
        "Added (MiB)": [_convert(graph.added_bytes) for graph in graphs],
        "Pool (MiB)": [_convert(graph.reserved_bytes) for graph in graphs],
        "Kernels (MiB)": [_convert(graph.kernel_bytes) for graph in graphs],
        "Held (MiB)": [_convert(graph.held_bytes or None) for graph in graphs],
        "Executable (MiB)": [_convert(graph.executable_bytes) for graph in graphs],
        "Warm-up (MiB)": [_convert(graph.warm_up_bytes) for graph in graphs],
        "Host (MiB)": [_convert(graph.host_bytes) for graph in graphs],
        "Returned by drop (MiB)": [_convert(graph.returned_bytes) for graph in graphs],
        "Capture (ms)": [_convert(graph.capture_ns, 1e6) for graph in graphs],
        "Instantiation (ms)": [_convert(graph.driver_ns, 1e6) for graph in graphs],
        "First launch (ms)": [_convert(graph.first_launch_ns, 1e6) for graph in graphs],
    }
    values_by_column = {
        name: values
        for name, values in columns.items()
        if any(value is not None for value in values)
    }
    config: dict[str, Any] = {
        name: st.column_config.NumberColumn(format="%.2f")
        for name in values_by_column
        if name != "Graph"
    }
    st.dataframe(
        values_by_column,
        column_config=config,
        hide_index=True,
        height="content" if len(graphs) <= 12 else 420,
        placeholder="–",
        alt="Memory and start-up time of each graph",
    )
    st.caption(
        "Added: pool, kernels and executable. Executable: share by nodes of the growth of all "
        "instantiations. Warm-up: growth since the previous capture."
    )


def _convert(value: int | None, unit: float = _MIB) -> float | None:
    return None if value is None else value / unit


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
    rows = [
        [
            escape_html(describe_saving(saving)),
            _format_number(saving.bytes),
            format_element("span", escape_html(format_ns(saving.ns)), "num"),
            saving.basis.value,
        ]
        for saving in report.savings
    ]
    table = format_table(
        ("Change", "Memory", "Start-up", "Basis"), [("Savings", rows)], "figures runs savings"
    )
    show_markup(format_element("div", table, "scroll"))
