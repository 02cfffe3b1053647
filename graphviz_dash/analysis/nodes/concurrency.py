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
from graphviz_dash.analysis.nodes.needless_edges import Needless, needless_edges
from graphviz_dash.analysis.nodes.node_table import NodeRow, NodeTable
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.model.run import Run
from graphviz_dash.units import counted, format_count, format_ns, format_percent, format_ratio


@dataclass(frozen=True)
class Concurrency:
    """A measured graph, the edges that it does not need, and what both come to in ``sentences``."""

    measured: MeasuredGraph
    needless: Needless
    sentences: tuple[str, ...]


def concurrency_of(found: MeasuredGraph, tables: Mapping[str, NodeTable]) -> Concurrency:
    """The findings on a measured graph; ``tables`` are those of its run's graphs by id."""
    needless = _needless_of(found, tables)
    return Concurrency(found, needless, _sentences(found, needless))


def _needless_of(found: MeasuredGraph, tables: Mapping[str, NodeTable]) -> Needless:
    rows = [tables[graph].rows[index] if graph in tables else None for graph, index in found.nodes]
    edges = np.array([(edge.source, edge.target) for edge in found.edges], dtype=np.int64).reshape(
        -1, 2
    )
    by_id = {name: table.graph for name, table in tables.items()}
    flat = flatten(by_id[found.graph], by_id).graph if found.graph in by_id else None
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
    return needless_edges(edges, found.p50, origins, flat)


def _sentences(found: MeasuredGraph, needless: Needless) -> tuple[str, ...]:
    shown = int((found.p50 != NOT_SEEN).sum())
    path = found.path.length
    took = (
        f"A replay took {format_ns(found.span_ns)} from its first start to its last end (median of "
        f"{counted(found.replays, 'replay')} of the {found.source})."
    )
    if len(found.nodes) == 1:
        return (f"The graph is one node, which nothing waits for. {took}",)
    return (
        f"The critical path takes {format_ns(path)}, over {format_count(len(found.path.nodes))} of "
        f"{counted(shown, 'node')} that the trace shows: with these kernels and dependencies "
        f"the graph cannot be faster on any number of streams. {took}",
        _streams(found),
        f"Between dependent nodes of the critical path {format_ns(found.lost_ns)} are lost, "
        f"{format_percent(found.lost_ns / found.span_ns) if found.span_ns else '0%'} of the "
        "replay: a node could begin and had not yet. The profiler lengthens these gaps.",
        _about_edges(found, needless),
    )


def _streams(found: MeasuredGraph) -> str:
    ran = f"{format_ratio(found.achieved)} did while anything ran"
    on = f"on {counted(found.streams, 'stream')}"
    last = found.schedules[-1]
    if last.streams == 1:
        return (
            f"Its dependencies leave one order only: {format_ratio(found.available)} can run at "
            f"once, {ran}, {on}."
        )
    fewer = ", ".join(f"{format_ns(one.length)} on {one.streams}" for one in found.schedules[:-1])
    return (
        f"Its dependencies let {format_ratio(found.available)} run at once on average; {ran}, "
        f"{on}. "
        f"List scheduling reaches the critical path on {last.streams} streams; it takes {fewer}. "
        "Kernels that share the GPU take longer than alone, so these are bounds."
    )


_BY_MEANING: Final = (
    "parts of one backward operator (gradients of the operands of a product and of its bias) that "
    "do not use each other's results"
)


def _about_edges(found: MeasuredGraph, needless: Needless) -> str:
    if needless.unknown is None:
        return _by_meaning(found, needless)
    count = len(needless.edges)
    by_memory = count - needless.by_meaning
    more = f", {format_count(needless.by_meaning)} more join {_BY_MEANING}"
    unknown = (
        f" {format_count(needless.unknown)} nodes do not tell what they reach and keep their order."
        if needless.unknown
        else ""
    )
    return (
        f"Of its {format_count(len(found.edges))} edges {format_count(by_memory)} join nodes that "
        f"can reach no memory in common, by the addresses among their arguments"
        f"{more if needless.by_meaning else ''}. "
        f"{_without(found, needless)}Nodes that only read the same memory count as in need of "
        f"their order; what a kernel reaches through addresses that lie in memory is not seen."
        f"{unknown}"
    )


def _by_meaning(found: MeasuredGraph, needless: Needless) -> str:
    unknown = (
        "Which of its edges carry data is not told: the topology has the order of streams, and the "
        "bundle does not say what memory its nodes reach."
    )
    if not needless.edges:
        return f"{unknown} The meaning of its operators shows no edge that is without need."
    return (
        f"{unknown} From the meaning of operators {format_count(len(needless.edges))} edges are "
        f"without need: {_BY_MEANING}. {_without(found, needless)}".rstrip()
    )


def _without(found: MeasuredGraph, needless: Needless) -> str:
    """What the graph would be without its needless edges; empty without any."""
    if not needless.edges:
        return ""
    saved = found.path.length - needless.path_ns
    return (
        f"Captured on streams of their own they would shorten the critical path by "
        f"{format_ns(saved)} at most, to {format_ns(needless.path_ns)}. "
    )


def run_concurrency(run: Run, tables: Sequence[NodeTable]) -> dict[str, Concurrency | str]:
    """For each graph of ``run`` that is launched by itself what its concurrency comes to, or why
    that is not known; ``tables`` are those of all its graphs."""
    matched = run_replays(run)
    by_id = {table.graph.id: table for table in tables}
    found: dict[str, Concurrency | str] = {}
    for graph in run.graphs:
        if graph.parent is None:
            measured = measure_graph(graph, run.graphs, matched)
            found[graph.id] = (
                measured if isinstance(measured, str) else concurrency_of(measured, by_id)
            )
    return found


def spread_of(
    found: Concurrency | str | None, table: NodeTable, row: NodeRow
) -> tuple[int | None, int | None]:
    """p99 and slack of a node, in ns; None where it was not measured."""
    if found is None or isinstance(found, str):
        return None, None
    place = found.measured.places.get((table.graph.id, row.node.index))
    if place is None or found.measured.p50[place] == NOT_SEEN:
        return None, None
    return int(found.measured.p99[place]), int(found.measured.slack[place])
