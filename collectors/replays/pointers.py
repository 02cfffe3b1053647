"""Find kernel arguments that are in no allocation, which may be invalid addresses."""

from __future__ import annotations

from functools import cache

from cuda.bindings import driver

from collectors.allocator.extents import SegmentIndex
from collectors.allocator.history import read_segments
from collectors.driver.node_operands import OperandReader, find_extent
from collectors.driver.operands import AllocationResolver, find_invalid_arguments
from collectors.replays.marks import read_topology
from graphviz_dash.model.graph import CapturedGraph, NodeKind


def read_invalid_arguments(
    handle: int, read: CapturedGraph
) -> dict[int, tuple[tuple[int, int], ...]]:
    """Return position and value of arguments that may be invalid addresses, by kernel node.

    Nodes without such arguments are omitted. ``handle`` is the CUgraph, ``read`` its content.

    Raises:
        DriverError: The driver refused a query.
    """
    segments = SegmentIndex(read_segments())

    @cache
    def has_allocation(address: int) -> bool:
        return segments.find(address) is not None or find_extent(address) is not None

    reader = OperandReader(AllocationResolver((), (), lambda _: None))
    nodes, _ = read_topology(driver.CUgraph(handle))
    result = {}
    for node, node_handle in zip(read.nodes, nodes, strict=True):
        if node.kind is NodeKind.KERNEL:
            arguments = find_invalid_arguments(
                reader.read_kernel_parameters(node_handle), has_allocation
            )
            if arguments:
                result[node.index] = tuple(arguments)
    return result
