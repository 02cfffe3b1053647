"""Reasons for dependencies between nodes of a captured graph: shared tensors or memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from graphviz_dash.analysis.nodes.measured_graph import MeasuredGraph
from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.features.prediction.analysis.data_graph import reduce_dependencies
from graphviz_dash.features.prediction.analysis.work import GraphWork, NeedSource
from graphviz_dash.model.graph import Operand
from graphviz_dash.model.parallel import ParallelPlan, Storage
from graphviz_dash.planning.operators import DependencyKind, find_dependencies


class NodeNeed(Struct, frozen=True):
    """A dependency on another node."""

    source: int
    """Required node in the measured graph."""
    need: DependencyKind | None
    """None if inferred from shared memory or within one operator."""
    storage: Storage | None
    """The shared tensor's memory; None if unknown."""
    shared_bytes: int | None
    """Memory that both nodes can reach; None if unknown."""


def find_node_needs(
    work: GraphWork,
    measured: MeasuredGraph,
    tables: Mapping[str, NodeTable],
    plan: ParallelPlan | None,
) -> dict[int, tuple[NodeNeed, ...]]:
    """Return the direct dependencies of each node.

    ``plan`` provides the operators if they are the source of the dependencies.
    """
    nodes = [group[0] for group in work.nodes]
    observed = _index_observed_needs(plan) if plan and work.source is NeedSource.OPERATORS else {}
    needs: dict[int, list[NodeNeed]] = {node: [] for node in nodes}
    for source, target in reduce_dependencies(
        [operation.dependencies for operation in work.operations]
    ):
        pair = nodes[source], nodes[target]
        need, storage = observed.get(pair, (None, None))
        in_common = None if observed else _count_shared_bytes(measured, tables, *pair)
        needs[pair[1]].append(NodeNeed(pair[0], need, storage, in_common))
    return {node: tuple(dependencies_of_node) for node, dependencies_of_node in needs.items()}


def _index_observed_needs(
    plan: ParallelPlan,
) -> dict[tuple[int, int], tuple[DependencyKind, Storage | None]]:
    """Index needs by the last node of the required operator and the first of the dependent one."""
    first, node = [], 0
    for operator in plan.operators:
        first.append(node)
        node += operator.nodes
    return {
        (first[need.source] + plan.operators[need.source].nodes - 1, first[index]): (
            need.kind,
            None if need.storage is None else plan.storages[need.storage],
        )
        for index, needs in enumerate(find_dependencies(plan.operators))
        for need in needs
    }


def _count_shared_bytes(
    measured: MeasuredGraph, tables: Mapping[str, NodeTable], source: int, target: int
) -> int | None:
    """Count the shared bytes; None if unknown for either node."""
    reached = []
    for node in (source, target):
        graph, index = measured.nodes[node]
        operands = tables[graph].rows[index].node.operands if graph in tables else None
        if operands is None:
            return None
        reached.append(operands)
    return _compute_overlap(*reached)


def _compute_overlap(first: Sequence[Operand], second: Sequence[Operand]) -> int:
    return sum(
        max(min(a.offset + a.bytes, b.offset + b.bytes) - max(a.offset, b.offset), 0)
        for a in first
        for b in second
        if a.allocation == b.allocation
    )
