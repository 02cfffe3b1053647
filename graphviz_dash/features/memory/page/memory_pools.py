"""Show the private pools of a run and their use by graphs on the Memory page."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.analysis.memory.report import MemoryReport, PoolBreakdown, build_pool_map
from graphviz_dash.features.memory.chart import draw_pool_map
from graphviz_dash.features.memory.narrative import GRAPH_COLUMNS
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import SelectedExperiment, draw_figure, get_figure, show_fold
from graphviz_dash.ui.page.markup import escape_markdown, show_paragraph
from graphviz_dash.ui.page.tables import show_rows
from graphviz_dash.ui.state.store import STORE
from graphviz_dash.units import format_bytes, format_count


def show_pools_panel(selection: SelectedExperiment, report: MemoryReport) -> None:
    """Show a run's pools, and the bytes of each graph in the selected one."""
    if not report.pools:
        return
    st.header(f"Private pools of {escape_markdown(report.run)}", anchor=False)
    run = next(run for run in selection.experiment.runs if run.name == report.run)
    names = [_format_pool_name(pool) for pool in report.pools]
    name = names[0]
    if len(names) > 1:
        name = url_state.select_option("pool", "Pool", names)
    pool = report.pools[names.index(name)]
    show_paragraph(_describe_pool(pool), "sentence")
    if run.memory_pass is not None:
        pool_key = ("pool", run.name, pool.id)
        measured = run.memory_pass
        usage = STORE.derive(selection.key, pool_key, lambda _: build_pool_map(measured, pool.id))
        chart = get_figure(selection.key, pool_key, lambda theme: draw_pool_map(usage, theme))
        if chart is not None:
            draw_figure(chart, "memory-pool")
            row_count = len(chart.layout.yaxis.categoryarray)
            if row_count < len(usage.rows):
                st.caption(f"First {row_count} of {len(usage.rows)} graphs")
    _show_graphs(report)


def _format_pool_name(pool: PoolBreakdown) -> str:
    return f"{pool.id[0]}-{pool.id[1]}"


def _describe_pool(pool: PoolBreakdown) -> str:
    parts = {
        "private to one graph": pool.exclusive,
        "shared": pool.shared,
        "unused": pool.unused,
        "library workspaces": pool.workspaces,
        **{owner.value: size for owner, size in pool.owned.items()},
    }
    listed = ", ".join(f"{format_bytes(size)} {name}" for name, size in parts.items() if size)
    return (
        f"Pool {_format_pool_name(pool)} reserves {format_bytes(pool.reserved)} in "
        f"{format_count(pool.segments)} segments: {listed}."
    )


def _show_graphs(report: MemoryReport) -> None:
    if report.graphs:
        show_fold(
            "Memory of each graph",
            "graph-memory",
            lambda: _show_graphs_table(report),
            ":material/table_rows:",
        )


def _show_graphs_table(report: MemoryReport) -> None:
    show_rows(GRAPH_COLUMNS, report.graphs, "Memory of each graph")
    st.caption(
        "The chart has a row per graph, in capture order: bytes of the pool that its capture "
        "allocated at any time. Bytes in no row are unused. "
        "Used: all pool memory allocated by the capture, including workspaces and gradients. "
        "Kept: alive at the end of the capture, such as outputs. Peak: maximum alive at the "
        "same time. Executable: growth of device memory during instantiation; the driver "
        "allocates in multiples of MiB, so most show 0."
    )
