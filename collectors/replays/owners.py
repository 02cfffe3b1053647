"""Find the owners of the addresses that a captured graph reads and writes, and their end."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch
from cuda.bindings import driver
from torch.multiprocessing.reductions import StorageWeakRef

from collectors.allocator.extents import Segment, SegmentIndex
from collectors.allocator.history import read_allocation_frames, read_segments
from collectors.doctor.places import SourceLocation, find_recorded_location
from collectors.driver.node_operands import DriverAllocation, OperandReader, find_allocation
from collectors.driver.operands import AllocationResolver, find_argument
from collectors.replays.marks import read_topology
from collectors.replays.operators import ExternalMemory, StepRecord, format_dtype
from graphviz_dash.model.graph import CapturedGraph, NodeKind
from graphviz_dash.model.memory import DEFAULT_POOL
from graphviz_dash.model.replay_check import NodeOwner

Fate: TypeAlias = Literal["freed", "moved", "reused"]
Owner: TypeAlias = Literal["tensor", "pinned", "graph-pool", "workspace", "library"]


@dataclass(frozen=True)
class WatchedMemory:
    """Memory of one owner that a graph uses."""

    owner: Owner
    description: str
    begin: int
    end: int
    node: NodeOwner
    storage: StorageWeakRef | None
    """Storage of a tensor, or None."""
    argument: int | None = None
    """Position of the node's kernel argument that holds the address. None if unknown."""
    pool: tuple[int, int] | None = None
    """Pool of another graph, or None."""
    allocation: DriverAllocation | None = None
    """Memory outside torch's allocator, or None."""
    spot: SourceLocation | None = None
    """Line that allocated it. None if not recorded."""

    @property
    def identity(self) -> tuple[object, int]:
        """Storage or allocation, and first address: equal for all graphs that use the memory."""
        owner = self.allocation if self.storage is None else self.storage.cdata
        return owner, self.begin


class OwnerFinder:
    """Finds the owners of addresses of one graph, whose own pool is no owner.

    ``reads_lines``: The allocator keeps the lines that allocated.
    """

    def __init__(
        self, graph_pool: tuple[int, int], record: StepRecord, *, reads_lines: bool
    ) -> None:
        self._graph_pool = graph_pool
        self._externals = record.externals
        self._extents = _sort_extents(record)
        self._begins = [begin for begin, _, _ in self._extents]
        self._segments = SegmentIndex(read_segments())
        self._allocations: dict[int, DriverAllocation | None] = {}
        self._frames = read_allocation_frames() if reads_lines else {}
        # Another backend has no segments, so its memory would seem to be a library's.
        self._is_native = torch.cuda.get_allocator_backend() == "native"

    def find(self, address: int) -> tuple[str, int] | None:
        """Return kind and identity of an address's owner, or None without one."""
        segment = self._segments.find(address)
        pool = segment.pool if segment is not None else DEFAULT_POOL
        if pool == self._graph_pool:
            return None
        if pool != DEFAULT_POOL:
            # The pool, not the tensor, keeps this memory.
            return "pool", hash(pool)
        position = bisect_right(self._begins, address) - 1
        if position >= 0:
            begin, size, identity = self._extents[position]
            if address < begin + max(1, size):
                return "tensor", identity
        if segment is not None:
            block = _find_block(segment, address)
            return None if block is None else ("block", block[0])
        allocation = self._find_allocation(address)
        return None if allocation is None else ("library", allocation.begin)

    def _find_allocation(self, address: int) -> DriverAllocation | None:
        if address not in self._allocations:
            allocation = find_allocation(address) if self._is_native else None
            self._allocations[address] = allocation
        return self._allocations[address]

    def watch(self, key: tuple[str, int], address: int, node: NodeOwner) -> WatchedMemory:
        """Describe the owner of an address, as returned by :meth:`find`."""
        item = self._describe(key, address, node)
        frames = self._frames.get(item.begin)
        return item if frames is None else replace(item, spot=find_recorded_location(frames))

    def _describe(self, key: tuple[str, int], address: int, node: NodeOwner) -> WatchedMemory:
        if key[0] == "tensor":
            return _watch_tensor(self._externals[key[1]], node)
        segment = self._segments.find(address)
        if segment is None:
            allocation = self._allocations[address]
            assert allocation is not None
            return _watch_allocation(allocation, node)
        if key[0] == "pool":
            return _watch_pool(segment, node)
        block = _find_block(segment, address)
        assert block is not None
        return _watch_block((block[0], sum(block)), node)


def find_fate(item: WatchedMemory) -> Fate | None:
    """Return what became of a living tensor's or the driver's memory, or None without a change."""
    if item.allocation is not None:
        return item.allocation.find_end()
    if item.storage is not None and _detect_move(item.storage, item.begin):
        return "moved"
    return None


def _detect_move(reference: StorageWeakRef, address: int) -> bool:
    storage = torch.UntypedStorage._new_with_weak_ptr(reference.cdata)
    return storage is not None and storage.data_ptr() != address


def _sort_extents(record: StepRecord) -> list[tuple[int, int, int]]:
    """Return address, size and identity of all external storages, by address."""
    return sorted(
        (storage.data_ptr(), storage.nbytes(), identity)
        for identity, memory in record.externals.items()
        if (storage := memory.tensor.untyped_storage()).nbytes()
    )


def _find_block(segment: Segment, address: int) -> tuple[int, int] | None:
    for begin, size in segment.live:
        if begin <= address < begin + size:
            return begin, size
    return None


def _watch_tensor(memory: ExternalMemory, node: NodeOwner) -> WatchedMemory:
    tensor, storage = memory.tensor, memory.tensor.untyped_storage()
    return WatchedMemory(
        "tensor" if tensor.is_cuda else "pinned",
        f"{format_dtype(tensor)} {list(tensor.shape)}",
        storage.data_ptr(),
        storage.data_ptr() + storage.nbytes(),
        node,
        StorageWeakRef(storage),
    )


def _watch_pool(segment: Segment, node: NodeOwner) -> WatchedMemory:
    pool = segment.pool
    description = f"memory of the graph pool ({pool[0]}, {pool[1]})"
    return WatchedMemory(
        "graph-pool", description, segment.start, segment.end, node, None, pool=pool
    )


def _watch_block(extent: tuple[int, int], node: NodeOwner) -> WatchedMemory:
    description = f"{extent[1] - extent[0]:,} bytes that no operator received, such as a workspace"
    return WatchedMemory("workspace", description, *extent, node, None)


def _watch_allocation(allocation: DriverAllocation, node: NodeOwner) -> WatchedMemory:
    begin, end = allocation.extent
    place = (
        "in pinned memory without a tensor" if allocation.is_host else "outside torch's allocator"
    )
    return WatchedMemory(
        "pinned" if allocation.is_host else "library",
        f"{end - begin:,} bytes {place}",
        begin,
        end,
        node,
        None,
        allocation=allocation,
    )


class NodeReader:
    """Reads the addresses among the parameters of a graph's nodes."""

    def __init__(self, handle: int, read: CapturedGraph) -> None:
        self._reader = OperandReader(AllocationResolver((), (), lambda _: None))
        self._read = read
        self._nodes, _ = read_topology(driver.CUgraph(handle))

    def list_addresses(self) -> list[tuple[int, list[int]]]:
        """Return index and possible addresses of each node."""
        return [
            (index, self._reader.read_addresses(node, self._read.nodes[index].kind))
            for index, node in enumerate(self._nodes)
        ]

    def find_argument(self, index: int, begin: int, end: int) -> int | None:
        """Return the position of a node's kernel argument that is inside of an extent, or None."""
        if self._read.nodes[index].kind is not NodeKind.KERNEL:
            return None
        return find_argument(self._reader.read_kernel_parameters(self._nodes[index]), begin, end)
