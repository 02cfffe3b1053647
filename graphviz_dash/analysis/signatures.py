"""What a kernel, copy or set looks like from outside, so that a node of a graph and a row of a
trace are recognised as the same: kind, name, grid, block, shared memory, or bytes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from graphviz_dash.analysis.lanes import Ints, column, encode
from graphviz_dash.model.graph import (
    CapturedGraph,
    GraphNode,
    KernelParams,
    MemcpyParams,
    MemsetParams,
    NodeKind,
)

if TYPE_CHECKING:
    from graphviz_dash.model.trace import Trace

Shape: TypeAlias = tuple[int, ...]

VISIBLE: Final = (NodeKind.KERNEL, NodeKind.MEMCPY, NodeKind.MEMSET)
"""Kinds that the profiler shows as a row of their own."""

DRIVER_COPY: Final = -2
"""The code of a kernel that the driver itself runs for a small copy or set node."""

_DRIVER_KERNEL: Final = re.compile(r"^mem(cpy|set)\d+(_\w+)?$")
_SPACE: Final = re.compile(r"\s+")
_BASE: Final = re.compile(r"^(?:void )?([^<(]+)")
_SHAPE_COLUMNS: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")


class Signatures:
    """Codes of node signatures, shared by all graphs of a run; -1 is what no node looks like."""

    def __init__(self, graphs: tuple[CapturedGraph, ...]) -> None:
        self._exact: dict[tuple[str, str, Shape], int] = {}
        self._loose: dict[tuple[str, str, Shape], set[int]] = {}
        self._any_shared: set[int] = set()
        self._codes = {
            graph.id: [self._node_code(node) for node in graph.nodes] for graph in graphs
        }

    def of_graph(self, graph_id: str) -> list[int]:
        """The code of each node, -1 for kinds that a trace does not show."""
        return self._codes[graph_id]

    def of_trace(self, trace: Trace) -> Ints:
        """The code of each GPU row, shape (rows,): DRIVER_COPY for a copy or set that the driver
        does by a kernel of its own, whose size the trace does not tell; -1 for what no node looks
        like."""
        gpu = trace.gpu
        kinds, kind_names = encode(gpu["kind"])
        names, name_texts = encode(gpu["name"])
        columns: list[Ints] = [
            kinds.astype(np.int64),
            names.astype(np.int64),
            *(column(gpu, name) for name in _SHAPE_COLUMNS),
        ]
        table = np.stack([*columns, column(gpu, "bytes")], axis=1)
        if not len(table):
            return np.zeros(0, dtype=np.int64)
        distinct, inverse = np.unique(table, axis=0, return_inverse=True)
        codes = [
            self._row_code(kind_names[row[0]], name_texts[row[1]], row[2:9], row[9])
            for row in distinct.tolist()
        ]
        return np.array(codes, dtype=np.int64)[inverse.reshape(-1)]

    def _node_code(self, node: GraphNode) -> int:
        match node.params:
            case KernelParams() as kernel:
                shared = (kernel.static_shared or 0) + kernel.dynamic_shared
                shape = (*kernel.grid, *kernel.block, shared)
                name = kernel.demangled
                if kernel.static_shared is None:
                    # The trace shows the sum; without the static part it cannot be compared.
                    return self._new("kernel~", name, shape[:6])
                return self._new("kernel", name, shape)
            case MemcpyParams(bytes=size):
                return self._new("memcpy", "", (size,))
            case MemsetParams(bytes=size):
                return self._new("memset", "", (size,))
            case _:
                return -1

    def _new(self, kind: str, name: str, shape: Shape) -> int:
        key = (kind, _SPACE.sub("", name), shape)
        code = self._exact.setdefault(key, len(self._exact))
        self._loose.setdefault((kind, _base(name), shape), set()).add(code)
        return code

    def _row_code(self, kind: str, name: str, shape: list[int], size: int) -> int:
        if kind != "kernel":
            return self._exact.get((kind, "", (size,)), -1)
        compact = _SPACE.sub("", name)
        for which, used in (("kernel", tuple(shape)), ("kernel~", tuple(shape[:6]))):
            found = self._exact.get((which, compact, used))
            if found is not None:
                return found
            # Demanglers differ in details; the same name up to its templates will do if unique.
            close = self._loose.get((which, _base(name), used), set())
            if len(close) == 1:
                return next(iter(close))
        return DRIVER_COPY if _DRIVER_KERNEL.match(name) else -1


def _base(name: str) -> str:
    found = _BASE.match(name)
    return _SPACE.sub("", found[1]) if found else name
