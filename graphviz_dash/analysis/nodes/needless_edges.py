"""Redundant edges, which serialize independent work.

Nodes that share no memory need no order (:mod:`shared_memory`). The parts of a product's backward
(gradients of operands and bias) are independent, although they share the incoming gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.attribution.origins import NodeOrigin
from graphviz_dash.analysis.graph.critical_path import Dependencies, find_critical_path
from graphviz_dash.analysis.graph.memory_dependencies import (
    count_unknown_nodes,
    find_memory_edges,
    has_operands,
)
from graphviz_dash.analysis.graph.topology import find_visible_edges, list_chains
from graphviz_dash.model.graph import CapturedGraph, GraphEdge

_ENGINE: Final = "autograd::engine::evaluate_function: "
_PRODUCTS: Final = frozenset(
    {"AddmmBackward0", "MmBackward0", "BmmBackward0", "BaddbmmBackward0", "LinearBackward0"}
)
_PARTS: Final = frozenset({"aten::mm", "aten::bmm", "aten::sum"})


class IndependentParts(Struct, frozen=True):
    """Consecutive parts of one backward operator that are independent.

    ``parts`` has a tuple of node indices per part; ``operator`` and ``module`` apply to all parts.
    """

    operator: str
    module: str | None
    parts: tuple[tuple[int, ...], ...]


class RedundantEdges(Struct, frozen=True):
    """Redundant edges of a graph, as (source, target)."""

    groups: tuple[IndependentParts, ...]
    edges: tuple[tuple[int, int], ...]
    operator_only_count: int
    """Edges that only the meaning of operators shows to be redundant."""
    path_ns: int
    """Critical path without them, with the same durations, in ns."""
    unknown_nodes: int | None
    """Kernels, memcpys and memsets with unknown operands, which keep their order; None if no
    operands are known.
    """
    needed: tuple[tuple[int, int], ...]
    """Remaining dependencies; they imply all others."""


def find_redundant_edges(
    edges: Ints,
    duration: Ints,
    origins: Sequence[NodeOrigin | None],
    graph: CapturedGraph | None = None,
) -> RedundantEdges:
    """Find the redundant edges among ``edges`` (k, 2); near-linear.

    ``duration`` (nodes,) is in ns, -1 if not traced. ``graph`` uses the same indices.
    """
    count = len(duration)
    groups = tuple(
        group for chain in list_chains(_list_pairs(edges)) for group in _split_chain(chain, origins)
    )
    durations = np.maximum(duration, 0)
    if graph is not None and has_operands(graph):
        is_traced = duration >= 0
        needed_edges = _find_needed(graph, is_traced, groups)
        needed_by_memory = _find_needed(graph, is_traced, ()) if groups else needed_edges
        if needed_edges is not None and needed_by_memory is not None:
            redundant = _select_redundant(edges, needed_edges)
            path = find_critical_path(
                Dependencies.from_edges(count, needed_edges), durations
            ).length
            extra_count = len(redundant) - len(_select_redundant(edges, needed_by_memory))
            return RedundantEdges(
                groups,
                redundant,
                extra_count,
                path,
                count_unknown_nodes(graph),
                _list_pairs(needed_edges),
            )
    redundant, changed_edges = _separate_parts(edges, groups)
    path = find_critical_path(Dependencies.from_edges(count, changed_edges), durations).length
    return RedundantEdges(groups, redundant, len(redundant), path, None, _list_pairs(changed_edges))


def _list_pairs(edges: Ints) -> tuple[tuple[int, int], ...]:
    return tuple((source, target) for source, target in edges.tolist())


def _find_needed(
    graph: CapturedGraph, is_traced: npt.NDArray[np.bool_], groups: tuple[IndependentParts, ...]
) -> Ints | None:
    parts_by_node = {
        index: (number, part_index)
        for number, group in enumerate(groups)
        for part_index, part in enumerate(group.parts)
        for index in part
    }
    needed_edges = find_memory_edges(graph, parts_by_node)
    if needed_edges is None:
        return None
    edges = tuple(GraphEdge(source, target) for source, target in needed_edges.tolist())
    return find_visible_edges(msgspec.structs.replace(graph, edges=edges), is_traced)


def _select_redundant(edges: Ints, needed: Ints) -> tuple[tuple[int, int], ...]:
    needed_pairs = {(source, target) for source, target in needed.tolist()}
    return tuple((a, b) for a, b in edges.tolist() if (a, b) not in needed_pairs)


def _separate_parts(
    edges: Ints, groups: tuple[IndependentParts, ...]
) -> tuple[tuple[tuple[int, int], ...], Ints]:
    """Remove the edges between parts of a group, and connect the parts in parallel.

    Returns the removed and the remaining edges.
    """
    removed_edges: list[tuple[int, int]] = []
    added_edges: list[tuple[int, int]] = []
    predecessors: dict[int, list[int]] = {}
    successors: dict[int, list[int]] = {}
    for source, target in edges.tolist():
        predecessors.setdefault(target, []).append(source)
        successors.setdefault(source, []).append(target)
    for group in groups:
        heads = [part[0] for part in group.parts]
        tails = [part[-1] for part in group.parts]
        removed_edges += list(zip(tails[:-1], heads[1:], strict=True))
        added_edges += [
            (source, head) for source in predecessors.get(heads[0], ()) for head in heads[1:]
        ]
        added_edges += [
            (tail, target) for target in successors.get(tails[-1], ()) for tail in tails[:-1]
        ]
    remaining = {(a, b) for a, b in edges.tolist()} - set(removed_edges)
    return tuple(removed_edges), np.array(
        sorted(remaining | set(added_edges)), dtype=np.int64
    ).reshape(-1, 2)


def _split_chain(chain: list[int], origins: Sequence[NodeOrigin | None]) -> list[IndependentParts]:
    """Find ranges that are parts of one backward operator of a product."""
    ranges = []
    start = 0
    while start < len(chain):
        first = _parse_backward(origins[chain[start]])
        end = start + 1
        while (
            first is not None and end < len(chain) and _parse_backward(origins[chain[end]]) == first
        ):
            end += 1
        parts = (
            _split_parts([(index, origins[index]) for index in chain[start:end]]) if first else []
        )
        if first is not None and len(parts) > 1:
            ranges.append(IndependentParts(first[0], first[1], tuple(parts)))
        start = end
    return ranges


def _parse_backward(origin: NodeOrigin | None) -> tuple[str, str | None, str | None] | None:
    """Return operator, module and line of such a part; None for other work."""
    if origin is None or not origin.op_path or origin.op not in _PARTS:
        return None
    name = origin.op_path[0].removeprefix(_ENGINE)
    return (name, origin.module, origin.source) if name in _PRODUCTS else None


def _split_parts(run: list[tuple[int, NodeOrigin | None]]) -> list[tuple[int, ...]]:
    """Split where operator or input shapes change; a repeated part ends it."""
    parts: list[tuple[int, ...]] = []
    keys: list[tuple[str | None, str | None]] = []
    for index, origin in run:
        key = (origin.op, origin.input_dims) if origin is not None else (None, None)
        if keys and keys[-1] == key:
            parts[-1] = (*parts[-1], index)
        elif key in keys:
            return parts
        else:
            parts.append((index,))
            keys.append(key)
    return parts
