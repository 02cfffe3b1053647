"""Show captured graphs, compared recordings and published times on the Launch page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import streamlit as st

from graphviz_dash.bundle.references import read_published_launch
from graphviz_dash.features.launch import narrative as words
from graphviz_dash.features.launch.analysis.launch_comparison import (
    LaunchComparison,
    compare_launches,
    compare_published,
)
from graphviz_dash.features.launch.analysis.launch_costs import LaunchCosts
from graphviz_dash.features.launch.analysis.own_graphs import ProgramGraph
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.launch import LaunchMeasure
from graphviz_dash.ui.page.markup import escape_html, escape_markdown, format_element, show_markup

_TABLE_PX: Final = 420


def show_graphs_table(experiment: str, graphs: Sequence[ProgramGraph]) -> None:
    """Show the graphs with their times, folded."""
    if not graphs:
        return
    with st.expander(f"Your graphs: {escape_markdown(experiment)}"):
        _show_graphs_table(graphs)


def _show_graphs_table(graphs: Sequence[ProgramGraph]) -> None:
    measures = [
        measure for measure in LaunchMeasure if any(measure in graph.timings for graph in graphs)
    ]
    data: dict[str, list[Any]] = {
        "Run": [own.run for own in graphs],
        "Graph": [own.name for own in graphs],
        "Nodes": [own.nodes for own in graphs],
        "Linear": [own.shape.chained_share if own.shape else None for own in graphs],
        "Roots": [own.shape.roots if own.shape else None for own in graphs],
        "Width": [own.shape.width if own.shape else None for own in graphs],
        "Depth": [own.shape.depth if own.shape else None for own in graphs],
        "Repeat vs chain": [own.chain.ratio if own.chain else None for own in graphs],
        "Chain (µs)": [own.chain.ns / 1e3 if own.chain else None for own in graphs],
        "Chain and roots (µs)": [
            own.chain.with_roots / 1e3 if own.chain and own.chain.with_roots else None
            for own in graphs
        ],
    }
    config = _build_columns()
    for measure in measures:
        name = f"{words.MEASURE_TITLES[measure]} (µs)"
        data[name] = [
            own.timings[measure].summary.median / 1e3 if measure in own.timings else None
            for own in graphs
        ]
        config[name] = st.column_config.NumberColumn(
            format="%.2f", help=words.MEASURE_MEANINGS[measure]
        )
    st.dataframe(
        data,
        column_config=config,
        hide_index=True,
        height="content" if len(graphs) <= 12 else _TABLE_PX,
        placeholder="–",
        alt="Shape and launch times of every captured graph",
    )
    missing = sorted(
        {own.chain_times.reason for own in graphs if isinstance(own.chain_times, Missing)}
    )
    st.caption(
        escape_markdown(
            "Times of the unprofiled pass. One-time operations were measured once. "
            + " ".join(
                (
                    *words.describe_untimed_measures(graphs),
                    *(f"No chain: {reason}." for reason in missing),
                )
            )
        )
    )


def _build_columns() -> dict[str, Any]:
    return {
        "Run": st.column_config.TextColumn(pinned=True),
        "Graph": st.column_config.TextColumn(pinned=True),
        "Linear": st.column_config.NumberColumn(
            format="percent", help="Share of the nodes on linear chains"
        ),
        "Width": st.column_config.NumberColumn(help="Most nodes at one depth"),
        "Depth": st.column_config.NumberColumn(help="Nodes on the longest path"),
        "Repeat vs chain": st.column_config.NumberColumn(
            format="%.2fx", help="CPU time of a repeat launch relative to a chain of the same size"
        ),
        "Chain (µs)": st.column_config.NumberColumn(
            format="%.2f",
            help=(
                "CPU time of a repeat launch of a linear chain with the same number of empty "
                "kernels"
            ),
        ),
        "Chain and roots (µs)": st.column_config.NumberColumn(
            format="%.2f", help="The same, plus the cost of as many roots in synthetic graphs"
        ),
    }


def show_comparison_panel(recordings: Mapping[str, LaunchCosts]) -> None:
    """Show medians and ratios, and whether recordings agree within their spread."""
    comparison = compare_launches(recordings)
    if comparison is None:
        return
    with st.expander("Comparison of recordings"):
        show_markup(format_element("p", escape_html(words.describe_launch_comparison(comparison))))
        _show_comparison_table(comparison)


def _show_comparison_table(comparison: LaunchComparison) -> None:
    differences = comparison.differences
    data: dict[str, list[Any]] = {
        "Measure": [words.MEASURE_TITLES[difference.measure] for difference in differences],
        "Graph": [words.format_topology(difference.topology) for difference in differences],
        "Nodes": [difference.topology.nodes for difference in differences],
    }
    config: dict[str, Any] = {}
    for column, name in enumerate(comparison.names):
        data[f"{name} (µs)"] = [difference.medians[column] / 1e3 for difference in differences]
        config[f"{name} (µs)"] = st.column_config.NumberColumn(format="%.2f")
        if column:
            data[f"{name} (ratio)"] = [difference.ratios[column] for difference in differences]
            config[f"{name} (ratio)"] = st.column_config.NumberColumn(format="%.2fx")
    data["Difference (µs)"] = [difference.largest_gap / 1e3 for difference in differences]
    data["Spread (µs)"] = [difference.spread / 1e3 for difference in differences]
    data["Within"] = [difference.is_within_spread for difference in differences]
    for name in ("Difference (µs)", "Spread (µs)"):
        config[name] = st.column_config.NumberColumn(format="%.3f")
    st.dataframe(
        data,
        column_config=config,
        hide_index=True,
        height=_TABLE_PX,
        alt="Medians of the recordings, their ratios, and whether they agree within their spread",
    )


def show_published_panel(recordings: Mapping[str, LaunchCosts]) -> None:
    """Show NVIDIA's published times next to the recordings."""
    published = read_published_launch()
    with st.expander("Comparison with NVIDIA's published times"):
        show_markup(
            format_element(
                "p",
                f"<b>{escape_html(published.title)}</b>, {escape_html(published.authors)}; "
                f"{escape_html(published.address)}. On {escape_html(published.gpu)}, "
                f"{escape_html(published.cpu)}, "
                f"with toolkits {escape_html(published.older)} and {escape_html(published.newer)}; "
                f"{escape_html(published.reading_method)}.",
            )
        )
        rows = compare_published(published, recordings)
        data: dict[str, list[Any]] = {
            "Measure": [words.MEASURE_TITLES[row.measure] for row in rows],
            "Chains": [row.chains for row in rows],
            "Nodes per chain": [row.length for row in rows],
            "Toolkit 11.8 (µs)": [_convert_to_us(row.older_ns) for row in rows],
            "Toolkit 12.6 (µs)": [_convert_to_us(row.newer_ns) for row in rows],
        }
        config: dict[str, Any] = {
            name: st.column_config.NumberColumn(format="%.2f")
            for name in ("Toolkit 11.8 (µs)", "Toolkit 12.6 (µs)")
        }
        for name in recordings:
            medians = [row.medians[name] for row in rows]
            data[f"{name} (µs)"] = [_convert_to_us(median) for median in medians]
            config[f"{name} (µs)"] = st.column_config.NumberColumn(format="%.2f")
        data["Source"] = [row.source for row in rows]
        st.dataframe(
            data,
            column_config=config,
            hide_index=True,
            placeholder="–",
            alt="Published times of linear and parallel chains next to the recordings",
        )
        st.caption(escape_markdown(" ".join(published.statements)))


def _convert_to_us(time: float | None) -> float | None:
    return None if time is None else time / 1e3
