"""Show captured graphs, compared recordings and published times on the Launch page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import streamlit as st

from graphviz_dash.bundle.references import published_launch
from graphviz_dash.features.launch import narrative as words
from graphviz_dash.features.launch.analysis.launch_comparison import (
    LaunchComparison,
    beside_published,
    compare_launches,
)
from graphviz_dash.features.launch.analysis.launch_costs import LaunchCosts
from graphviz_dash.features.launch.analysis.own_graphs import OwnGraph
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.launch import LaunchMeasure
from graphviz_dash.ui.page.markup import element, plain, show, text

_MOST_SENTENCES: Final = 3
_TABLE_PX: Final = 420


def own_answer(experiment: str, graphs: Sequence[OwnGraph]) -> None:
    """Show whether an experiment's graphs launch as fast as expected."""
    st.header(f"Your graphs: {plain(experiment)}", anchor=False)
    if not graphs:
        st.caption(words.NO_OWN_GRAPHS)
        return
    verdict, *sentences = words.own_graph_sentences(graphs, _MOST_SENTENCES)
    show(element("p", text(verdict), "sentence"))
    show("".join(element("p", text(sentence), "said") for sentence in sentences))


def own_table(graphs: Sequence[OwnGraph]) -> None:
    """Show launch times of an experiment's graphs next to a chain of the same size."""
    if graphs:
        with st.expander("All your graphs: shape, launch times, chain of the same size"):
            _own_table(graphs)


def _own_table(graphs: Sequence[OwnGraph]) -> None:
    measures = [
        measure for measure in LaunchMeasure if any(measure in graph.timings for graph in graphs)
    ]
    data: dict[str, list[Any]] = {
        "Run": [own.run for own in graphs],
        "Graph": [own.name for own in graphs],
        "Nodes": [own.nodes for own in graphs],
        "Linear": [own.shape.share if own.shape else None for own in graphs],
        "Roots": [own.shape.roots if own.shape else None for own in graphs],
        "Width": [own.shape.width if own.shape else None for own in graphs],
        "Depth": [own.shape.depth if own.shape else None for own in graphs],
        "Repeat vs chain": [own.chain.measured if own.chain else None for own in graphs],
        "Chain (µs)": [own.chain.ns / 1e3 if own.chain else None for own in graphs],
        "Chain and roots (µs)": [
            own.chain.with_roots / 1e3 if own.chain and own.chain.with_roots else None
            for own in graphs
        ],
    }
    config = _own_columns()
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
    missing = sorted({own.expected.reason for own in graphs if isinstance(own.expected, Missing)})
    st.caption(
        plain(
            "Times of the unprofiled pass. One-time operations were measured once. "
            + " ".join(
                (
                    *words.untimed_sentences(graphs),
                    *(f"No chain: {reason}." for reason in missing),
                )
            )
        )
    )


def _own_columns() -> dict[str, Any]:
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


def comparison_panel(recordings: Mapping[str, LaunchCosts]) -> None:
    """Show medians and ratios of recordings, and whether they agree within their spread."""
    comparison = compare_launches(recordings)
    if comparison is None:
        return
    with st.expander("Comparison of recordings"):
        show(element("p", text(words.comparison_sentence(comparison))))
        _comparison_table(comparison)


def _comparison_table(comparison: LaunchComparison) -> None:
    differences = comparison.differences
    data: dict[str, list[Any]] = {
        "Measure": [words.MEASURE_TITLES[difference.measure] for difference in differences],
        "Graph": [words.topology_name(difference.topology) for difference in differences],
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
    data["Within"] = [difference.within for difference in differences]
    for name in ("Difference (µs)", "Spread (µs)"):
        config[name] = st.column_config.NumberColumn(format="%.3f")
    st.dataframe(
        data,
        column_config=config,
        hide_index=True,
        height=_TABLE_PX,
        alt="Medians of the recordings, their ratios, and whether they agree within their spread",
    )


def published_panel(recordings: Mapping[str, LaunchCosts]) -> None:
    """Show NVIDIA's published times next to the recordings."""
    published = published_launch()
    with st.expander("Comparison with NVIDIA's published times"):
        show(
            element(
                "p",
                f"<b>{text(published.title)}</b>, {text(published.authors)}; "
                f"{text(published.address)}. On {text(published.gpu)}, {text(published.cpu)}, "
                f"with toolkits {text(published.older)} and {text(published.newer)}; "
                f"{text(published.read_as)}.",
            )
        )
        rows = beside_published(published, recordings)
        data: dict[str, list[Any]] = {
            "Measure": [words.MEASURE_TITLES[row.measure] for row in rows],
            "Chains": [row.chains for row in rows],
            "Nodes per chain": [row.length for row in rows],
            "Toolkit 11.8 (µs)": [_us(row.before) for row in rows],
            "Toolkit 12.6 (µs)": [_us(row.after) for row in rows],
        }
        config: dict[str, Any] = {
            name: st.column_config.NumberColumn(format="%.2f")
            for name in ("Toolkit 11.8 (µs)", "Toolkit 12.6 (µs)")
        }
        for name in recordings:
            medians = [row.medians[name] for row in rows]
            data[f"{name} (µs)"] = [_us(median) for median in medians]
            config[f"{name} (µs)"] = st.column_config.NumberColumn(format="%.2f")
        data["Source"] = [row.source for row in rows]
        st.dataframe(
            data,
            column_config=config,
            hide_index=True,
            placeholder="–",
            alt="Published times of linear and parallel chains next to the recordings",
        )
        st.caption(plain(" ".join(published.statements)))


def _us(time: float | None) -> float | None:
    return None if time is None else time / 1e3
