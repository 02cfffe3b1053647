"""Show the critical path and concurrency of a graph below its drawing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from graphviz_dash.analysis.nodes.concurrency import Concurrency
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.charts.shades import Theme
from graphviz_dash.features.graph.concurrency import describe_concurrency
from graphviz_dash.features.graph.drawing.node_note import build_node_lines
from graphviz_dash.features.graph.page.state.graphs import GraphAddress
from graphviz_dash.features.graph.page.state.streams import (
    find_tried_plan,
    get_parallel_prediction,
)
from graphviz_dash.features.prediction.analysis.contention import Contention, find_contentions
from graphviz_dash.features.prediction.analysis.measured import get_times_by_streams
from graphviz_dash.features.prediction.charts.streams import draw_schedule, draw_streams
from graphviz_dash.features.prediction.stream_narrative import describe_parallel
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.columns import MICROSECONDS, SHARE, Column
from graphviz_dash.ui.page.frame import draw_figure, show_fold
from graphviz_dash.ui.page.markup import (
    format_details,
    format_text,
    show_caption,
    show_markup,
    show_paragraph,
)
from graphviz_dash.ui.page.tables import show_rows
from graphviz_dash.ui.state.store import STORE

_MAX_EDGES: Final = 500
_MAX_CONTENTIONS: Final = 40


def show_streams_panel(address: GraphAddress, full_graph: ExpandedGraph, theme: Theme) -> None:
    """Show predicted and measured times on several streams, and the time lost to contention."""
    prediction, plan = get_parallel_prediction(*address), find_tried_plan(*address[:2])
    st.header("On several streams", anchor="streams")
    if isinstance(prediction, Missing):
        show_caption(f"No prediction: {prediction.reason}.")
        return
    captured_plan = STORE.get_run(*address[:2]).parallel
    finding, *_ = describe_parallel(address[1], captured_plan, prediction)
    show_paragraph(finding, "said")
    measured = {} if plan is None else get_times_by_streams(plan)
    if captured_plan is not None or (len(prediction.rows) == 1 and not measured):
        return
    draw_figure(draw_streams(prediction, measured, theme), "streams")
    slowed = find_contentions(prediction, _MAX_CONTENTIONS)
    if slowed:
        show_fold(
            "Time lost to contention",
            "contention",
            lambda: _show_contentions(slowed, full_graph),
            ":material/compress:",
        )


def _format_findings(sentences: Sequence[str]) -> list[str]:
    first, *others = (format_text("p", line, "said") for line in sentences)
    return [first, format_details("Details", *others)] if others else [first]


def _show_contentions(slowed: Sequence[Contention], full_graph: ExpandedGraph) -> None:
    def label(node: int) -> str:
        return f"{node} {build_node_lines(full_graph.table.rows[node])[0]}"

    show_rows(
        [
            Column("Node", lambda entry: label(entry.node), width="medium"),
            Column("Slowdown", lambda entry: entry.slowed_ns, MICROSECONDS),
            Column("GPU share", lambda entry: entry.share, SHARE),
            Column(
                "Concurrent with",
                lambda entry: ", ".join(map(label, entry.concurrent_nodes)),
                width="large",
            ),
        ],
        slowed,
        "Nodes slowed down by others in the predicted plan, largest slowdown first",
    )
    st.caption(
        "Simulation of the plan: if concurrent kernels request more multiprocessors than "
        "there are, they share them fairly."
    )


def show_concurrency_panel(
    outcome: Concurrency | Missing, full_graph: ExpandedGraph, theme: Theme
) -> None:
    """Show findings, schedules, and dependencies with their lost time."""
    st.header("Critical path and concurrency", anchor="critical-path")
    if isinstance(outcome, Missing):
        show_caption(f"Not available: {outcome.reason}.")
        return
    chart = draw_schedule(outcome.measured, theme)
    show_markup(*_format_findings(describe_concurrency(outcome)))
    draw_figure(chart, "schedules")
    if not outcome.measured.edges:
        return
    show_fold(
        "Time lost between dependent nodes",
        "lost-time",
        lambda: _show_edges(outcome, full_graph),
        ":material/hourglass_empty:",
    )


def _show_edges(outcome: Concurrency, full_graph: ExpandedGraph) -> None:
    measured = outcome.measured
    names = {name: at for at, name in enumerate(full_graph.owners)}
    needless = set(outcome.redundant.edges)
    edges = sorted(measured.edges, key=lambda edge: -edge.lost_ns)[:_MAX_EDGES]

    def label(row_index: int) -> str:
        graph, index = measured.nodes[row_index]
        at = names.get((graph, index))
        row = None if at is None else full_graph.table.rows[at]
        return f"{index} {build_node_lines(row)[0] if row else graph}"

    show_rows(
        [
            Column("From", lambda edge: label(edge.source), width="medium"),
            Column("To", lambda edge: label(edge.target), width="medium"),
            Column("Lost", lambda edge: edge.lost_ns, MICROSECONDS),
            Column("Gap", lambda edge: edge.gap_ns, MICROSECONDS),
            Column(
                "On the critical path",
                lambda edge: {edge.source, edge.target} <= measured.critical_nodes,
            ),
            Column("Redundant", lambda edge: (edge.source, edge.target) in needless),
        ],
        edges,
        "Dependencies with the time lost in each, longest first",
    )
    st.caption(
        f"{len(edges)} of {len(measured.edges)} dependencies, including those through nodes "
        "missing from the trace. The gap is the median from the end of the first node to the "
        "start of the second. It counts as lost if the second node waited for nothing else."
    )
