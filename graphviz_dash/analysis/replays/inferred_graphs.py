"""Graphs inferred from traces alone: the launches of each capture, in order.

The trace of a capture shows every launch inside it, and each created one node. The kernel comes
from the launch itself (ROCm) or from the replays: a capture and the replays of its graph have the
same kernels, memcpys and memsets in the same order. Neither shows dependencies. They are reliable
only if every replay runs on one stream: each node then waits for the previous one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, get_column
from graphviz_dash.analysis.attribution.attribution import (
    find_capture_windows,
    find_launch_rows,
)
from graphviz_dash.analysis.replays.replays import group_launched_rows
from graphviz_dash.analysis.sequence_alignment import align
from graphviz_dash.analysis.trace.signatures import get_driver_kind
from graphviz_dash.model.graph import (
    CapturedGraph,
    GraphEdge,
    GraphNode,
    KernelParams,
    MemcpyParams,
    MemsetParams,
    NodeKind,
)
from graphviz_dash.model.trace import Trace

BY_ARGUMENTS: Final = "launches in the trace of the capture, in order, with their arguments"
BY_REPLAYS: Final = "launches in the trace of the capture, in order; kernels from the replays"

_SHOWN: Final = (NodeKind.KERNEL, NodeKind.MEMCPY, NodeKind.MEMSET)
_KIND_OF: Final = {kind.value.lower(): kind for kind in _SHOWN}


class InferredGraphs(Struct, frozen=True):
    """Inferred ``graphs`` in capture order.

    ``missing`` explains in a sentence each why captures have no graph.
    """

    graphs: tuple[CapturedGraph, ...]
    missing: tuple[str, ...]


def find_captured_launches(capture: Trace) -> list[tuple[Ints, list[NodeKind]]]:
    """Return the node-creating runtime rows of each captured graph by time, and the node kinds."""
    rows, kinds = find_launch_rows(capture)
    times = get_column(capture.runtime, "ts")[rows]
    launches = []
    for begin, end in find_capture_windows("", capture):
        first, last = np.searchsorted(times, [begin, end])
        launches.append((rows[first:last], kinds[first:last]))
    return launches


def infer_graphs(
    capture: Trace, replay: Trace, kernels: Mapping[int, KernelParams]
) -> InferredGraphs:
    """Infer the graph of each capture in ``capture`` with replays in ``replay``.

    ``kernels`` maps rows of the capture's runtime table to launched kernels.
    """
    windows = find_captured_launches(capture)
    replays = _Replays(replay)
    if not windows:
        return InferredGraphs((), ("the trace of the capture shows no capture",))
    if not replays.shapes:
        return InferredGraphs((), ("the trace of the replays shows no replay with GPU work",))
    if replays.streams > 1:
        reason = (
            f"replays run on up to {replays.streams} streams, and traces do not show dependencies "
            "between their kernels; the driver's debug DOT does"
        )
        return InferredGraphs((), (reason,))
    candidates = _match_captures(windows, replays)
    graphs: list[CapturedGraph] = []
    missing: list[str] = []
    for number, (rows, kinds) in enumerate(windows):
        shape = candidates[number]
        named_kernels = [kernels.get(row) for row in rows.tolist()]
        all_named = all(
            kernel or kind is not NodeKind.KERNEL
            for kernel, kind in zip(named_kernels, kinds, strict=True)
        )
        if not len(rows):
            missing.append(f"capture {number} shows no launch")
        elif shape is None and not (all_named and _has_replay(kinds, named_kernels, replays)):
            missing.append(
                f"the {len(rows):,} launches of capture {number} match no replay, or match several "
                "that differ"
            )
        else:
            method = BY_ARGUMENTS if all_named else BY_REPLAYS
            captured_nodes = iter(replays.get_nodes(shape)) if shape is not None else iter(())
            nodes = tuple(
                _build_node(
                    index, kind, kernel, next(captured_nodes, None) if kind in _SHOWN else None
                )
                for index, (kind, kernel) in enumerate(zip(kinds, named_kernels, strict=True))
            )
            edges = tuple(GraphEdge(index, index + 1) for index in range(len(nodes) - 1))
            ident = f"graph-{len(graphs)}"
            graphs.append(CapturedGraph(ident, nodes, edges, method, capture_index=number))
    return InferredGraphs(tuple(graphs), tuple(missing))


def _has_replay(
    kinds: list[NodeKind], kernels: list[KernelParams | None], replays: _Replays
) -> bool:
    """Return whether a replay has the same kinds in order, or the same names with a few gaps.

    xDiT's replays lack the last kernel of their captures.
    """
    if _filter_visible(kinds) in replays.by_kinds:
        return True
    looks = [
        (kind, kernel.name if kernel else "")
        for kind, kernel in zip(kinds, kernels, strict=True)
        if kind in _SHOWN
    ]
    return any(_is_nearly_equal(looks, shape) for shape in replays.shapes)


def _is_nearly_equal(looks: Sequence[tuple[NodeKind, str]], shape: tuple[Any, ...]) -> bool:
    signatures = [(kind, name if kind is NodeKind.KERNEL else "") for kind, name, *_ in shape]
    codes = {look: code for code, look in enumerate(dict.fromkeys((*looks, *signatures)))}
    first, second = (
        np.array([codes[look] for look in side], dtype=np.int64) for side in (looks, signatures)
    )
    return align(first, second) is not None


def _filter_visible(kinds: list[NodeKind]) -> tuple[NodeKind, ...]:
    return tuple(kind for kind in kinds if kind in _SHOWN)


def _match_captures(
    windows: list[tuple[Ints, list[NodeKind]]], replays: _Replays
) -> list[tuple[object, ...] | None]:
    """Return the appearance of each capture's replays; None if ambiguous.

    Captures with the same sequence of kinds may have equal or different graphs. If their replays
    look the same, they are all that graph. Otherwise, a step is assumed to launch the graphs in
    capture order, which must fit every replay.
    """
    candidates: list[tuple[object, ...] | None] = [None] * len(windows)
    of_kinds: dict[tuple[NodeKind, ...], list[int]] = {}
    for number, (_, kinds) in enumerate(windows):
        of_kinds.setdefault(_filter_visible(kinds), []).append(number)
    for kinds_key, numbers in of_kinds.items():
        order = replays.by_kinds.get(kinds_key, [])
        if not order:
            continue
        cyclic_order = [order[position % len(numbers)] for position in range(len(order))]
        if len(set(order)) == 1:
            for number in numbers:
                candidates[number] = order[0]
        elif len(order) >= len(numbers) and order == cyclic_order:
            for position, number in enumerate(numbers):
                candidates[number] = order[position]
    return candidates


class _Replays:
    def __init__(self, trace: Trace) -> None:
        launches, _ = group_launched_rows(trace)
        gpu = trace.gpu
        kinds = gpu["kind"].cast(str).to_list()
        names = gpu["name"].cast(str).to_list()
        columns = [gpu[name].to_list() for name in _COLUMNS]
        stream = get_column(gpu, "stream")
        self.by_kinds: dict[tuple[NodeKind, ...], list[tuple[object, ...]]] = {}
        self.shapes: dict[tuple[object, ...], list[GraphNode]] = {}
        self.streams = max((len(np.unique(stream[rows])) for rows in launches), default=0)
        for rows in launches:
            looks = tuple(
                (get_driver_kind(names[row]) or _KIND_OF[kinds[row]], names[row],
                 *(values[row] for values in columns))
                for row in rows.tolist()
            )  # fmt: skip
            self.shapes.setdefault(looks, [])
            self.by_kinds.setdefault(tuple(look[0] for look in looks), []).append(looks)

    def get_nodes(self, shape: tuple[object, ...]) -> list[GraphNode]:
        if not self.shapes[shape]:
            self.shapes[shape] = [_build_seen_node(look) for look in shape]
        return self.shapes[shape]


_COLUMNS: Final = (
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
    *("shared", "registers", "bytes"),
)


def _build_seen_node(look: object) -> GraphNode:
    assert isinstance(look, tuple)
    kind, name, *values = look
    grid_x, grid_y, grid_z, block_x, block_y, block_z, _, registers, size = values
    if kind is NodeKind.KERNEL:
        return GraphNode(
            0,
            kind,
            KernelParams(
                name=name,
                demangled=name,
                grid=None if grid_x is None else (grid_x, grid_y, grid_z),
                block=None if block_x is None else (block_x, block_y, block_z),
                # A trace shows only the sum of static and dynamic shared memory.
                dynamic_shared=None,
                registers=registers,
            ),
        )
    if kind is NodeKind.MEMCPY and size is not None:
        direction = next((word for word in _DIRECTIONS if word in name), "unknown")
        return GraphNode(0, kind, MemcpyParams("unknown", "unknown", direction, size, size, 1, 1))
    if kind is NodeKind.MEMSET and size is not None:
        return GraphNode(0, kind, MemsetParams(None, None, None, None, size))
    return GraphNode(0, kind)


_DIRECTIONS: Final = ("HtoD", "DtoH", "DtoD", "HtoH")


def _build_node(
    index: int, kind: NodeKind, kernel: KernelParams | None, captured_node: GraphNode | None
) -> GraphNode:
    if kind is NodeKind.KERNEL and kernel is not None:
        return GraphNode(index, kind, kernel)
    return GraphNode(
        index,
        kind,
        captured_node.params if captured_node is not None and captured_node.kind is kind else None,
    )
