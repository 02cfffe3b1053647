"""Ranks: the ranks of one mode side by side; who waits for whom at the collectives, and why."""

from __future__ import annotations

from typing import Final

import streamlit as st

from graphviz_dash.analysis.ranks.ranks import CollectiveRow, Lateness, ModeRanks, RankRow
from graphviz_dash.errors import printable
from graphviz_dash.features.ranks.chart import (
    MOST_COLLECTIVES,
    arrivals_chart,
    drawn_collectives,
    rank_steps_chart,
)
from graphviz_dash.features.ranks.narrative import (
    clock_sentence,
    latest,
    rank_notes,
    rank_sentence,
    widest,
    within,
)
from graphviz_dash.narrative.numbers import spread_text
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import Chosen, chosen_experiment, draw, theme
from graphviz_dash.ui.page.help import page_heading
from graphviz_dash.ui.page.markup import element, show, table, text
from graphviz_dash.ui.page.navigation import link
from graphviz_dash.ui.page.widgets import failure_notes, tiles
from graphviz_dash.ui.state.results import comparison, ranks
from graphviz_dash.units import format_bytes, format_count, format_ns, format_percent

_MOST_IN_TIMELINE: Final = 8
_ABSENT: Final = format_count(None)


def render() -> None:
    """The page."""
    chosen = chosen_experiment()
    modes = ranks(chosen.key)
    if not modes:
        _no_ranks(chosen)
        return
    with st.container(horizontal=True, vertical_alignment="bottom", key="page-head"):
        title = st.container()
        mode = _mode(modes)
    with title:
        show(
            page_heading("ranks", text(chosen.entry.name)),
            element("p", text(f"{rank_sentence(mode)}."), "sentence"),
        )
    show(failure_notes(comparison(chosen.key)), _tiles(mode), _notes(mode))
    steps = rank_steps_chart(mode, theme())
    if steps is not None:
        st.header("Where the traced step of each rank goes", anchor=False)
        draw(steps, "rank-steps")
    arrivals = arrivals_chart(mode, theme())
    if arrivals is not None:
        st.header("Arrival at each collective", anchor=False)
        draw(arrivals, "arrivals")
        drawn = len(drawn_collectives(mode))
        left_out = len(mode.collectives) - drawn
        st.caption(
            f"Medians and quartiles over {format_count(mode.steps)} traced steps. "
            + (f"The {MOST_COLLECTIVES} of largest skew are drawn. " if left_out else "")
            + clock_sentence(mode)
        )
    st.header("Ranks", anchor=False)
    show(element("div", _ranks(mode), "scroll"))
    st.caption(
        "Step time and launch CPU time are of the clean pass; the other times are medians per "
        "traced step. A collective waits until the last rank has arrived, and transfers from then "
        "on; waiting counts as busy GPU time wherever such is shown. Late: how long after the "
        "first rank it came to those that it reached last, per step, and how much of it is due to "
        "its GPU working or idling for longer since the collective before."
    )
    if mode.collectives:
        st.header("Collectives of the step", anchor=False)
        _collectives(mode)
        _links(chosen, mode)


def _mode(modes: tuple[ModeRanks, ...]) -> ModeRanks:
    """The chosen mode; by default the last one with collectives, which is a graphed one if any."""
    names = [mode.name for mode in modes]
    measured = [mode.name for mode in modes if mode.collectives]
    if len(names) == 1:
        return modes[0]
    name = url_state.choose("mode", "Mode", names, default=(measured or names)[-1])
    return modes[names.index(name)]


def _no_ranks(chosen: Chosen) -> None:
    show(
        page_heading("ranks", text(chosen.entry.name)),
        element(
            "div",
            element("h2", "This experiment has no ranks to compare")
            + element("p", text(f"Each run of {chosen.entry.name} is of one process."))
            + element(
                "p",
                "Start the collector with torchrun, one process for each GPU, to compare ranks:",
            )
            + element(
                "pre",
                "torchrun --nproc-per-node 2 -m collectors --workload tp-transformer "
                "\\\n    --modes eager,graph -o experiments/tp-transformer",
            )
            + element(
                "p",
                "For a workload of your own name its factory instead. When it is called, "
                "torch.distributed's default process group is initialised.",
                "muted",
            ),
            "empty",
        ),
    )


def _tiles(mode: ModeRanks) -> str:
    slowest, worst, late = mode.slowest, widest(mode), latest(mode)
    cells: list[tuple[str, str, str]] = []
    if slowest is not None:
        cells.append(
            ("Step time, slowest rank", slowest.step_time.text, f"rank {slowest.rank}, clean")
        )
    shared = [row for row in mode.ranks if row.communication is not None and row.step]
    if shared:
        most = max(shared, key=lambda row: row.communication or 0.0)
        share = format_percent((most.communication or 0.0) / (most.step or 1.0))
        cells.append(
            (
                "Communication per step",
                format_ns(most.communication),
                f"rank {most.rank}, {share} of its traced step",
            )
        )
    if worst is not None and mode.skew is not None:
        cells.append(
            (
                "Skew of a collective",
                format_ns(round(mode.skew.median)),
                f"median; number {worst.ordinal + 1} has {format_ns(round(worst.skew.median))}",
            )
        )
    if late is not None:
        cells.append(
            (
                "Last rank behind the first",
                format_ns(round(late.total)),
                f"per step, rank {late.rank}",
            )
        )
    if mode.uncertainty is not None:
        bound = max((clock.bound for clock in mode.clocks), default=0.0)
        cells.append(
            (
                "Clocks agree within",
                within(mode.uncertainty),
                f"at worst {format_ns(round(bound))}",
            )
        )
    return tiles(cells)


def _notes(mode: ModeRanks) -> str:
    notes = list(rank_notes(mode))
    if mode.reason is not None:
        notes.insert(0, f"No skew: {mode.reason}.")
    listed = "".join(element("li", text(note)) for note in notes)
    same = [graph for graph in mode.graphs if graph.first is None]
    agree = ""
    if same and len(same) == len(mode.graphs):
        agree = element(
            "p",
            "The captured graphs of all ranks agree in kinds, names, launch shapes and edges.",
            "muted",
        )
    return (element("ul", listed, "notes") if listed else "") + agree


def _ranks(mode: ModeRanks) -> str:
    head = [
        *("", "GPU", "Step time", "Launch CPU", "Compute", "Communication", "Exposed"),
        *("Waits", "Transfers", "Last in", "Late", "By work", "By idle"),
    ]
    late = {lateness.rank: lateness for lateness in mode.lateness}
    whole = sum(lateness.count for lateness in mode.lateness)
    rows = [_row(row, late.get(row.rank), whole) for row in mode.ranks]
    return table(head, [(text(mode.name), rows)], "figures runs")


def _row(row: RankRow, late: Lateness | None, whole: int) -> list[str]:
    step = element("span", text(row.step_time.text), "num")
    spread = spread_text(row.step_time)
    times = (row.compute, row.communication, row.exposed, row.wait, row.transfer)
    lost = (None, None, None) if late is None else (late.total, late.work, late.idle)
    return [
        element("span", text(f"rank {row.rank}"), title=row.name),
        _number(_ABSENT if row.device is None else str(row.device)),
        step + (element("span", text(spread), "spread") if spread else ""),
        _number(row.launch_cpu_time.text),
        *(_number(format_ns(time)) for time in times),
        _number(format_percent(late.count / whole) if late and whole else _ABSENT),
        *(_number(format_ns(None if time is None else round(time))) for time in lost),
    ]


def _number(value: str) -> str:
    return element("span", text(value), "num")


def _collectives(mode: ModeRanks) -> None:
    rows = mode.collectives
    st.dataframe(
        {
            "Number": [row.ordinal + 1 for row in rows],
            "Kind": [row.kind.value for row in rows],
            "Skew, µs": [row.skew.median / 1e3 for row in rows],
            "p75, µs": [
                None if row.skew.spread.high is None else row.skew.spread.high / 1e3 for row in rows
            ],
            "Transfer, µs": [row.transfer.median / 1e3 for row in rows],
            "Message": [format_bytes(row.origin.bytes) for row in rows],
            "GB/s": [None if row.bandwidth is None else row.bandwidth / 1e9 for row in rows],
            "Mostly last": [_mostly_last(mode, row) for row in rows],
            "Node": [row.origin.node for row in rows],
            "Module": [printable(row.origin.module or "") for row in rows],
            "Operator": [printable(row.origin.op or "") for row in rows],
            "Source": [printable(row.origin.source or "") for row in rows],
            "Origin from": [row.origin.method for row in rows],
        },
        column_config={
            "Skew, µs": st.column_config.NumberColumn(format="%.2f"),
            "p75, µs": st.column_config.NumberColumn(format="%.2f"),
            "Transfer, µs": st.column_config.NumberColumn(format="%.2f"),
            "GB/s": st.column_config.NumberColumn(format="%.1f"),
        },
        hide_index=True,
        height="content" if len(rows) <= 12 else 460,
        placeholder=_ABSENT,
        alt="Collectives of the step",
    )
    st.caption(
        "Skew is from the first to the last arrival, transfer from the last arrival to the last "
        "end. A message is what one rank gives; GB/s is the message over the transfer, where the "
        "trace tells its size (shapes are recorded in captures)."
    )


def _mostly_last(mode: ModeRanks, row: CollectiveRow) -> str:
    """The rank that was the last more often than any other, with how often."""
    most = max(row.last)
    whole = sum(row.last)
    if row.last.count(most) > 1:
        return "none"
    return f"rank {mode.ranks[row.last.index(most)].rank}, {most} of {whole}"


def _links(chosen: Chosen, mode: ModeRanks) -> None:
    worst = widest(mode)
    query = {"experiment": chosen.entry.name}
    first = mode.ranks[0]
    with st.container(horizontal=True, gap="small", key="links-ranks"):
        if worst is not None and worst.origin.graph is not None:
            node = {
                "run": first.name,
                "graph": worst.origin.graph,
                "node": str(worst.origin.node),
            }
            title = f"Number {worst.ordinal + 1}, the most uneven, in the graph"
            link("graph", title, query | node)
        names = [row.name for row in mode.ranks[:_MOST_IN_TIMELINE]]
        link("timeline", "These ranks in the timeline", query | {"runs": names})
