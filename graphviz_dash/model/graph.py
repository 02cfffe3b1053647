"""A captured CUDA graph as described by the driver: nodes in creation order, edges with their data.

Source of the terms: the CUDA driver API, section "Graph Management" (CUgraphNodeType,
CUgraphEdgeData).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

Count: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Dim3: TypeAlias = tuple[Count, Count, Count]
Uint64: TypeAlias = Annotated[int, Meta(ge=0)]
"""Unsigned 64-bit value of the driver."""


class NodeKind(StrEnum):
    """Node types, named as in CUDA's CUgraphNodeType."""

    KERNEL = "Kernel"
    MEMCPY = "Memcpy"
    MEMSET = "Memset"
    HOST = "Host"
    MEM_ALLOC = "MemAlloc"
    MEM_FREE = "MemFree"
    CHILD_GRAPH = "ChildGraph"
    EMPTY = "Empty"
    EVENT_RECORD = "EventRecord"
    EVENT_WAIT = "EventWait"
    SEMAPHORE_SIGNAL = "SemaphoreSignal"
    SEMAPHORE_WAIT = "SemaphoreWait"
    CONDITIONAL = "Conditional"
    BATCH_MEM_OP = "BatchMemOp"


class EdgeType(StrEnum):
    """CUgraphDependencyType: a full dependency, or one that a programmatic launch may relax."""

    FULL = "full"
    PROGRAMMATIC = "programmatic"


class ConditionalType(StrEnum):
    """CUgraphConditionalNodeType: interpretation of a conditional node's value."""

    IF = "If"
    WHILE = "While"
    SWITCH = "Switch"


class KernelParams(Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="kernel"):
    """Launch parameters of a kernel node. None means not read, unless defined otherwise."""

    name: str
    """Mangled name from the driver."""
    demangled: str
    """Demangled name, as printed by c++filt."""
    grid: Dim3 | None
    """Blocks per dimension. None only in imported graphs whose source contains names only."""
    block: Dim3 | None
    """Threads of a block per dimension. None as for ``grid``."""
    dynamic_shared: Count | None
    """Dynamic shared memory of the launch, in bytes. None as for `grid`."""
    static_shared: Count | None = None
    """Static shared memory from the function's attributes, in bytes."""
    registers: Count | None = None
    """Registers per thread."""
    cluster: Dim3 | None = None
    """Size of a thread block cluster, in blocks per dimension. None if the launch sets none."""
    cooperative: bool | None = None
    """True for a cooperative launch."""
    priority: int | None = None
    """Launch priority; lower numbers run first."""
    dynamic_parallelism: bool | None = None
    """True if the kernel launches kernels (dynamic parallelism)."""
    dependency_wait: bool | None = None
    """True if the kernel waits for the kernels before it (``griddepcontrol.wait``)."""
    early_trigger: bool | None = None
    """True if the kernel can release the next ones early (``griddepcontrol.launch_dependents``)."""


class MemcpyParams(Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="memcpy"):
    """A copy node. Memory types are CUmemorytype in lower case (host, device, array, unified). The
    driver uses "unified" for any address that it resolves itself, including pinned host memory."""

    source: str
    """Memory type of the source."""
    target: str
    """Memory type of the destination."""
    direction: str
    """HtoD, DtoH, DtoD, HtoH or "unknown", by the location of the addresses."""
    bytes: Count
    """Product of width, height and depth, in bytes."""
    width: Count
    """Width of a row, in bytes."""
    height: Count
    depth: Count
    pageable: bool | None = None
    """True if an operand is pageable host memory. None if not read."""


class MemsetParams(Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="memset"):
    """A memset node. Fields other than ``bytes`` are None only in graphs imported from a trace."""

    value: Count | None
    """Value of each element."""
    element_bytes: Count | None
    width: Count | None
    """Width of a row, in elements."""
    height: Count | None
    bytes: Count


class HostParams(Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="host"):
    """A call on the CPU. Both fields are None if the loader knows no symbol at the address, as for
    static functions and functions created at run time."""

    function: str | None
    """Symbol of the function. None if unknown."""
    library: str | None
    """File name of its library. None if unknown."""


class MemAllocParams(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="mem-alloc"
):
    """A memory allocation, freed by a MemFree node or later."""

    bytes: Count
    device: Count


class MemFreeParams(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="mem-free"
):
    """A memory deallocation."""

    allocated_by: Count | None
    """Index of the allocating node in the same graph. None if another graph or the program
    allocated it.
    """


class EventParams(Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="event"):
    """An event record or event wait."""

    event: Count
    """Number of the event, by nodes of a graph and its bodies. A record and its wait share it."""


class SemaphoreParams(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="semaphores"
):
    """A signal of or wait for external semaphores."""

    semaphores: tuple[Count, ...]
    """Numbers of the semaphores, by nodes of a graph and its bodies."""
    values: tuple[Uint64, ...]
    """Fence values. Binary semaphores ignore them."""


class ConditionalParams(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="conditional"
):
    """A conditional node. An If has one or two bodies (the second runs if the value is zero), a
    While one, a Switch any number."""

    type: ConditionalType | None
    """Type of the node. None if not read."""
    size: Count | None
    """Bodies. None if not read."""


class BatchMemOpParams(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="batch-mem-op"
):
    """Memory operations of the stream."""

    operations: tuple[str, ...]
    """CUstreamBatchMemOpType of each operation in words ("write value 32")."""


Params: TypeAlias = (
    KernelParams
    | MemcpyParams
    | MemsetParams
    | HostParams
    | MemAllocParams
    | MemFreeParams
    | EventParams
    | SemaphoreParams
    | ConditionalParams
    | BatchMemOpParams
)
"""Node parameters, discriminated by the field ``of``."""

PARAMS_BY_KIND: Final = {
    NodeKind.KERNEL: KernelParams,
    NodeKind.MEMCPY: MemcpyParams,
    NodeKind.MEMSET: MemsetParams,
    NodeKind.HOST: HostParams,
    NodeKind.MEM_ALLOC: MemAllocParams,
    NodeKind.MEM_FREE: MemFreeParams,
    NodeKind.EVENT_RECORD: EventParams,
    NodeKind.EVENT_WAIT: EventParams,
    NodeKind.SEMAPHORE_SIGNAL: SemaphoreParams,
    NodeKind.SEMAPHORE_WAIT: SemaphoreParams,
    NodeKind.CONDITIONAL: ConditionalParams,
    NodeKind.BATCH_MEM_OP: BatchMemOpParams,
}
"""Parameter type per node kind. Other kinds (Empty, ChildGraph) have none."""


class Operand(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Memory that a node may access: a range of an allocation."""

    allocation: Count
    """Number of the allocation (a segment of the allocator or another one), in the order in which
    nodes refer to it.
    """
    offset: Count
    """Offset in the allocation, in bytes."""
    bytes: Count
    """Length in bytes."""


class GraphNode(Struct, frozen=True, forbid_unknown_fields=True):
    """A node of a graph."""

    index: Count
    """Position in creation order, which identifies the node in its graph."""
    kind: NodeKind
    params: Params | None = None
    """Parameters. None for kinds without parameters (Empty, ChildGraph), or if not read."""
    bodies: tuple[str, ...] = ()
    """Ids of the contained graphs: a child graph, or the bodies of a conditional by value (the
    first body of an If runs if the value is not zero).
    """
    enabled: bool | None = None
    """True if the executable graph runs the node. Only kernels, copies and memsets can be disabled;
    None for others. None if not read.
    """
    device: Count | None = None
    """Ordinal of the node's device. None if not applicable."""
    operands: tuple[Operand, ...] | None = None
    """Memory accessible through the node's arguments, without overlaps. Excludes memory reached
    through pointers in memory and global variables. None if unknown.
    """

    @property
    def label(self) -> str:
        """Display name, see :func:`format_node_label`."""
        return format_node_label(self.kind, self.params)


def format_node_label(kind: NodeKind, params: Params | None) -> str:
    """Format the display name of a node: demangled kernel name, or kind with direction."""
    match params:
        case KernelParams(demangled=name):
            return name
        case MemcpyParams(direction=direction):
            return f"Memcpy {direction}"
        case HostParams(function=str(name)):
            return f"Host {name}"
        case EventParams(event=number):
            return f"{kind.value} {number}"
        case ConditionalParams(type=ConditionalType() as condition):
            return condition.value
        case _:
            return kind.value


class GraphEdge(Struct, frozen=True, forbid_unknown_fields=True):
    """A dependency between two nodes with its CUgraphEdgeData."""

    source: Count
    """Index of the upstream node."""
    target: Count
    """Index of the downstream node."""
    from_port: Count = 0
    """Port of the upstream node. 0: completion; kernels: 1 programmatic, 2 launch order."""
    to_port: Count = 0
    """Port of the downstream node. 0 for all current kinds."""
    type: EdgeType = EdgeType.FULL


class DriverResult(Struct, frozen=True, forbid_unknown_fields=True):
    """The driver's result of an operation."""

    result: str
    """Name without its prefix; "SUCCESS" on success."""
    graph: str | None = None
    """Id of the graph of the offending node. None if unknown."""
    node: Count | None = None
    """Index of the offending node. None if unknown."""
    from_node: Count | None = None
    """Index of its mismatched dependency. None if unknown."""


class CapturedGraph(Struct, frozen=True, forbid_unknown_fields=True):
    """A graph read from the driver after capture."""

    id: str
    """Id, unique in its run ("graph-0")."""
    nodes: tuple[GraphNode, ...]
    """Nodes in creation order."""
    edges: tuple[GraphEdge, ...]
    """Edges between nodes, by index."""
    source_api: str
    """API that provided the graph. cuGraphNodeGetDependencies keeps the order of edges into a node.
    """
    parent: tuple[str, Count] | None = None
    """Id of the graph that contains this one as a body, and index of the containing node. None for
    a top-level graph.
    """
    name: str | None = None
    """Name given by the workload. None if unnamed."""
    device_launch: DriverResult | None = None
    """Result of instantiating the graph for device launch. None if not attempted."""
    capture_index: Count | None = None
    """Index of its capture in the capture trace, from 0. None if a range identifies it, or if
    unknown.
    """
    capture_trace_index: Count = 0
    """Index of the capture trace that contains its capture, from 0."""
