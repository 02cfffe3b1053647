"""Prediction of ``cudaGraphExecUpdate``: can a second graph update an executable of the first?

Rules: CUDA Runtime API, cudaGraphExecUpdate, and CUDA Programming Guide, "Updating Instantiated
Graphs". Where they are silent (order of checks, memcpys, memsets), driver 580's recorded results
apply.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct

from graphviz_dash.features.graph.diff.graph_diff import Graphs
from graphviz_dash.model.graph import (
    BatchMemOpParams,
    CapturedGraph,
    ConditionalParams,
    EdgeType,
    GraphNode,
    KernelParams,
    MemcpyParams,
    MemsetParams,
    SemaphoreParams,
)
from graphviz_dash.units import format_count, pluralize


class UpdateResult(StrEnum):
    """CUgraphExecUpdateResult without its prefix."""

    SUCCESS = "SUCCESS"
    ERROR = "ERROR"
    TOPOLOGY_CHANGED = "ERROR_TOPOLOGY_CHANGED"
    NODE_TYPE_CHANGED = "ERROR_NODE_TYPE_CHANGED"
    FUNCTION_CHANGED = "ERROR_FUNCTION_CHANGED"
    PARAMETERS_CHANGED = "ERROR_PARAMETERS_CHANGED"
    NOT_SUPPORTED = "ERROR_NOT_SUPPORTED"
    UNSUPPORTED_FUNCTION_CHANGE = "ERROR_UNSUPPORTED_FUNCTION_CHANGE"
    ATTRIBUTES_CHANGED = "ERROR_ATTRIBUTES_CHANGED"


DEPENDENCY_ORDER: Final = "cuGraphNodeGetDependencies"
"""Entry in ``read_by`` of a graph whose edges have the order of each node's dependencies."""

_PARAMETERS: Final = UpdateResult.PARAMETERS_CHANGED


class UpdateViolation(Struct, frozen=True):
    """Reason for refusing an update."""

    result: UpdateResult
    reason: str
    graph: str
    """Id of the second graph or of one of its bodies."""
    node: int | None = None
    """Offending node; None if no single node is responsible."""
    from_node: int | None = None
    """Dependency that does not match; None for other reasons."""


class UpdatePrediction(Struct, frozen=True):
    """Predicted result of the driver.

    ``violation`` is None if the update is accepted. ``unknown`` lists possible unrecorded
    violations; empty with a violation.
    """

    violation: UpdateViolation | None
    unknown: tuple[str, ...] = ()

    @property
    def is_accepted(self) -> bool | None:
        """True if the update would be accepted; None if unknown."""
        if self.violation is not None:
            return False
        return None if self.unknown else True


def predict_update(a: Sequence[CapturedGraph], b: Sequence[CapturedGraph]) -> UpdatePrediction:
    """Predict whether an executable of ``a[0]`` can be updated to ``b[0]``; the others are bodies.

    Assumes host launches and an instantiation without flags.
    """
    graphs_of_a, graphs_of_b = {graph.id: graph for graph in a}, {graph.id: graph for graph in b}
    unknown: dict[str, None] = {}
    violation = _find_violation(a[0], b[0], graphs_of_a, graphs_of_b, unknown)
    return UpdatePrediction(violation, () if violation else tuple(unknown))


def _find_violation(
    a: CapturedGraph,
    b: CapturedGraph,
    bodies_a: Graphs,
    bodies_b: Graphs,
    unknown: dict[str, None],
) -> UpdateViolation | None:
    sinks = _pair_sinks(a, b)
    if isinstance(sinks, UpdateViolation):
        return sinks
    before_a, before_b = _list_dependencies(a), _list_dependencies(b)
    _check_dependency_order(a, b, before_b, unknown)
    partner = dict(sinks)
    owner = {y: x for x, y in sinks}
    queue = deque(sinks)
    while queue:
        x, y = queue.popleft()
        dependencies_a, dependencies_b = before_a[x], before_b[y]
        if len(dependencies_a) != len(dependencies_b):
            nodes = pluralize(len(dependencies_b), "node")
            counts = f"it depends on {nodes} instead of {format_count(len(dependencies_a))}"
            return UpdateViolation(UpdateResult.TOPOLOGY_CHANGED, counts, b.id, y)
        refusal = _check_node(a.nodes[x], b.nodes[y], b.id, unknown)
        if refusal is not None:
            return UpdateViolation(refusal[0], refusal[1], b.id, y)
        for first, second in zip(a.nodes[x].bodies, b.nodes[y].bodies, strict=False):
            if first not in bodies_a or second not in bodies_b:
                unknown[f"the body of node {y} of {b.id} is not in the bundle"] = None
                continue
            body_violation = _find_violation(
                bodies_a[first], bodies_b[second], bodies_a, bodies_b, unknown
            )
            if body_violation is not None:
                return body_violation
        for (p, data_p), (q, data_q) in zip(dependencies_a, dependencies_b, strict=True):
            if partner.get(p, q) != q or owner.get(q, p) != p:
                reason = f"it depends on node {q}, but node {x} of {a.id} on another"
            elif data_p != data_q:
                reason = f"its dependency on node {q} has another type or port"
            else:
                if p not in partner:
                    partner[p], owner[q] = q, p
                    queue.append((p, q))
                continue
            return UpdateViolation(UpdateResult.TOPOLOGY_CHANGED, reason, b.id, y, q)
    return None


# -- topology ------------------------------------------------------------------------------------


def _pair_sinks(a: CapturedGraph, b: CapturedGraph) -> list[tuple[int, int]] | UpdateViolation:
    changed = UpdateResult.TOPOLOGY_CHANGED
    if len(a.nodes) != len(b.nodes):
        counts = f"{pluralize(len(b.nodes), 'node')} instead of {format_count(len(a.nodes))}"
        return UpdateViolation(changed, counts, b.id)
    pair = []
    for graph in (a, b):
        sources = {edge.source for edge in graph.edges}
        pair.append([n.index for n in reversed(graph.nodes) if n.index not in sources])
    first, second = pair
    if len(first) == len(second):
        return list(zip(first, second, strict=True))
    counts = f"{pluralize(len(second), 'sink')} instead of {format_count(len(first))}"
    # With too many sinks the driver names the first without a partner, with too few none.
    return UpdateViolation(
        changed, counts, b.id, second[len(first)] if len(second) > len(first) else None
    )


def _list_dependencies(graph: CapturedGraph) -> list[list[tuple[int, tuple[int, int, EdgeType]]]]:
    dependencies: list[list[tuple[int, tuple[int, int, EdgeType]]]] = [[] for _ in graph.nodes]
    for edge in graph.edges:
        dependencies[edge.target].append((edge.source, (edge.from_port, edge.to_port, edge.type)))
    return dependencies


def _check_dependency_order(
    a: CapturedGraph, b: CapturedGraph, before: Sequence[Sequence[object]], unknown: dict[str, None]
) -> None:
    if any(len(sources) > 1 for sources in before):
        for graph in (a, b):
            if DEPENDENCY_ORDER not in graph.source_api:
                text = f"the order of each node's dependencies was not read for {graph.id}"
                unknown[text] = None


# -- nodes ---------------------------------------------------------------------------------------


_Refusal: TypeAlias = tuple[UpdateResult, str]


def _check_node(
    before: GraphNode, after: GraphNode, graph: str, unknown: dict[str, None]
) -> _Refusal | None:
    if before.kind is not after.kind:
        text = f"a {after.kind.value} node replaces a {before.kind.value} node"
        return UpdateResult.NODE_TYPE_CHANGED, text
    location = f"node {after.index} of {graph}"
    match before.params, after.params:
        case KernelParams() as first, KernelParams() as second:
            return _check_kernel(first, second, location, unknown)
        case MemcpyParams() as first, MemcpyParams() as second:
            return _check_memcpy(first, second, location, unknown)
        case MemsetParams() as first, MemsetParams() as second:
            return _check_memset(first, second)
        case ConditionalParams() as first, ConditionalParams() as second:
            return _check_conditional(first, second, location, unknown)
        case _:
            return _check_other(before, after)


def _check_other(before: GraphNode, after: GraphNode) -> _Refusal | None:
    match before.params, after.params:
        case SemaphoreParams() as first, SemaphoreParams() as second:
            if len(first.semaphores) != len(second.semaphores):
                return _PARAMETERS, "the number of semaphores may not change"
        case BatchMemOpParams() as first, BatchMemOpParams() as second:
            if first.operations != second.operations:
                return _PARAMETERS, "the kinds of memory operations may not change"
    return None


def _check_conditional(
    before: ConditionalParams, after: ConditionalParams, location: str, unknown: dict[str, None]
) -> _Refusal | None:
    if None in (before.type, before.size, after.type, after.size):
        unknown[f"the kind of conditional of {location} was not read"] = None
        return None
    if before == after:
        return None
    text = "the type and the number of bodies of a conditional may not change"
    return UpdateResult.NOT_SUPPORTED, text


def _check_kernel(
    before: KernelParams, after: KernelParams, location: str, unknown: dict[str, None]
) -> _Refusal | None:
    if before.cooperative is None or after.cooperative is None:
        unknown[f"whether the kernel of {location} is launched cooperatively was not read"] = None
    elif before.cooperative != after.cooperative:
        words = "becomes cooperative" if after.cooperative else "is no longer cooperative"
        return UpdateResult.ATTRIBUTES_CHANGED, f"the launch {words}"
    if (
        before.name == after.name
        or before.dynamic_parallelism
        or after.dynamic_parallelism is False
    ):
        return None
    if after.dynamic_parallelism is None or before.dynamic_parallelism is None:
        unknown[f"whether the kernel of {location} launches kernels was not read"] = None
        return None
    text = "the new kernel launches kernels, the old one does not"
    return UpdateResult.UNSUPPORTED_FUNCTION_CHANGE, text


def _check_memcpy(
    before: MemcpyParams, after: MemcpyParams, location: str, unknown: dict[str, None]
) -> _Refusal | None:
    if (before.source, before.target) != (after.source, after.target):
        text = (
            f"the memory types are {after.source} to {after.target} instead of "
            f"{before.source} to {before.target}"
        )
        return _PARAMETERS, text
    if all(copy.height <= 1 and copy.depth <= 1 for copy in (before, after)):
        return None
    shape = (before.width, before.height, before.depth)
    if shape != (after.width, after.height, after.depth):
        return _PARAMETERS, "a copy of several rows may not change, and its size changed"
    text = (
        f"the copy of {location} has several rows and may not change, and bundles contain no "
        "addresses"
    )
    unknown[text] = None
    return None


def _check_memset(before: MemsetParams, after: MemsetParams) -> _Refusal | None:
    if (before.height or 1) <= 1 and (after.height or 1) <= 1:
        return None
    shape = (before.width, before.height, before.element_bytes)
    if shape == (after.width, after.height, after.element_bytes):
        return None
    return _PARAMETERS, "only address and value of a memset of several rows may change"
