"""What a measured graph's concurrency comes to, in sentences for the page and the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphviz_dash.analysis.independence import Needless, needless_edges
from graphviz_dash.analysis.measured_graph import (
    NOT_SEEN,
    MeasuredGraph,
    measure_graph,
    run_replays,
)
from graphviz_dash.analysis.nodes import NodeTable
from graphviz_dash.analysis.origins import NodeOrigin
from graphviz_dash.model.run import Run
from graphviz_dash.units import format_count, format_ns, format_percent, format_ratio


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
    origins: list[NodeOrigin | None] = [
        tables[graph].rows[index].origin if graph in tables else None
        for graph, index in found.nodes
    ]
    edges = np.array([(edge.source, edge.target) for edge in found.edges], dtype=np.int64).reshape(
        -1, 2
    )
    return needless_edges(edges, np.where(found.p50 == NOT_SEEN, 0, found.p50), origins)


def _sentences(found: MeasuredGraph, needless: Needless) -> tuple[str, ...]:
    shown = int((found.p50 != NOT_SEEN).sum())
    path = found.path.length
    return (
        f"The critical path takes {format_ns(path)}, over {format_count(len(found.path.nodes))} of "
        f"{format_count(shown)} nodes that the trace shows: with these kernels the graph cannot be "
        f"faster on any number of streams. A replay took {format_ns(found.span_ns)} from its first "
        f"start to its last end (median of {format_count(found.replays)} replays of the "
        f"{found.source}).",
        _streams(found),
        f"Between dependent nodes of the critical path {format_ns(found.lost_ns)} are lost, "
        f"{format_percent(found.lost_ns / found.span_ns) if found.span_ns else '0%'} of the "
        "replay: a node could begin and had not yet. The profiler lengthens these gaps.",
        _about_edges(found, needless),
    )


def _streams(found: MeasuredGraph) -> str:
    ran = f"{format_ratio(found.achieved)} did while anything ran"
    on = f"on {found.streams} stream{'s' if found.streams != 1 else ''}"
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


def _about_edges(found: MeasuredGraph, needless: Needless) -> str:
    unknown = (
        "Which of its edges carry data is not told: the topology has the order of streams, and no "
        "operands' addresses are recorded."
    )
    if not needless.edges:
        return f"{unknown} The meaning of its operators shows no edge that is without need."
    saved = found.path.length - needless.path_ns
    return (
        f"{unknown} From the meaning of operators {format_count(len(needless.edges))} edges are "
        "without need: parts of one backward operator (gradients of the operands of a product and "
        "of its bias) that do not use each other's results. Captured on streams of their own they "
        f"would shorten the critical path by {format_ns(saved)} at most, to "
        f"{format_ns(needless.path_ns)}."
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
