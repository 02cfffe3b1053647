"""What ``torch.cuda.CUDAGraph.get_graph_data()`` returns, as JSON or pickled (export_graph_data).

Source of the fields: pytorch/pytorch ``torch/cuda/graphs.py`` (since 2.13; ``grid_dim`` and
``block_dim`` since September 2026). The ids are those of the executable graph, which is what a
trace shows, so that replays are matched by id where the trace has it. Bodies of child graphs and
conditionals are not in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.formats.text import read_json
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.ingest.names import demangled
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

READ_BY: Final = "torch.cuda.CUDAGraph.get_graph_data"

_EXPECTED: Final = "what torch.cuda.CUDAGraph.get_graph_data returns"
_LOW_HALF: Final = (1 << 32) - 1
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
# For other kinds torch writes the enumerator of cuda-python as it prints.
_OTHERS: Final = (
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
    """Its place among the nodes."""
    node_type: str
    """A key of _KINDS, or an enumerator of cuda-python as text."""
    node_id: Count
    """The id in the executable; its low half is what a trace shows."""
    dependencies: list[Count]
    """Indices of the nodes before it."""
    kernel_name: str | None = None
    """Of a kernel, mangled; None for other nodes."""
    event_ptr: int | None = None
    """The event of a record or wait; None for other nodes."""
    grid_dim: Dim3 | None = None
    """Of a kernel, in blocks; None before September 2026."""
    block_dim: Dim3 | None = None
    """Of a kernel, in threads; None before September 2026."""


class _Data(msgspec.Struct):
    exec_graph_id: Count
    nodes: list[_Node]


def read_graph_data(path: Path, limits: Limits = DEFAULT_LIMITS) -> tuple[CapturedGraph, GraphIds]:
    """The graph in the JSON file at ``path``, and the ids of its executable.

    Raises:
        InputError: as :func:`graph_data`, or no JSON.
    """
    return _graph(read_json(path, limits, _Data, _EXPECTED), path, limits)


def graph_data(
    value: Any, path: Path, limits: Limits = DEFAULT_LIMITS
) -> tuple[CapturedGraph, GraphIds]:
    """The graph that ``value`` describes, read from ``path``, and the ids of its executable.

    Raises:
        InputError: a missing field or one of another type, a node of a kind that is not known, a
            dependency on a node that is not there, or more than ``limits`` allow.
    """
    _check_size(value, path, limits)
    try:
        data = msgspec.convert(value, _Data)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InputError(path, str(error), _EXPECTED) from error
    return _graph(data, path, limits)


def _check_size(value: Any, path: Path, limits: Limits) -> None:
    """A pickle can name one list a million times, so what would be copied is counted before."""
    nodes = value.get("nodes") if isinstance(value, dict) else None
    if not isinstance(nodes, list):
        return
    if len(nodes) > limits.nodes:
        raise limits.refuse(path, "nodes", f"{len(nodes):,} nodes")
    lists = (node.get("dependencies") for node in nodes if isinstance(node, dict))
    count = sum(len(part) for part in lists if isinstance(part, list))
    if count * _DEPENDENCY_BYTES > limits.memory_bytes:
        raise limits.refuse(path, "memory_bytes", f"{count:,} dependencies")


def _graph(data: _Data, path: Path, limits: Limits) -> tuple[CapturedGraph, GraphIds]:
    if not data.nodes:
        raise InputError(path, "a graph without nodes", _EXPECTED)
    if len(data.nodes) > limits.nodes:
        raise limits.refuse(path, "nodes", f"{len(data.nodes):,} nodes")
    names = demangled({node.kernel_name for node in data.nodes if node.kernel_name})
    events: dict[int, int] = {}
    nodes, edges = [], []
    for position, node in enumerate(data.nodes):
        if node.index != position:
            raise InputError(path, f"node {node.index} at place {position}", "nodes by their index")
        kind = _kind(node.node_type)
        if kind is None:
            raise InputError(path, f"a node of type {node.node_type!r}", _EXPECTED)
        nodes.append(GraphNode(position, kind, _params(node, kind, names, events)))
        for before in node.dependencies:
            if before >= len(data.nodes) or before == position:
                actual = f"node {position}, which depends on node {before}"
                raise InputError(path, actual, "dependencies on other nodes of the graph")
            edges.append(GraphEdge(before, position))
    graph = CapturedGraph("graph-0", tuple(nodes), tuple(dict.fromkeys(edges)), READ_BY)
    ids = tuple(node.node_id & _LOW_HALF for node in data.nodes)
    return graph, GraphIds("graph-0", (data.exec_graph_id,), ids)


def _kind(word: str) -> NodeKind | None:
    if word in _KINDS:
        return _KINDS[word]
    return next((kind for part, kind in _OTHERS if part in word), None)


def _params(
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
