"""Edges that serialise work without need, as far as that can be told.

A graph captured from one stream is a line: every launch depends on the one before, whether it needs
its result or not. Two things tell of edges that are without need. The memory that nodes can reach,
where the bundle has it: nodes that share none need no order (:mod:`shared_memory`). And the meaning
of operators: the parts of a backward of a product (the gradients of its operands, and of its bias)
each need the incoming gradient only, and none needs another, though all reach that gradient.
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
from graphviz_dash.analysis.graph.critical_path import Dependencies, critical_path
from graphviz_dash.analysis.graph.memory_dependencies import (
    knows_memory,
    memory_edges,
    unknown_nodes,
)
from graphviz_dash.analysis.graph.topology import visible_edges
from graphviz_dash.model.graph import CapturedGraph, GraphEdge

_ENGINE: Final = "autograd::engine::evaluate_function: "
_PRODUCTS: Final = frozenset(
    {"AddmmBackward0", "MmBackward0", "BmmBackward0", "BaddbmmBackward0", "LinearBackward0"}
)
_PARTS: Final = frozenset({"aten::mm", "aten::bmm", "aten::sum"})


class IndependentParts(Struct, frozen=True):
    """Parts of one backward operator that follow each other and need not: tuples of places, a
    tuple for each part; ``operator`` and ``module`` are theirs."""

    operator: str
    module: str | None
    parts: tuple[tuple[int, ...], ...]


class NeedlessEdges(Struct, frozen=True):
    """What is known of a graph's needless edges."""

    groups: tuple[IndependentParts, ...]
    """Parts of backward operators that follow each other and need not."""
    edges: tuple[tuple[int, int], ...]
    """The needless edges, source and target."""
    by_meaning: int
    """How many of the edges the meaning of operators alone shows to be needless."""
    path_ns: int
    """The critical path without the edges, with the same durations, in ns."""
    unknown: int | None
    """Kernels, memcpys and memsets that do not tell what memory they reach, and so keep their order
    to all others; None where memory says nothing at all."""
    needed: tuple[tuple[int, int], ...]
    """The dependencies that are left, source and target: enough of them to imply all."""


def needless_edges(
    edges: Ints,
    duration: Ints,
    origins: Sequence[NodeOrigin | None],
    graph: CapturedGraph | None = None,
) -> NeedlessEdges:
    """The needless among ``edges`` (k, 2) between places that a trace shows, with ``duration``
    (places,) in ns, -1 for what it does not show, and the origin of each place (None: not told).
    Of ``graph``, whose nodes are the places, the operands are used. Near-linear in all of it."""
    count = len(duration)
    groups = tuple(_groups(_only_followers(edges, count), origins))
    took = np.maximum(duration, 0)
    if graph is not None and knows_memory(graph):
        shown = duration >= 0
        needed = _needed(graph, shown, groups)
        alone = _needed(graph, shown, ()) if groups else needed
        if needed is not None and alone is not None:
            gone = _lacking(edges, needed)
            path = critical_path(Dependencies.of(count, needed), took).length
            more = len(gone) - len(_lacking(edges, alone))
            return NeedlessEdges(groups, gone, more, path, unknown_nodes(graph), _pairs(needed))
    gone, changed = _with_parts_apart(edges, groups)
    path = critical_path(Dependencies.of(count, changed), took).length
    return NeedlessEdges(groups, gone, len(gone), path, None, _pairs(changed))


def _pairs(edges: Ints) -> tuple[tuple[int, int], ...]:
    return tuple((source, target) for source, target in edges.tolist())


def _needed(
    graph: CapturedGraph, shown: npt.NDArray[np.bool_], groups: tuple[IndependentParts, ...]
) -> Ints | None:
    """What memory says that the shown nodes need of each other, through those that are not."""
    apart = {
        index: (number, which)
        for number, group in enumerate(groups)
        for which, part in enumerate(group.parts)
        for index in part
    }
    needed = memory_edges(graph, apart)
    if needed is None:
        return None
    edges = tuple(GraphEdge(source, target) for source, target in needed.tolist())
    return visible_edges(msgspec.structs.replace(graph, edges=edges), shown)


def _lacking(edges: Ints, needed: Ints) -> tuple[tuple[int, int], ...]:
    """Those of ``edges`` that are not among ``needed``."""
    kept = {(source, target) for source, target in needed.tolist()}
    return tuple((a, b) for a, b in edges.tolist() if (a, b) not in kept)


def _with_parts_apart(
    edges: Ints, groups: tuple[IndependentParts, ...]
) -> tuple[tuple[tuple[int, int], ...], Ints]:
    """The edges between the parts of a group, and all edges with the parts beside each other."""
    gone: list[tuple[int, int]] = []
    added: list[tuple[int, int]] = []
    before: dict[int, list[int]] = {}
    after: dict[int, list[int]] = {}
    for source, target in edges.tolist():
        before.setdefault(target, []).append(source)
        after.setdefault(source, []).append(target)
    for group in groups:
        heads = [part[0] for part in group.parts]
        tails = [part[-1] for part in group.parts]
        gone += list(zip(tails[:-1], heads[1:], strict=True))
        added += [(source, head) for source in before.get(heads[0], ()) for head in heads[1:]]
        added += [(tail, target) for target in after.get(tails[-1], ()) for tail in tails[:-1]]
    kept = {(a, b) for a, b in edges.tolist()} - set(gone)
    return tuple(gone), np.array(sorted(kept | set(added)), dtype=np.int64).reshape(-1, 2)


def _only_followers(edges: Ints, count: int) -> dict[int, int]:
    """For each place with one successor, of which it is the one predecessor: that successor."""
    outgoing = np.bincount(edges[:, 0], minlength=count)
    incoming = np.bincount(edges[:, 1], minlength=count)
    return {a: b for a, b in edges.tolist() if outgoing[a] == 1 and incoming[b] == 1}


def _groups(
    following: dict[int, int], origins: Sequence[NodeOrigin | None]
) -> list[IndependentParts]:
    groups: list[IndependentParts] = []
    later = set(following.values())
    for head in range(len(origins)):
        if head in later:
            continue
        chain = [head]
        while chain[-1] in following:
            chain.append(following[chain[-1]])
        groups += _of_chain(chain, origins)
    return groups


def _of_chain(chain: list[int], origins: Sequence[NodeOrigin | None]) -> list[IndependentParts]:
    """Stretches of a chain that are the parts of one backward operator of a product."""
    stretches = []
    begin = 0
    while begin < len(chain):
        first = _backward(origins[chain[begin]])
        end = begin + 1
        while first is not None and end < len(chain) and _backward(origins[chain[end]]) == first:
            end += 1
        parts = _parts([(index, origins[index]) for index in chain[begin:end]]) if first else []
        if first is not None and len(parts) > 1:
            stretches.append(IndependentParts(first[0], first[1], tuple(parts)))
        begin = end
    return stretches


def _backward(origin: NodeOrigin | None) -> tuple[str, str | None, str | None] | None:
    """Operator, module and line of a part of a product's backward; None for other work."""
    if origin is None or not origin.op_path or origin.op not in _PARTS:
        return None
    name = origin.op_path[0].removeprefix(_ENGINE)
    return (name, origin.module, origin.source) if name in _PRODUCTS else None


def _parts(run: list[tuple[int, NodeOrigin | None]]) -> list[tuple[int, ...]]:
    """The run cut where operator or input shapes change. Two products of equal shapes cannot be
    told from two kernels of one, and stay together; a part that shows twice belongs to a second
    backward operator, and ends the first."""
    parts: list[tuple[int, ...]] = []
    seen: list[tuple[str | None, str | None]] = []
    for index, origin in run:
        key = (origin.op, origin.input_dims) if origin is not None else (None, None)
        if seen and seen[-1] == key:
            parts[-1] = (*parts[-1], index)
        elif key in seen:
            return parts
        else:
            parts.append((index,))
            seen.append(key)
    return parts
