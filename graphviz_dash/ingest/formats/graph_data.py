"""Reader of ``torch.cuda.CUDAGraph.get_graph_data()``, as JSON or pickle.

Source: pytorch/pytorch ``torch/cuda/graphs.py`` (since 2.13). The ids are those of the executable
graph, as in traces. Bodies of child graphs and conditionals are not included.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.formats.text import read_json
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.ingest.names import demangle_names
from graphviz_dash.model.graph import (
    CapturedGraph,
    Count,
    Dim3,
    EventParams,
    GraphEdge,
    GraphNode,
    KernelParams,
    NodeKind,
    Params,
)
from graphviz_dash.model.node_ids import GraphIds

SOURCE_API: Final = "torch.cuda.CUDAGraph.get_graph_data"

_EXPECTED: Final = "a result of torch.cuda.CUDAGraph.get_graph_data"
_LOW_MASK: Final = (1 << 32) - 1
_DEPENDENCY_BYTES: Final = 64
_KINDS: Final = {
    "kernel": NodeKind.KERNEL,
    "memcpy": NodeKind.MEMCPY,
    "memset": NodeKind.MEMSET,
    "host": NodeKind.HOST,
    "child_graph": NodeKind.CHILD_GRAPH,
    "empty": NodeKind.EMPTY,
    "wait_event": NodeKind.EVENT_WAIT,
    "event_record": NodeKind.EVENT_RECORD,
    "mem_alloc": NodeKind.MEM_ALLOC,
    "mem_free": NodeKind.MEM_FREE,
}
# For other kinds, torch writes the printed enumerator of cuda-python.
_KIND_FRAGMENTS: Final = (
    ("Conditional", NodeKind.CONDITIONAL),
    ("SemaphoresSignal", NodeKind.SEMAPHORE_SIGNAL),
    ("SemaphoreSignal", NodeKind.SEMAPHORE_SIGNAL),
    ("SemaphoresWait", NodeKind.SEMAPHORE_WAIT),
    ("SemaphoreWait", NodeKind.SEMAPHORE_WAIT),
    ("BatchMemOp", NodeKind.BATCH_MEM_OP),
)


class _Node(msgspec.Struct):
    """An entry of ``nodes``."""

    index: Count
    node_type: str
    """A key of _KINDS, or an enumerator of cuda-python as text."""
    node_id: Count
    """Id in the executable graph. Traces show its lower half."""
    dependencies: list[Count]
    kernel_name: str | None = None
    """Mangled kernel name. None for other nodes."""
    event_ptr: int | None = None
    """Event of a record or wait. None for other nodes."""
    grid_dim: Dim3 | None = None
    """Blocks per dimension of a kernel. None before September 2026."""
    block_dim: Dim3 | None = None
    """Threads per dimension of a kernel's block. None before September 2026."""


class _Data(msgspec.Struct):
    exec_graph_id: Count
    nodes: list[_Node]


def read_graph_data(path: Path, limits: Limits = DEFAULT_LIMITS) -> tuple[CapturedGraph, GraphIds]:
    """Read the graph in a JSON file, and the ids of its executable graph.

    Raises:
        InputError: As in :func:`convert_graph_data`, or not JSON.
    """
    return _build_graph(read_json(path, limits, _Data, _EXPECTED), path, limits)


def convert_graph_data(
    value: Any, path: Path, limits: Limits = DEFAULT_LIMITS
) -> tuple[CapturedGraph, GraphIds]:
    """Convert ``value``, read from ``path``, to a graph and the ids of its executable graph.

    Raises:
        InputError: An invalid field, node or dependency, or more than ``limits`` allow.
    """
    _check_size(value, path, limits)
    try:
        data = msgspec.convert(value, _Data)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InputError(path, str(error), _EXPECTED) from error
    return _build_graph(data, path, limits)


def _check_size(value: Any, path: Path, limits: Limits) -> None:
    """Check the size before copying, because a pickle can reference one list a million times."""
    nodes = value.get("nodes") if isinstance(value, dict) else None
    if not isinstance(nodes, list):
        return
    if len(nodes) > limits.nodes:
        raise limits.build_error(path, "nodes", f"{len(nodes):,} nodes")
    lists = (node.get("dependencies") for node in nodes if isinstance(node, dict))
    count = sum(len(part) for part in lists if isinstance(part, list))
    if count * _DEPENDENCY_BYTES > limits.memory_bytes:
        raise limits.build_error(path, "memory_bytes", f"{count:,} dependencies")


def _build_graph(data: _Data, path: Path, limits: Limits) -> tuple[CapturedGraph, GraphIds]:
    if not data.nodes:
        raise InputError(path, "a graph without nodes", _EXPECTED)
    if len(data.nodes) > limits.nodes:
        raise limits.build_error(path, "nodes", f"{len(data.nodes):,} nodes")
    names = demangle_names({node.kernel_name for node in data.nodes if node.kernel_name})
    events: dict[int, int] = {}
    nodes, edges = [], []
    for position, node in enumerate(data.nodes):
        if node.index != position:
            raise InputError(
                path, f"node {node.index} at position {position}", "nodes in index order"
            )
        kind = _parse_kind(node.node_type)
        if kind is None:
            raise InputError(path, f"a node of type {node.node_type!r}", _EXPECTED)
        nodes.append(GraphNode(position, kind, _build_params(node, kind, names, events)))
        for source in node.dependencies:
            if source >= len(data.nodes) or source == position:
                description = f"node {position}, which depends on node {source}"
                raise InputError(path, description, "dependencies on other nodes of the graph")
            edges.append(GraphEdge(source, position))
    graph = CapturedGraph("graph-0", tuple(nodes), tuple(dict.fromkeys(edges)), SOURCE_API)
    ids = tuple(node.node_id & _LOW_MASK for node in data.nodes)
    return graph, GraphIds("graph-0", (data.exec_graph_id,), ids)


def _parse_kind(word: str) -> NodeKind | None:
    if word in _KINDS:
        return _KINDS[word]
    return next((kind for part, kind in _KIND_FRAGMENTS if part in word), None)


def _build_params(
    node: _Node, kind: NodeKind, names: dict[str, str], events: dict[int, int]
) -> Params | None:
    if kind is NodeKind.KERNEL and node.kernel_name:
        return KernelParams(
            name=node.kernel_name,
            demangled=names[node.kernel_name],
            grid=node.grid_dim,
            block=node.block_dim,
            dynamic_shared=None,
        )
    if kind in (NodeKind.EVENT_RECORD, NodeKind.EVENT_WAIT) and node.event_ptr:
        return EventParams(events.setdefault(node.event_ptr, len(events)))
    return None
