"""Planner input for a captured graph: duration, GPU share and dependencies of its work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import prod

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.graph.critical_path import Dependencies
from graphviz_dash.analysis.nodes.concurrency import Concurrency
from graphviz_dash.analysis.nodes.measured_graph import UNTRACED, MeasuredGraph
from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.model.gpu import Gpu
from graphviz_dash.model.graph import KernelParams, MemcpyParams, MemsetParams
from graphviz_dash.model.parallel import Operator, ParallelPlan
from graphviz_dash.planning.operations import Operation
from graphviz_dash.planning.operators import find_dependencies
from graphviz_dash.planning.share import KernelLaunch, estimate_lasting_share


class NeedSource(StrEnum):
    """Source of the dependencies."""

    OPERATORS = "operators"
    """Observed reads and writes of each operator: the true data flow."""
    MEMORY = "memory"
    """Memory that nodes can reach.

    Independent nodes are truly independent, but some dependencies may be false: tensors reuse
    memory, and reads cannot be distinguished from writes.
    """
    MEANING = "meaning"
    """Captured edges, except those that operator semantics show to be redundant."""


class GraphWork(Struct, frozen=True):
    """The operations of a graph, in program order."""

    operations: tuple[Operation, ...]
    """Each depends only on earlier ones."""
    nodes: tuple[tuple[int, ...], ...]
    """By operation, as indices in the measured graph."""
    captured: tuple[tuple[int, ...], ...]
    """Earlier operations that each one waits for in the captured graph."""
    source: NeedSource


def build_graph_work(
    concurrency: Concurrency,
    tables: Mapping[str, NodeTable],
    gpu: Gpu,
) -> GraphWork:
    """Build the work of a measured graph, with one operation per traced node.

    ``tables`` maps graph ids to node tables. Near-linear in nodes and dependencies.
    """
    measured, needless = concurrency.measured, concurrency.redundant
    needed = np.array(needless.needed, dtype=np.int64).reshape(-1, 2)
    captured = np.array(
        [(edge.source, edge.target) for edge in measured.edges], dtype=np.int64
    ).reshape(-1, 2)
    order = Dependencies.from_edges(len(measured.nodes), np.concatenate((needed, captured))).order
    nodes = [node for node in order if measured.p50[node] != UNTRACED]
    number = {node: index for index, node in enumerate(nodes)}
    needs, waits = (
        _group_predecessors(needed.tolist(), number),
        _group_predecessors(captured.tolist(), number),
    )
    operations = []
    for index, node in enumerate(nodes):
        graph, position = measured.nodes[node]
        duration = float(measured.p50[node])
        share, engine = compute_node_share(tables.get(graph), position, duration, gpu)
        operations.append(Operation(duration, share, tuple(needs[index]), engine=engine))
    return GraphWork(
        tuple(operations),
        tuple((node,) for node in nodes),
        tuple(map(tuple, waits)),
        NeedSource.MEANING if needless.unknown_nodes is None else NeedSource.MEMORY,
    )


def build_operator_work(
    operators: Sequence[Operator],
    measured: MeasuredGraph,
    tables: Mapping[str, NodeTable],
    gpu: Gpu,
) -> GraphWork | None:
    """Build the work from the data dependencies of the step's ``operators``.

    None if their nodes do not match the graph. The nodes of an operator run in sequence; the first
    waits for all its dependencies.
    """
    if sum(operator.nodes for operator in operators) != len(measured.nodes):
        return None
    last: dict[int, int] = {}
    operations: list[Operation] = []
    nodes: list[tuple[int, ...]] = []
    node = 0
    for index, needs in enumerate(find_dependencies(operators)):
        after = sorted({last[need.source] for need in needs if need.source in last})
        for node_index in range(node, node + operators[index].nodes):
            if measured.p50[node_index] == UNTRACED:
                continue
            graph, position = measured.nodes[node_index]
            duration = float(measured.p50[node_index])
            share, engine = compute_node_share(tables.get(graph), position, duration, gpu)
            operations.append(Operation(duration, share, tuple(after), engine=engine))
            nodes.append((node_index,))
            last[index] = len(operations) - 1
            after = [last[index]]
        node += operators[index].nodes
    number = {group[0]: index for index, group in enumerate(nodes)}
    captured = _group_predecessors([(edge.source, edge.target) for edge in measured.edges], number)
    waits = tuple(map(tuple, captured))
    return GraphWork(tuple(operations), tuple(nodes), waits, NeedSource.OPERATORS)


def get_issued_streams(plan: ParallelPlan) -> tuple[int, ...]:
    """Return the issuing stream of each node."""
    return tuple(
        stream
        for operator, stream in zip(plan.operators, plan.streams, strict=True)
        for _ in range(operator.nodes)
    )


def compute_node_share(
    table: NodeTable | None, position: int, duration_ns: float, gpu: Gpu
) -> tuple[float, int]:
    """Return the share of its engine that a node needs, and the engine.

    A kernel with an unknown launch needs all of it; copies within the device and sets need nothing.
    """
    rows = () if table is None else table.rows
    match rows[position].node.params if rows else None:
        case KernelParams(grid=tuple(grid), block=tuple(block)) as kernel:
            launch = KernelLaunch(
                kernel.demangled,
                prod(grid),
                prod(block),
                kernel.registers or 0,
                (kernel.dynamic_shared or 0) + (kernel.static_shared or 0),
            )
            share = estimate_lasting_share(
                launch,
                duration_ns,
                gpu.multiprocessors,
                gpu.compute_capability,
                after_memset=position > 0
                and isinstance(rows[position - 1].node.params, MemsetParams),
            )
            return share, 0
        case KernelParams() | None:
            return 1.0, 0
        case MemcpyParams(direction="HtoD"):
            return 1.0, 1
        case MemcpyParams(direction="DtoH"):
            return 1.0, 2
        case _:
            return 0.0, 0


def _group_predecessors(
    pairs: Sequence[Sequence[int]], number: Mapping[int, int]
) -> list[list[int]]:
    predecessors: list[list[int]] = [[] for _ in number]
    for source, target in pairs:
        if source in number and target in number:
            predecessors[number[target]].append(number[source])
    return [sorted(set(sources)) for sources in predecessors]
