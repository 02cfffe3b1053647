"""Signatures that match graph nodes with trace rows: kind, name, grid, block and shared memory, or
bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from graphviz_dash.analysis.arrays import Ints, encode, get_column
from graphviz_dash.model.graph import (
    CapturedGraph,
    GraphNode,
    KernelParams,
    MemcpyParams,
    MemsetParams,
    NodeKind,
)
from graphviz_dash.model.trace import Trace

Shape: TypeAlias = tuple[int, ...]

NO_NODE: Final = -1
"""Code of a row without a matching node, and of a node that traces do not show."""

DRIVER_MEMCPY: Final = -2
DRIVER_MEMSET: Final = -3
"""Codes of copies and sets without a traced size: driver kernels for small ones, and rows with the
size of another graph's copy, as CUPTI 13.0 reports.
"""

DRIVER_CODES: Final = {NodeKind.MEMCPY: DRIVER_MEMCPY, NodeKind.MEMSET: DRIVER_MEMSET}

_DRIVER_KERNEL: Final = re.compile(r"^mem(cpy|set)\d+(_\w+)?$")
_SHAPE_COLUMNS: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")

# Demanglers differ in white space, in the type and suffix of constants, in the word for unnamed
# namespaces, and in the mention of clones.
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
        """Encode nodes; without ``shapes``, only names count."""
        self._shapes = shapes
        self._exact: dict[tuple[str, str, Shape], int] = {}
        self._loose: dict[tuple[str, str, Shape], set[int]] = {}
        self._count = 0
        self._codes = {
            graph.id: np.array([self._encode_node(node) for node in graph.nodes], dtype=np.int64)
            for graph in graphs
        }

    def get_graph_codes(self, graph_id: str) -> Ints:
        """Return each node's code, shape (nodes,); NO_NODE for kinds that traces do not show."""
        return self._codes[graph_id]

    @property
    def copy_codes(self) -> frozenset[int]:
        """Codes of copies of all sizes."""
        return frozenset(code for (kind, *_), code in self._exact.items() if kind == "memcpy")

    def compute_trace_codes(self, trace: Trace) -> Ints:
        """Return the code of each GPU row, shape (rows,).

        It is that of matching nodes, DRIVER_MEMCPY or DRIVER_MEMSET, or NO_NODE.
        """
        gpu = trace.gpu
        if not len(gpu):
            return np.zeros(0, dtype=np.int64)
        kinds, kind_names = encode(gpu["kind"])
        names, name_texts = encode(gpu["name"])

        def columns() -> Iterator[Ints]:
            yield kinds.astype(np.int64)
            yield names.astype(np.int64)
            for name in (*_SHAPE_COLUMNS, "bytes"):
                yield get_column(gpu, name)

        distinct, inverse = find_distinct_rows(columns)
        looks = [
            (kind_names[row[0]], name_texts[row[1]], tuple(row[2:9]), row[9])
            for row in distinct.tolist()
        ]
        codes = [self._encode_row(*look) for look in looks]
        # Nodes with an exact match are no candidates for rows with other names.
        exact_codes = set(codes)
        codes = [
            self._find_similar(look[1], look[2], exact_codes)
            if code == NO_NODE and look[0] == "kernel"
            else code
            for look, code in zip(looks, codes, strict=True)
        ]
        return np.array(codes, dtype=np.int64)[inverse]

    def _encode_node(self, node: GraphNode) -> int:
        match node.params:
            case KernelParams() as kernel:
                kind, shape = self._get_shape(kernel)
                code = self._get_code((kind, normalise_name(kernel.demangled), shape))
                self._exact.setdefault((kind, normalise_name(kernel.name), shape), code)
                self._loose.setdefault((kind, get_base_name(kernel.demangled), shape), set()).add(
                    code
                )
                return code
            case MemcpyParams(bytes=size):
                return self._get_code(("memcpy", "", (size,)))
            case MemsetParams(bytes=size):
                return self._get_code(("memset", "", (size,)))
            case _:
                return NO_NODE

    def _get_shape(self, kernel: KernelParams) -> tuple[str, Shape]:
        """Return the comparable part of a launch shape, and a word for its completeness."""
        if not self._shapes or kernel.grid is None or kernel.block is None:
            return "kernel?", ()
        shape: Shape = (*kernel.grid, *kernel.block)
        if kernel.static_shared is None or kernel.dynamic_shared is None:
            # A trace shows the sum; without the static part it is not comparable.
            return "kernel~", shape
        return "kernel", (*shape, kernel.static_shared + kernel.dynamic_shared)

    def _get_code(self, key: tuple[str, str, Shape]) -> int:
        if key not in self._exact:
            self._exact[key] = self._count
            self._count += 1
        return self._exact[key]

    def _encode_row(self, kind: str, name: str, shape: Shape, size: int) -> int:
        if kind != "kernel":
            unknown_size = DRIVER_MEMCPY if kind == "memcpy" else DRIVER_MEMSET
            return self._exact.get((kind, "", (size,)), unknown_size)
        driver = get_driver_kind(name)
        for variant, used in (("kernel", shape), ("kernel~", shape[:6]), ("kernel?", ())):
            code = self._exact.get((variant, normalise_name(name), used))
            if code is not None:
                return code
        return NO_NODE if driver is None else DRIVER_CODES[driver]

    def _find_similar(self, name: str, shape: Shape, exact_codes: set[int]) -> int:
        """Return the only code of that shape with an equal name up to templates, else NO_NODE."""
        for variant, used in (("kernel", shape), ("kernel~", shape[:6]), ("kernel?", ())):
            close = self._loose.get((variant, get_base_name(name), used), set()) - exact_codes
            if len(close) == 1:
                return next(iter(close))
        return NO_NODE


@lru_cache(maxsize=65536)
def normalise_name(name: str) -> str:
    """Remove differences between demanglers from a kernel name; for comparison, not display."""
    text = _UNNAMED.sub("(anonymous)", _SPACE.sub("", name))
    text = _CONSTANT_SUFFIX.sub("", _CONSTANT_TYPE.sub("", _CLONE.sub("", text)))
    return text.replace("constchar*", "charconst*")


def get_driver_kind(name: str) -> NodeKind | None:
    """Return the node kind that the driver runs as this kernel, if any."""
    match = _DRIVER_KERNEL.match(name)
    if match is None:
        return None
    return NodeKind.MEMCPY if match[1] == "cpy" else NodeKind.MEMSET


def get_base_name(name: str) -> str:
    """Return a kernel's name without return type, template arguments and parameters."""
    match = _BASE.match(name)
    return _SPACE.sub("", match[1]) if match else name


def find_distinct_rows(columns: Callable[[], Iterator[Ints]]) -> tuple[Ints, Ints]:
    """Return the distinct rows of a table, and the index of each row among them.

    ``columns`` yields one column at a time to save memory. A verified hash per row makes it many
    times faster than ``np.unique`` along an axis.
    """
    mixed_hashes = np.zeros(1, dtype=np.uint64)
    for values in columns():
        mixed_hashes = (mixed_hashes ^ values.astype(np.uint64)) * _MIX
        mixed_hashes ^= mixed_hashes >> np.uint64(29)
    _, first, inverse = np.unique(mixed_hashes, return_index=True, return_inverse=True)
    rows = []
    for values in columns():
        rows.append(values[first])
        if not np.array_equal(rows[-1][inverse], values):
            break
    else:
        return np.stack(rows, axis=1), inverse
    distinct, inverse = np.unique(np.stack(list(columns()), axis=1), axis=0, return_inverse=True)
    return distinct, inverse.reshape(-1)
