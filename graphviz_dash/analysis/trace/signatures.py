"""What a kernel, copy or set looks like from outside, so that a node of a graph and a row of a
trace are recognised as the same: kind, name, grid, block, shared memory, or bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from graphviz_dash.analysis.arrays import Ints, column, encode
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

NO_NODE: Final = -1
"""The code of a row that looks like no node, and of a node that a trace does not show."""

DRIVER_MEMCPY: Final = -2
DRIVER_MEMSET: Final = -3
"""The codes of kernels that the driver itself runs for small copy and set nodes: the trace does
not tell their size."""

DRIVER_CODES: Final = {NodeKind.MEMCPY: DRIVER_MEMCPY, NodeKind.MEMSET: DRIVER_MEMSET}

_DRIVER_KERNEL: Final = re.compile(r"^mem(cpy|set)\d+(_\w+)?$")
_SHAPE_COLUMNS: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")

# Demanglers differ in white space, in the type and suffix of constants, in the word for unnamed
# namespaces, and in whether a clone is told.
_CONSTANT_TYPE: Final = re.compile(r"\((?:unsigned)?(?:bool|char|short|int|long|longlong)\)(?=\d)")
_CONSTANT_SUFFIX: Final = re.compile(r"(?<=\d)u?l{0,2}(?=[,>)\]])")
_UNNAMED: Final = re.compile(r"\(anonymousnamespace\)|<unnamed>|\{anonymous\}")
_CLONE: Final = re.compile(r"\[clone\.?[^\]]*\]")
_BASE: Final = re.compile(r"^(?:void )?([^<(]+)")
_SPACE: Final = re.compile(r"\s+")

_MIX: Final = np.uint64(0x9E3779B97F4A7C15)


class Signatures:
    """Codes of node signatures, shared by all graphs of a run."""

    def __init__(self, graphs: tuple[CapturedGraph, ...], *, shapes: bool = True) -> None:
        """``shapes``: whether the trace tells grids and blocks; without, names alone count."""
        self._shapes = shapes
        self._exact: dict[tuple[str, str, Shape], int] = {}
        self._loose: dict[tuple[str, str, Shape], set[int]] = {}
        self._count = 0
        self._codes = {
            graph.id: np.array([self._node_code(node) for node in graph.nodes], dtype=np.int64)
            for graph in graphs
        }

    def of_graph(self, graph_id: str) -> Ints:
        """The code of each node, shape (nodes,); NO_NODE for kinds that a trace does not show."""
        return self._codes[graph_id]

    def of_trace(self, trace: Trace) -> Ints:
        """The code of each GPU row, shape (rows,): that of the nodes it looks like, DRIVER_MEMCPY
        or DRIVER_MEMSET, or NO_NODE."""
        gpu = trace.gpu
        if not len(gpu):
            return np.zeros(0, dtype=np.int64)
        kinds, kind_names = encode(gpu["kind"])
        names, name_texts = encode(gpu["name"])

        def columns() -> Iterator[Ints]:
            yield kinds.astype(np.int64)
            yield names.astype(np.int64)
            for name in (*_SHAPE_COLUMNS, "bytes"):
                yield column(gpu, name)

        distinct, inverse = distinct_rows(columns)
        looks = [
            (kind_names[row[0]], name_texts[row[1]], tuple(row[2:9]), row[9])
            for row in distinct.tolist()
        ]
        codes = [self._row_code(*look) for look in looks]
        # A node that some row fits exactly is not what a row of another name means.
        exact_codes = set(codes)
        codes = [
            self._like(look[1], look[2], exact_codes)
            if code == NO_NODE and look[0] == "kernel"
            else code
            for look, code in zip(looks, codes, strict=True)
        ]
        return np.array(codes, dtype=np.int64)[inverse]

    def _node_code(self, node: GraphNode) -> int:
        match node.params:
            case KernelParams() as kernel:
                kind, shape = self._shape(kernel)
                code = self._code((kind, normalised(kernel.demangled), shape))
                self._exact.setdefault((kind, normalised(kernel.name), shape), code)
                self._loose.setdefault((kind, base_name(kernel.demangled), shape), set()).add(code)
                return code
            case MemcpyParams(bytes=size):
                return self._code(("memcpy", "", (size,)))
            case MemsetParams(bytes=size):
                return self._code(("memset", "", (size,)))
            case _:
                return NO_NODE

    def _shape(self, kernel: KernelParams) -> tuple[str, Shape]:
        """What of the shape of a launch can be compared, and a word that says how much it is."""
        if not self._shapes or kernel.grid is None or kernel.block is None:
            return "kernel?", ()
        shape: Shape = (*kernel.grid, *kernel.block)
        if kernel.static_shared is None or kernel.dynamic_shared is None:
            # A trace shows the sum; without the static part it cannot be compared.
            return "kernel~", shape
        return "kernel", (*shape, kernel.static_shared + kernel.dynamic_shared)

    def _code(self, key: tuple[str, str, Shape]) -> int:
        if key not in self._exact:
            self._exact[key] = self._count
            self._count += 1
        return self._exact[key]

    def _row_code(self, kind: str, name: str, shape: Shape, size: int) -> int:
        if kind != "kernel":
            return self._exact.get((kind, "", (size,)), NO_NODE)
        driver = driver_kind(name)
        for which, used in (("kernel", shape), ("kernel~", shape[:6]), ("kernel?", ())):
            code = self._exact.get((which, normalised(name), used))
            if code is not None:
                return code
        return NO_NODE if driver is None else DRIVER_CODES[driver]

    def _like(self, name: str, shape: Shape, exact_codes: set[int]) -> int:
        """The one code of that shape whose name is the same up to its templates, if there is."""
        for which, used in (("kernel", shape), ("kernel~", shape[:6]), ("kernel?", ())):
            close = self._loose.get((which, base_name(name), used), set()) - exact_codes
            if len(close) == 1:
                return next(iter(close))
        return NO_NODE


@lru_cache(maxsize=65536)
def normalised(name: str) -> str:
    """A kernel's name without what demanglers write differently; for comparing, not for reading."""
    text = _UNNAMED.sub("(anonymous)", _SPACE.sub("", name))
    text = _CONSTANT_SUFFIX.sub("", _CONSTANT_TYPE.sub("", _CLONE.sub("", text)))
    return text.replace("constchar*", "charconst*")


def driver_kind(name: str) -> NodeKind | None:
    """The kind of node that the driver runs by a kernel of its own with this name; None for any
    other kernel."""
    match = _DRIVER_KERNEL.match(name)
    if match is None:
        return None
    return NodeKind.MEMCPY if match[1] == "cpy" else NodeKind.MEMSET


def base_name(name: str) -> str:
    """A kernel's name without return type, template arguments and parameters."""
    match = _BASE.match(name)
    return _SPACE.sub("", match[1]) if match else name


def distinct_rows(columns: Callable[[], Iterator[Ints]]) -> tuple[Ints, Ints]:
    """The different rows of a table, and for each row which of them it is. The table is given as
    what makes its columns one after another: all of them at once take memory.

    By a hash of each row, checked: many times faster than ``np.unique`` along an axis.
    """
    mixed = np.zeros(1, dtype=np.uint64)
    for values in columns():
        mixed = (mixed ^ values.astype(np.uint64)) * _MIX
        mixed ^= mixed >> np.uint64(29)
    _, first, inverse = np.unique(mixed, return_index=True, return_inverse=True)
    if all(np.array_equal(values[first][inverse], values) for values in columns()):
        return np.stack([values[first] for values in columns()], axis=1), inverse
    distinct, inverse = np.unique(np.stack(list(columns()), axis=1), axis=0, return_inverse=True)
    return distinct, inverse.reshape(-1)
