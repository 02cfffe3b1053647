"""Show the kernels of an experiment's runs side by side."""

from __future__ import annotations

from typing import Any

import streamlit as st

from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.analysis.metrics.kernel_table import KernelTable
from graphviz_dash.analysis.trace.kernel_names import shorten_name
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.narrative.summary import explain_rare_kernels
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import show_empty_state


def show_kernels_panel(kernel_rows: KernelTable, run: RunComparison | None) -> None:
    """Show the kernels of the baseline and ``run``, or of all runs without a comparison."""
    if not kernel_rows.rows:
        reasons = [f"{name}: {reason}" for name, reason in kernel_rows.missing_reasons.items()]
        show_empty_state("No kernels to show", *(reasons or ["No kernel ran in the traced steps."]))
        return
    query = url_state.show_search_field("kernel", "Search kernels", "Search by name or category")
    columns = _list_columns(kernel_rows, run)
    rows = [
        row
        for row in kernel_rows.rows
        if any(row.uses[column] for column in columns)
        and (query in row.name.lower() or query == row.category.value)
    ]
    changing = [column for column in columns if kernel_rows.has_changes(column)]
    if changing:
        # The table is ordered by all runs, but only two are shown.
        rows.sort(key=lambda row: -abs(row.changes[changing[-1]] or 0.0))
    data: dict[str, list[Any]] = {
        "Kernel": [shorten_name(escape_control_characters(row.name)) for row in rows],
        "Category": [row.category.value for row in rows],
    }
    config: dict[str, Any] = {"Kernel": st.column_config.TextColumn(width=290)}
    for column in columns:
        name = escape_control_characters(kernel_rows.runs[column])
        uses = [row.uses[column] for row in rows]
        data[f"{name} (count)"] = [use.count if use else None for use in uses]
        data[f"{name} (µs)"] = [use.total_ns / 1e3 if use else None for use in uses]
        config[f"{name} (count)"] = st.column_config.NumberColumn(format="%d")
        config[f"{name} (µs)"] = st.column_config.NumberColumn(format="%.2f")
        if kernel_rows.has_changes(column):
            data["Change (µs)"] = [_convert_to_us(row.changes[column]) for row in rows]
            config["Change (µs)"] = st.column_config.NumberColumn(format="%+.2f")
    data["Full name"] = [escape_control_characters(row.name) for row in rows]
    st.dataframe(
        data,
        column_config=config,
        hide_index=True,
        height="content" if len(rows) < 16 else 560,
        placeholder="–",
        alt="Kernels of the baseline and of the run per traced step",
    )
    order = "largest change" if changing else "longest"
    seldom = explain_rare_kernels(kernel_rows)
    st.caption(
        f"{len(rows)} of {len(kernel_rows.rows)} kernels, memcpy and memset, {order} first. "
        "Counts and times are medians over the traced steps; times of overlapping work add up "
        f"to more than the busy time. {seldom}{seldom and ' '}Click a heading to sort."
    )


def _list_columns(kernel_rows: KernelTable, run: RunComparison | None) -> list[int]:
    """Return the columns to show: baseline and run, or all without a comparison."""
    names = {run.baseline, run.name} if run else set(kernel_rows.runs)
    return [
        column
        for column, name in enumerate(kernel_rows.runs)
        if name in names and name not in kernel_rows.missing_reasons
    ]


def _convert_to_us(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e3
