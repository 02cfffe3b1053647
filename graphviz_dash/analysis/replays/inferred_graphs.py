"""Graphs told from traces alone: what the launches of each capture made, in their order.

Without the driver's own description a capture's trace still shows every launch inside each capture,
and each made one node. Which kernel a launch was is told by the launch itself (ROCm), or by the
replays: a capture and the replays of its graph have the same number of kernels, memcpys and memsets
in the same order. Dependencies are told by neither. Only where every replay runs on one stream are
they sure enough to be drawn: then each node waits for the one before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, column
from graphviz_dash.analysis.attribution.captured_launches import capture_windows, launch_rows
from graphviz_dash.analysis.replays.replays import launched_rows
from graphviz_dash.analysis.sequence_alignment import align
from graphviz_dash.analysis.trace.signatures import driver_kind
from graphviz_dash.model.graph import (
    CapturedGraph,
    GraphEdge,
    GraphNode,
    KernelParams,
    MemcpyParams,
    MemsetParams,
    NodeKind,
)

if TYPE_CHECKING:
    from graphviz_dash.model.trace import Trace

BY_ARGUMENTS: Final = "launches of the capture's trace, in order, with their own arguments"
BY_REPLAYS: Final = "launches of the capture's trace, in order; kernels as the replays show them"

_SHOWN: Final = (NodeKind.KERNEL, NodeKind.MEMCPY, NodeKind.MEMSET)
_KIND_OF: Final = {kind.value.lower(): kind for kind in _SHOWN}


class InferredGraphs(Struct, frozen=True):
    """``graphs`` in the order of their captures; ``missing`` says of captures that no graph was
    told of why, a sentence each."""

    graphs: tuple[CapturedGraph, ...]
    missing: tuple[str, ...]


def captured_launches(capture: Trace) -> list[tuple[Ints, list[NodeKind]]]:
    """For each capture in the trace the rows of the runtime table that made a node, by time, and
    the kinds of the nodes."""
    rows, kinds = launch_rows(capture)
    times = column(capture.runtime, "ts")[rows]
    launches = []
    for begin, end in capture_windows("", capture):
        first, last = np.searchsorted(times, [begin, end])
        launches.append((rows[first:last], kinds[first:last]))
    return launches


def infer_graphs(
    capture: Trace, replay: Trace, kernels: Mapping[int, KernelParams]
) -> InferredGraphs:
    """The graph of each capture in ``capture`` that ``replay`` shows replays of. ``kernels`` are
    those that rows of the capture's runtime table are known to have launched."""
    windows = captured_launches(capture)
    replays = _Replays(replay)
    if not windows:
        return InferredGraphs((), ("the capture's trace shows no capture",))
    if not replays.shapes:
        return InferredGraphs((), ("no replay with work on the GPU is in the replays' trace",))
    if replays.streams > 1:
        reason = (
            f"replays run on up to {replays.streams} streams, and traces do not show which kernel "
            "waits for which; the driver's debug DOT does"
        )
        return InferredGraphs((), (reason,))
    chosen = _chosen(windows, replays)
    graphs: list[CapturedGraph] = []
    missing: list[str] = []
    for number, (rows, kinds) in enumerate(windows):
        shape = chosen[number]
        named = [kernels.get(row) for row in rows.tolist()]
        all_named = all(
            kernel or kind is not NodeKind.KERNEL for kernel, kind in zip(named, kinds, strict=True)
        )
        if not len(rows):
            missing.append(f"capture {number} shows no launch")
        elif shape is None and not (all_named and _replayed(kinds, named, replays)):
            missing.append(
                f"the {len(rows):,} launches of capture {number} do not fit any replay, or fit "
                "several that differ"
            )
        else:
            method = BY_ARGUMENTS if all_named else BY_REPLAYS
            seen = iter(replays.nodes(shape)) if shape is not None else iter(())
            nodes = tuple(
                _node(index, kind, kernel, next(seen, None) if kind in _SHOWN else None)
                for index, (kind, kernel) in enumerate(zip(kinds, named, strict=True))
            )
            edges = tuple(GraphEdge(index, index + 1) for index in range(len(nodes) - 1))
            ident = f"graph-{len(graphs)}"
            graphs.append(CapturedGraph(ident, nodes, edges, method, captured_as=number))
    return InferredGraphs(tuple(graphs), tuple(missing))


def _replayed(kinds: list[NodeKind], kernels: list[KernelParams | None], replays: _Replays) -> bool:
    """Whether some replay has the same kinds in the same order, or the same names but for a few
    gaps: xDiT's replays lack the last kernel of their captures."""
    if _visible(kinds) in replays.by_kinds:
        return True
    looks = [
        (kind, kernel.name if kernel else "")
        for kind, kernel in zip(kinds, kernels, strict=True)
        if kind in _SHOWN
    ]
    return any(_nearly_equal(looks, shape) for shape in replays.shapes)


def _nearly_equal(looks: Sequence[tuple[NodeKind, str]], shape: tuple[Any, ...]) -> bool:
    seen = [(kind, name if kind is NodeKind.KERNEL else "") for kind, name, *_ in shape]
    codes = {look: code for code, look in enumerate(dict.fromkeys((*looks, *seen)))}
    first, second = (
        np.array([codes[look] for look in side], dtype=np.int64) for side in (looks, seen)
    )
    return align(first, second) is not None


def _visible(kinds: list[NodeKind]) -> tuple[NodeKind, ...]:
    return tuple(kind for kind in kinds if kind in _SHOWN)


def _chosen(
    windows: list[tuple[Ints, list[NodeKind]]], replays: _Replays
) -> list[tuple[object, ...] | None]:
    """For each capture what its replays look like; None where that cannot be told.

    Captures with the same kinds in the same order may be of graphs that look alike, or not. If all
    replays with these kinds look the same they are all that graph. Otherwise a step launches the
    graphs in the order of their captures, and that is believed only if it fits every replay.
    """
    chosen: list[tuple[object, ...] | None] = [None] * len(windows)
    of_kinds: dict[tuple[NodeKind, ...], list[int]] = {}
    for number, (_, kinds) in enumerate(windows):
        of_kinds.setdefault(_visible(kinds), []).append(number)
    for kinds_key, numbers in of_kinds.items():
        order = replays.by_kinds.get(kinds_key, [])
        if not order:
            continue
        in_turn = [order[position % len(numbers)] for position in range(len(order))]
        if len(set(order)) == 1:
            for number in numbers:
                chosen[number] = order[0]
        elif len(order) >= len(numbers) and order == in_turn:
            for position, number in enumerate(numbers):
                chosen[number] = order[position]
    return chosen


class _Replays:
    """The graph launches of a trace by what they look like."""

    def __init__(self, trace: Trace) -> None:
        launches, _ = launched_rows(trace)
        gpu = trace.gpu
        kinds = gpu["kind"].cast(str).to_list()
        names = gpu["name"].cast(str).to_list()
        columns = [gpu[name].to_list() for name in _COLUMNS]
        stream = column(gpu, "stream")
        self.by_kinds: dict[tuple[NodeKind, ...], list[tuple[object, ...]]] = {}
        self.shapes: dict[tuple[object, ...], list[GraphNode]] = {}
        self.streams = max((len(np.unique(stream[rows])) for rows in launches), default=0)
        for rows in launches:
            looks = tuple(
                (driver_kind(names[row]) or _KIND_OF[kinds[row]], names[row],
                 *(values[row] for values in columns))
                for row in rows.tolist()
            )  # fmt: skip
            self.shapes.setdefault(looks, [])
            self.by_kinds.setdefault(tuple(look[0] for look in looks), []).append(looks)

    def nodes(self, shape: tuple[object, ...]) -> list[GraphNode]:
        """The nodes that a replay of this look shows, in order."""
        if not self.shapes[shape]:
            self.shapes[shape] = [_seen(look) for look in shape]
        return self.shapes[shape]


_COLUMNS: Final = (
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
    *("shared", "registers", "bytes"),
)


def _seen(look: object) -> GraphNode:
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
                # A trace tells static and dynamic shared memory together only.
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


def _node(
    index: int, kind: NodeKind, kernel: KernelParams | None, seen: GraphNode | None
) -> GraphNode:
    if kind is NodeKind.KERNEL and kernel is not None:
        return GraphNode(index, kind, kernel)
    return GraphNode(index, kind, seen.params if seen is not None and seen.kind is kind else None)
