"""Measured graph with its redundant edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.graph.flatten import flatten_graph
from graphviz_dash.analysis.nodes.conditional_runs import ConditionalRuns, find_conditional_runs
from graphviz_dash.analysis.nodes.measured_graph import (
    UNTRACED,
    MeasuredGraph,
    find_timing_replays,
    measure_graph,
)
from graphviz_dash.analysis.nodes.needless_edges import RedundantEdges, find_redundant_edges
from graphviz_dash.analysis.nodes.node_table import NodeRow, NodeTable
from graphviz_dash.analysis.nodes.while_loops import WhileLoops, find_while_loops
from graphviz_dash.analysis.replays.replays import ReplayMatch
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run


class Concurrency(Struct, frozen=True):
    """A measured graph and its redundant edges."""

    measured: MeasuredGraph
    redundant: RedundantEdges
    loops: WhileLoops | None = None
    """While nodes, which a trace shows in part. None without any."""
    conditionals: tuple[ConditionalRuns, ...] = ()
    """Runs of conditional nodes, including nested ones."""


def analyze_graph(
    run: Run, measured: MeasuredGraph, tables: Mapping[str, NodeTable], match: ReplayMatch | None
) -> Concurrency:
    """Find redundant edges and runs of conditional nodes.

    ``tables`` covers the graphs of the run by id; ``match`` has the measured replays.
    """
    graph = tables[measured.graph].graph
    return Concurrency(
        measured,
        _find_redundant(measured, tables),
        find_while_loops(run, graph),
        () if match is None else find_conditional_runs(run.graphs, graph, match),
    )


def _find_redundant(measured: MeasuredGraph, tables: Mapping[str, NodeTable]) -> RedundantEdges:
    rows = [
        tables[graph].rows[index] if graph in tables else None for graph, index in measured.nodes
    ]
    edges = np.array(
        [(edge.source, edge.target) for edge in measured.edges], dtype=np.int64
    ).reshape(-1, 2)
    by_id = {name: table.graph for name, table in tables.items()}
    flat = flatten_graph(by_id[measured.graph], by_id).graph if measured.graph in by_id else None
    if flat is not None:
        # Collectives access buffers and the memory of other ranks through addresses stored in
        # memory.
        nodes = tuple(
            msgspec.structs.replace(node, operands=None)
            if row is not None and row.category is Category.COMMUNICATION
            else node
            for node, row in zip(flat.nodes, rows, strict=True)
        )
        flat = msgspec.structs.replace(flat, nodes=nodes)
    origins = [None if row is None else row.origin for row in rows]
    return find_redundant_edges(edges, measured.p50, origins, flat)


def analyze_run(run: Run, tables: Sequence[NodeTable]) -> dict[str, Concurrency | Missing]:
    """Analyze each directly launched graph of ``run``, or explain why not.

    ``tables`` covers all graphs of the run.
    """
    replay_match = find_timing_replays(run)
    by_id = {table.graph.id: table for table in tables}
    by_graph: dict[str, Concurrency | Missing] = {}
    for graph in run.graphs:
        if graph.parent is None:
            graph_measured = measure_graph(graph, run.graphs, replay_match)
            by_graph[graph.id] = (
                graph_measured
                if isinstance(graph_measured, Missing)
                else analyze_graph(run, graph_measured, by_id, replay_match)
            )
    return by_graph


def get_p99_and_slack(
    concurrency: Concurrency | Missing | None, table: NodeTable, row: NodeRow
) -> tuple[int | None, int | None]:
    """Return p99 and slack of a node, in ns; None if not measured."""
    if concurrency is None or isinstance(concurrency, Missing):
        return None, None
    index = concurrency.measured.index_of.get((table.graph.id, row.node.index))
    if index is None or concurrency.measured.p50[index] == UNTRACED:
        return None, None
    return int(concurrency.measured.p99[index]), int(concurrency.measured.slack[index])
