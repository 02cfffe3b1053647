"""What a measured graph's concurrency comes to, in sentences for the page and the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from graphviz_dash.analysis.graph.flatten import flatten
from graphviz_dash.analysis.nodes.measured_graph import (
    NOT_SEEN,
    MeasuredGraph,
    measure_graph,
    run_replays,
)
from graphviz_dash.analysis.nodes.needless_edges import NeedlessEdges, needless_edges
from graphviz_dash.analysis.nodes.node_table import NodeRow, NodeTable
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run
from graphviz_dash.units import counted, format_count, format_ns, format_percent, format_ratio


@dataclass(frozen=True)
class Concurrency:
    """A measured graph, the edges that it does not need, and what both come to in ``sentences``."""

    measured: MeasuredGraph
    needless: NeedlessEdges
    sentences: tuple[str, ...]


def graph_concurrency(measured: MeasuredGraph, tables: Mapping[str, NodeTable]) -> Concurrency:
    """The findings on a measured graph; ``tables`` are those of its run's graphs by id."""
    needless = _needless_of(measured, tables)
    return Concurrency(measured, needless, _sentences(measured, needless))


def _needless_of(measured: MeasuredGraph, tables: Mapping[str, NodeTable]) -> NeedlessEdges:
    rows = [
        tables[graph].rows[index] if graph in tables else None for graph, index in measured.nodes
    ]
    edges = np.array(
        [(edge.source, edge.target) for edge in measured.edges], dtype=np.int64
    ).reshape(-1, 2)
    by_id = {name: table.graph for name, table in tables.items()}
    flat = flatten(by_id[measured.graph], by_id).graph if measured.graph in by_id else None
    if flat is not None:
        # Collectives reach buffers, and the memory of other ranks, by addresses that lie in memory.
        nodes = tuple(
            msgspec.structs.replace(node, operands=None)
            if row is not None and row.category is Category.COMMUNICATION
            else node
            for node, row in zip(flat.nodes, rows, strict=True)
        )
        flat = msgspec.structs.replace(flat, nodes=nodes)
    origins = [None if row is None else row.origin for row in rows]
    return needless_edges(edges, measured.p50, origins, flat)


def _sentences(measured: MeasuredGraph, needless: NeedlessEdges) -> tuple[str, ...]:
    shown = int((measured.p50 != NOT_SEEN).sum())
    path = measured.path.length
    took = (
        f"A replay took {format_ns(measured.span_ns)} from its first start to its last end (median "
        f"of {counted(measured.replays, 'replay')} of the {measured.source})."
    )
    if len(measured.nodes) == 1:
        return (f"The graph is one node, which nothing waits for. {took}",)
    return (
        f"The critical path takes {format_ns(path)}, over {format_count(len(measured.path.nodes))} "
        f"of {counted(shown, 'node')} that the trace shows: with these kernels and dependencies "
        f"the graph cannot be faster on any number of streams. {took}",
        _streams(measured),
        f"Between dependent nodes of the critical path {format_ns(measured.lost_ns)} are lost, "
        f"{format_percent(measured.lost_ns / measured.span_ns) if measured.span_ns else '0%'} of "
        "the replay: a node could begin and had not yet. The profiler lengthens these gaps.",
        _about_edges(measured, needless),
    )


def _streams(measured: MeasuredGraph) -> str:
    ran = f"{format_ratio(measured.achieved)} did while anything ran"
    on = f"on {counted(measured.streams, 'stream')}"
    last = measured.schedules[-1]
    if last.streams == 1:
        return (
            f"Its dependencies leave one order only: {format_ratio(measured.available)} can run at "
            f"once, {ran}, {on}."
        )
    fewer = ", ".join(
        f"{format_ns(schedule.length)} on {schedule.streams}"
        for schedule in measured.schedules[:-1]
    )
    return (
        f"Its dependencies let {format_ratio(measured.available)} run at once on average; {ran}, "
        f"{on}. "
        f"List scheduling reaches the critical path on {last.streams} streams; it takes {fewer}. "
        "Kernels that share the GPU take longer than alone, so these are bounds."
    )


_BY_MEANING: Final = (
    "parts of one backward operator (gradients of the operands of a product and of its bias) that "
    "do not use each other's results"
)


def _about_edges(measured: MeasuredGraph, needless: NeedlessEdges) -> str:
    if needless.unknown is None:
        return _by_meaning(measured, needless)
    count = len(needless.edges)
    by_memory = count - needless.by_meaning
    more = f", {format_count(needless.by_meaning)} more join {_BY_MEANING}"
    unknown = (
        f" {format_count(needless.unknown)} nodes do not tell what they reach and keep their order."
        if needless.unknown
        else ""
    )
    return (
        f"Of its {format_count(len(measured.edges))} edges {format_count(by_memory)} join nodes "
        f"that can reach no memory in common, by the addresses among their arguments"
        f"{more if needless.by_meaning else ''}. "
        f"{_without(measured, needless)}Nodes that only read the same memory count as in need of "
        f"their order; what a kernel reaches through addresses that lie in memory is not seen."
        f"{unknown}"
    )


def _by_meaning(measured: MeasuredGraph, needless: NeedlessEdges) -> str:
    unknown = (
        "Which of its edges carry data is not told: the topology has the order of streams, and the "
        "bundle does not say what memory its nodes reach."
    )
    if not needless.edges:
        return f"{unknown} The meaning of its operators shows no edge that is without need."
    return (
        f"{unknown} From the meaning of operators {format_count(len(needless.edges))} edges are "
        f"without need: {_BY_MEANING}. {_without(measured, needless)}".rstrip()
    )


def _without(measured: MeasuredGraph, needless: NeedlessEdges) -> str:
    """What the graph would be without its needless edges; empty without any."""
    if not needless.edges:
        return ""
    saved = measured.path.length - needless.path_ns
    return (
        f"Captured on streams of their own they would shorten the critical path by "
        f"{format_ns(saved)} at most, to {format_ns(needless.path_ns)}. "
    )


def run_concurrency(run: Run, tables: Sequence[NodeTable]) -> dict[str, Concurrency | Missing]:
    """For each graph of ``run`` that is launched by itself what its concurrency comes to, or why
    that is not known; ``tables`` are those of all its graphs."""
    matched = run_replays(run)
    by_id = {table.graph.id: table for table in tables}
    by_graph: dict[str, Concurrency | Missing] = {}
    for graph in run.graphs:
        if graph.parent is None:
            graph_measured = measure_graph(graph, run.graphs, matched)
            by_graph[graph.id] = (
                graph_measured
                if isinstance(graph_measured, Missing)
                else graph_concurrency(graph_measured, by_id)
            )
    return by_graph


def p99_and_slack(
    concurrency: Concurrency | Missing | None, table: NodeTable, row: NodeRow
) -> tuple[int | None, int | None]:
    """p99 and slack of a node, in ns; None where it was not measured."""
    if concurrency is None or isinstance(concurrency, Missing):
        return None, None
    index = concurrency.measured.places.get((table.graph.id, row.node.index))
    if index is None or concurrency.measured.p50[index] == NOT_SEEN:
        return None, None
    return int(concurrency.measured.p99[index]), int(concurrency.measured.slack[index])
