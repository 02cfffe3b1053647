"""Ranks: the ranks of one mode side by side, and the waits at collectives with their causes."""

from __future__ import annotations

from typing import Final

import streamlit as st

from graphviz_dash.analysis.ranks.ranks import CollectiveRow, ModeRanks
from graphviz_dash.features.ranks.chart import (
    MAX_COLLECTIVES,
    draw_arrivals,
    draw_rank_steps,
    select_collectives,
)
from graphviz_dash.features.ranks.narrative import (
    RANK_COLUMNS,
    describe_clock_alignment,
    describe_ranks,
    find_latest_rank,
    find_widest_collective,
    format_uncertainty,
    has_balanced_ranks,
    list_rank_caveats,
    list_rank_entries,
)
from graphviz_dash.narrative.columns import COUNT, MICROSECONDS, Column, Unit
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import (
    SelectedExperiment,
    draw_figure,
    get_theme,
    load_selected_experiment,
)
from graphviz_dash.ui.page.help import format_page_heading
from graphviz_dash.ui.page.markup import format_element, format_text, show_markup
from graphviz_dash.ui.page.navigation import show_link
from graphviz_dash.ui.page.tables import format_row_table, show_rows
from graphviz_dash.ui.page.widgets import format_failures, format_tiles
from graphviz_dash.ui.state.results import get_comparison, get_ranks
from graphviz_dash.units import format_bytes, format_count, format_ns, format_percent

_MAX_IN_TIMELINE: Final = 8
_MISSING: Final = format_count(None)
_BANDWIDTH: Final = Unit(str, scale=1e9, pattern="%.1f")


def render() -> None:
    """Render the page."""
    selection = load_selected_experiment()
    modes = get_ranks(selection.key)
    if not modes:
        _show_no_ranks(selection)
        return
    with st.container(horizontal=True, vertical_alignment="bottom", key="page-head"):
        title = st.container()
        mode = _select_mode(modes)
    with title:
        show_markup(
            format_page_heading("ranks", selection.entry.name),
            format_text("p", f"{describe_ranks(mode)}.", "sentence"),
        )
    show_markup(
        format_failures(get_comparison(selection.key)), _format_tiles(mode), _format_notes(mode)
    )
    steps = draw_rank_steps(mode, get_theme())
    if steps is not None:
        st.header("Traced step breakdown per rank", anchor=False)
        draw_figure(steps, "rank-steps")
    arrivals = draw_arrivals(mode, get_theme())
    if arrivals is not None:
        st.header("Arrival at each collective", anchor=False)
        draw_figure(arrivals, "arrivals")
        drawn_count = len(select_collectives(mode))
        omitted = len(mode.collectives) - drawn_count
        st.caption(
            f"Medians and quartiles over {format_count(mode.steps)} traced steps. "
            + (f"Showing the {MAX_COLLECTIVES} with the largest skew. " if omitted else "")
            + describe_clock_alignment(mode)
        )
    st.header("Ranks", anchor=False)
    show_markup(format_row_table(RANK_COLUMNS, [(mode.name, list_rank_entries(mode))]))
    st.caption(
        "Step time and launch CPU time come from the clean pass; other times are medians per "
        "traced step. A collective waits until the last rank has arrived, and then transfers. "
        "Waits count as busy GPU time. Late: delay after the first rank at collectives where "
        "this rank arrived last, per step, split into delay from longer GPU work and from "
        "longer idle time since the previous collective."
    )
    if mode.collectives:
        st.header("Collectives of the step", anchor=False)
        _show_collectives(mode)
        _show_links(selection, mode)


def _select_mode(modes: tuple[ModeRanks, ...]) -> ModeRanks:
    """Return the selected mode, by default the last with collectives, usually a graphed one."""
    names = [mode.name for mode in modes]
    measured = [mode.name for mode in modes if mode.collectives]
    if len(names) == 1:
        return modes[0]
    name = url_state.select_option("mode", "Mode", names, default=(measured or names)[-1])
    return modes[names.index(name)]


def _show_no_ranks(selection: SelectedExperiment) -> None:
    show_markup(
        format_page_heading("ranks", selection.entry.name),
        format_element(
            "div",
            format_element("h2", "No ranks in this experiment")
            + format_text("p", f"Each run of {selection.entry.name} has one process.")
            + format_element(
                "p",
                "To compare ranks, start the collector with torchrun, one process per GPU:",
            )
            + format_element(
                "pre",
                "torchrun --nproc-per-node 2 -m collectors --workload tp-transformer "
                "\\\n    --modes eager,graph -o experiments/tp-transformer",
            )
            + format_element(
                "p",
                "For your own workload, pass its factory. torch.distributed's default process "
                "group is initialised when it is called.",
                "muted",
            ),
            "empty",
        ),
    )


def _format_tiles(mode: ModeRanks) -> str:
    slowest, worst, late = mode.slowest, find_widest_collective(mode), find_latest_rank(mode)
    cells: list[tuple[str, str, str]] = []
    if slowest is not None:
        cells.append(
            ("Step time, slowest rank", slowest.step_time.text, f"rank {slowest.rank}, clean")
        )
    shared = [row for row in mode.ranks if row.communication is not None and row.step]
    if shared:
        slowest_communication = max(shared, key=lambda row: row.communication or 0.0)
        share = format_percent(
            (slowest_communication.communication or 0.0) / (slowest_communication.step or 1.0)
        )
        cells.append(
            (
                "Communication per step",
                format_ns(slowest_communication.communication),
                f"rank {slowest_communication.rank}, {share} of its traced step",
            )
        )
    if worst is not None and mode.skew is not None:
        cells.append(
            (
                "Skew of a collective",
                format_ns(round(mode.skew.median)),
                f"median; number {worst.ordinal + 1}: {format_ns(round(worst.skew.median))}",
            )
        )
    if late is not None:
        cells.append(
            (
                "Delay of the last rank",
                "balanced" if has_balanced_ranks(mode) else format_ns(round(late.total_ns)),
                f"rank {late.rank}: {format_ns(round(late.total_ns))} per step, within noise"
                if has_balanced_ranks(mode)
                else f"per step, rank {late.rank}",
            )
        )
    if mode.uncertainty is not None:
        bound = max((clock.bound for clock in mode.clocks), default=0.0)
        cells.append(
            (
                "Clock uncertainty",
                format_uncertainty(mode.uncertainty),
                f"at worst {format_ns(round(bound))}",
            )
        )
    return format_tiles(cells)


def _format_notes(mode: ModeRanks) -> str:
    notes = list(list_rank_caveats(mode))
    if mode.reason is not None:
        notes.insert(0, f"Skew not available: {mode.reason}.")
    listed = "".join(format_text("li", note) for note in notes)
    matching = [graph for graph in mode.graphs if graph.first_difference is None]
    agreement = ""
    if matching and len(matching) == len(mode.graphs):
        agreement = format_element(
            "p",
            "The captured graphs of all ranks have the same kinds, names, launch shapes and edges.",
            "muted",
        )
    return (format_element("ul", listed, "notes") if listed else "") + agreement


def _show_collectives(mode: ModeRanks) -> None:
    rows = mode.collectives
    columns: list[Column[CollectiveRow]] = [
        Column("Number", lambda row: row.ordinal + 1, COUNT),
        Column("Kind", lambda row: row.kind.value),
        Column("Skew", lambda row: row.skew.median, MICROSECONDS),
        Column("p75", lambda row: row.skew.spread.high, MICROSECONDS),
        Column("Transfer", lambda row: row.transfer.median, MICROSECONDS),
        Column("Message", lambda row: format_bytes(row.origin.bytes)),
        Column("GB/s", lambda row: row.bandwidth, _BANDWIDTH),
        Column("Mostly last", lambda row: _find_mostly_last(mode, row)),
        Column("Node", lambda row: row.origin.node),
        Column("Module", lambda row: row.origin.module or ""),
        Column("Operator", lambda row: row.origin.op or ""),
        Column("Source", lambda row: row.origin.source or ""),
        Column("Origin source", lambda row: row.origin.method),
    ]
    show_rows(columns, rows, "Collectives of the step")
    st.caption(
        "Skew is the time from the first to the last arrival, transfer the time from the last "
        "arrival to the last end. Message is the size contributed by one rank. GB/s is "
        "message size over transfer time, if the trace contains the size (shapes are recorded "
        "in captures)."
    )


def _find_mostly_last(mode: ModeRanks, row: CollectiveRow) -> str:
    """Return the rank that was last most often, with its count."""
    max_count = max(row.last_counts)
    total = sum(row.last_counts)
    if row.last_counts.count(max_count) > 1:
        return "none"
    return f"rank {mode.ranks[row.last_counts.index(max_count)].rank}, {max_count} of {total}"


def _show_links(selection: SelectedExperiment, mode: ModeRanks) -> None:
    worst = find_widest_collective(mode)
    query = {"experiment": selection.entry.name}
    first = mode.ranks[0]
    with st.container(horizontal=True, gap="small", key="links-ranks"):
        if worst is not None and worst.origin.graph is not None:
            node = {
                "run": first.name,
                "graph": worst.origin.graph,
                "node": str(worst.origin.node),
            }
            title = f"Collective {worst.ordinal + 1} (largest skew) in the graph"
            show_link("graph", title, query | node)
        names = [row.name for row in mode.ranks[:_MAX_IN_TIMELINE]]
        show_link("timeline", "These ranks in the timeline", query | {"runs": names})
