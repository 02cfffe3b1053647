"""Compare the arguments of a program's graph with those of a new capture of the same step."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from cuda.bindings import driver

from collectors.driver.node_operands import OperandReader
from collectors.driver.operands import AllocationResolver, find_addresses
from collectors.driver.topology import read_graph
from collectors.replays.compare import find_changed_number, find_changed_word, format_word
from collectors.replays.marks import read_topology
from collectors.replays.operators import StepRecord
from graphviz_dash.model.graph import CapturedGraph, KernelParams, NodeKind
from graphviz_dash.model.replay_check import FactKind, StaleArgument


class GraphMismatchError(Exception):
    """The graphs cannot be compared; the text gives the reason."""


def find_stale_arguments(graph: Any, new_graph: Any, record: StepRecord) -> list[StaleArgument]:
    """Return arguments of ``graph`` that a new capture of the step would replace.

    Graphs are torch.cuda.CUDAGraph objects; ``record`` is of the new capture.

    Raises:
        GraphMismatchError: The graph is not kept, or has other nodes.
    """
    try:
        handle = int(graph.raw_cuda_graph())
    except RuntimeError as error:
        raise GraphMismatchError(
            "torch does not keep it; capture with CUDAGraph(keep_graph=True)"
        ) from error
    new_handle = int(new_graph.raw_cuda_graph())
    read, new_read = (read_graph(item, "graph-0")[0] for item in (handle, new_handle))
    if _list_names(read) != _list_names(new_read):
        raise GraphMismatchError("a new capture of the step has other nodes")
    owners = {
        node: number
        for number, operator in enumerate(record.operators)
        if operator.first_node is not None
        for node in range(operator.first_node, operator.first_node + operator.node_count)
    }
    extents = [
        (storage.data_ptr(), storage.data_ptr() + storage.nbytes())
        for memory in record.externals.values()
        for storage in [memory.tensor.untyped_storage()]
    ]

    def is_external(address: int) -> bool:
        # Workspaces of libraries and memory of the capture differ without harm.
        return any(begin <= address < end for begin, end in extents)

    reader = OperandReader(AllocationResolver((), (), lambda _: None))
    nodes, _ = read_topology(driver.CUgraph(handle))
    new_nodes, _ = read_topology(driver.CUgraph(new_handle))
    result = []
    for index, (node, new_node) in enumerate(zip(nodes, new_nodes, strict=True)):
        params = read.nodes[index].params
        operator = record.operators[owners[index]] if index in owners else None
        scalars = None if operator is None else operator.scalars
        change = _compare_node(reader, read.nodes[index].kind, node, new_node, is_external, scalars)
        if change is not None:
            name = params.demangled if isinstance(params, KernelParams) else None
            result.append(StaleArgument(index, owners.get(index), name, *change))
    return result


def _list_names(graph: CapturedGraph) -> list[str]:
    return [
        node.params.name if isinstance(node.params, KernelParams) else node.kind.value
        for node in graph.nodes
    ]


def _compare_node(
    reader: OperandReader,
    kind: NodeKind,
    node: Any,
    new_node: Any,
    is_external: Callable[[int], bool],
    scalars: Sequence[str] | None,
) -> tuple[FactKind, str, str] | None:
    """Return the first argument that differs, other than addresses of memory inside the step.

    ``scalars`` are the numbers that the node's operator received, or None without an operator.
    """
    if kind is not NodeKind.KERNEL:
        pairs = zip(
            reader.read_addresses(node, kind), reader.read_addresses(new_node, kind), strict=True
        )
        return _compare_addresses(pairs, is_external)
    first, second = (reader.read_kernel_arguments(item) or b"" for item in (node, new_node))
    if len(first) != len(second):
        return None
    words = [
        (pair, other)
        for (pair,), (other,) in zip(
            struct.iter_unpack("<Q", first), struct.iter_unpack("<Q", second), strict=True
        )
        if pair != other and find_addresses(pair.to_bytes(8, "little"))
    ]
    change = _compare_addresses(words, is_external)
    if change is not None:
        return change
    position = (
        find_changed_word(first, second)
        if scalars is None
        else find_changed_number(first, second, scalars)
    )
    if position is None:
        return None
    return FactKind.SCALAR, format_word(first, position), format_word(second, position)


def _compare_addresses(
    pairs: Any, is_external: Callable[[int], bool]
) -> tuple[FactKind, str, str] | None:
    for address, new_address in pairs:
        if address != new_address and is_external(new_address):
            return FactKind.ADDRESS, hex(address), hex(new_address)
    return None
