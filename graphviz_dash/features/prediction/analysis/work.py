"""The work of a captured graph as a planner takes it: how long, how much of the GPU, after what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import prod

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.graph.critical_path import Dependencies
from graphviz_dash.analysis.nodes.concurrency import Concurrency
from graphviz_dash.analysis.nodes.measured_graph import NOT_SEEN, MeasuredGraph
from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.model.graph import KernelParams, MemcpyParams, MemsetParams
from graphviz_dash.model.parallel import Operator, ParallelPlan
from graphviz_dash.model.run import Gpu
from graphviz_dash.planning.operations import Operation
from graphviz_dash.planning.operators import dependencies
from graphviz_dash.planning.share import KernelLaunch, lasting_share


class NeedSource(StrEnum):
    """What tells which work needs which."""

    OPERATORS = "operators"
    """What each operator was seen to read and write: the true data flow."""
    MEMORY = "memory"
    """The memory that nodes can reach: what is found without need is so, what is kept may be too,
    since memory serves one tensor after another and reading is not told from writing."""
    MEANING = "meaning"
    """The edges as captured, but for those that the meaning of operators shows to be needless."""


class GraphWork(Struct, frozen=True):
    """What a graph does, by operations in the order of the program."""

    operations: tuple[Operation, ...]
    """Each needs only those before it."""
    nodes: tuple[tuple[int, ...], ...]
    """For each operation its nodes, by their indices in the measured graph."""
    captured: tuple[tuple[int, ...], ...]
    """For each operation those before it that the graph has it wait for."""
    source: NeedSource
    """What tells the needs."""


def graph_work(
    concurrency: Concurrency,
    tables: Mapping[str, NodeTable],
    gpu: Gpu,
) -> GraphWork:
    """The work of a measured graph, an operation for each node that its trace shows; ``tables`` are
    those of its run's graphs by id. Near-linear in nodes and needs."""
    measured, needless = concurrency.measured, concurrency.needless
    needed = np.array(needless.needed, dtype=np.int64).reshape(-1, 2)
    captured = np.array(
        [(edge.source, edge.target) for edge in measured.edges], dtype=np.int64
    ).reshape(-1, 2)
    order = Dependencies.of(len(measured.nodes), np.concatenate((needed, captured))).order
    shown = [node for node in order if measured.p50[node] != NOT_SEEN]
    number = {node: index for index, node in enumerate(shown)}
    needs, waits = _before(needed.tolist(), number), _before(captured.tolist(), number)
    operations = []
    for index, node in enumerate(shown):
        graph, at = measured.nodes[node]
        duration = float(measured.p50[node])
        share, engine = node_share(tables.get(graph), at, duration, gpu)
        operations.append(Operation(duration, share, tuple(needs[index]), engine=engine))
    return GraphWork(
        tuple(operations),
        tuple((node,) for node in shown),
        tuple(map(tuple, waits)),
        NeedSource.MEANING if needless.unknown is None else NeedSource.MEMORY,
    )


def operator_work(
    operators: Sequence[Operator],
    measured: MeasuredGraph,
    tables: Mapping[str, NodeTable],
    gpu: Gpu,
) -> GraphWork | None:
    """The work of a measured graph by what its step's ``operators`` need of each other; None where
    their nodes are not those of the graph. The nodes of an operator follow one another, and the
    first comes after all that the operator needs."""
    if sum(operator.nodes for operator in operators) != len(measured.nodes):
        return None
    last: dict[int, int] = {}
    operations: list[Operation] = []
    nodes: list[tuple[int, ...]] = []
    node = 0
    for index, needs in enumerate(dependencies(operators)):
        after = sorted({last[need.source] for need in needs if need.source in last})
        for each in range(node, node + operators[index].nodes):
            if measured.p50[each] == NOT_SEEN:
                continue
            graph, at = measured.nodes[each]
            duration = float(measured.p50[each])
            share, engine = node_share(tables.get(graph), at, duration, gpu)
            operations.append(Operation(duration, share, tuple(after), engine=engine))
            nodes.append((each,))
            last[index] = len(operations) - 1
            after = [last[index]]
        node += operators[index].nodes
    number = {group[0]: index for index, group in enumerate(nodes)}
    captured = _before([(edge.source, edge.target) for edge in measured.edges], number)
    waits = tuple(map(tuple, captured))
    return GraphWork(tuple(operations), tuple(nodes), waits, NeedSource.OPERATORS)


def issued_streams(plan: ParallelPlan) -> tuple[int, ...]:
    """For each node of the graph that was captured by ``plan`` the stream that issued it."""
    return tuple(
        stream
        for operator, stream in zip(plan.operators, plan.stream, strict=True)
        for _ in range(operator.nodes)
    )


def node_share(table: NodeTable | None, at: int, duration_ns: float, gpu: Gpu) -> tuple[float, int]:
    """The share that node ``at`` of a graph asks for of its engine, and which one that is. A kernel
    whose launch is not known asks for all; copies within the device and sets for nothing."""
    rows = () if table is None else table.rows
    match rows[at].node.params if rows else None:
        case KernelParams(grid=tuple(grid), block=tuple(block)) as kernel:
            launch = KernelLaunch(
                kernel.demangled,
                prod(grid),
                prod(block),
                kernel.registers or 0,
                (kernel.dynamic_shared or 0) + (kernel.static_shared or 0),
            )
            share = lasting_share(
                launch,
                duration_ns,
                gpu.multiprocessors,
                gpu.compute_capability,
                behind_set=at > 0 and isinstance(rows[at - 1].node.params, MemsetParams),
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


def _before(pairs: Sequence[Sequence[int]], number: Mapping[int, int]) -> list[list[int]]:
    before: list[list[int]] = [[] for _ in number]
    for source, target in pairs:
        if source in number and target in number:
            before[number[target]].append(number[source])
    return [sorted(set(sources)) for sources in before]
