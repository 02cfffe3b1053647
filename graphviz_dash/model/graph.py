"""A captured CUDA graph as the driver describes it: nodes in creation order, edges with their data.

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
"""A value that the driver keeps in 64 bits without a sign."""


class NodeKind(StrEnum):
    """What a graph node does, named as in CUDA's CUgraphNodeType."""

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
    """CUgraphDependencyType: a full dependency, or one that programmatic launch may relax."""

    FULL = "full"
    PROGRAMMATIC = "programmatic"


class ConditionalType(StrEnum):
    """CUgraphConditionalNodeType: what a conditional node's value means."""

    IF = "If"
    WHILE = "While"
    SWITCH = "Switch"


class KernelParams(Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="kernel"):
    """Launch parameters of a kernel node.

    ``name`` is as the driver gives it (mangled), ``demangled`` as c++filt would print it. Shared
    memory in bytes: ``dynamic_shared`` from the launch, ``static_shared`` from the function's
    attributes (None where the driver does not tell); a trace shows their sum. ``cluster`` is the
    size of its thread block clusters in blocks, ``cooperative`` whether all blocks run at once,
    ``priority`` the launch's (lower numbers go first), ``dynamic_parallelism`` whether the kernel
    launches kernels itself; None where they were not read, ``cluster`` also where the launch sets
    none. Grid, block and ``dynamic_shared`` are None only in imported graphs, whose source may tell
    no more than names.
    """

    name: str
    demangled: str
    grid: Dim3 | None
    block: Dim3 | None
    dynamic_shared: Count | None
    static_shared: Count | None = None
    registers: Count | None = None
    cluster: Dim3 | None = None
    cooperative: bool | None = None
    priority: int | None = None
    dynamic_parallelism: bool | None = None


class MemcpyParams(Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="memcpy"):
    """A copy node. Memory types are CUmemorytype in lower case (host, device, array, unified);
    the driver says "unified" for any address it resolves by itself, pinned host memory included.

    ``width`` is in bytes, ``height`` and ``depth`` in rows and slices; ``bytes`` is their product.
    ``direction`` is HtoD, DtoH, DtoD, HtoH by where the addresses live, or "unknown". ``pageable``:
    whether an operand lies in host memory that is not pinned; None where it was not read.
    """

    source: str
    target: str
    direction: str
    bytes: Count
    width: Count
    height: Count
    depth: Count
    pageable: bool | None = None


class MemsetParams(Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="memset"):
    """A set node: ``value`` in elements of ``element_bytes``, ``width`` elements by ``height``
    rows; ``bytes`` is the total written. All but ``bytes`` are None only in imported graphs, where
    a trace tells no more."""

    value: Count | None
    element_bytes: Count | None
    width: Count | None
    height: Count | None
    bytes: Count


class HostParams(Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="host"):
    """A call on the CPU: the symbol of the function and the file name of its library, each None
    where the loader knows no symbol at that address (a function made at run time, a static one)."""

    function: str | None
    library: str | None


class MemAllocParams(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="mem-alloc"
):
    """An allocation of ``bytes`` on ``device`` (its ordinal); freed by a MemFree node or later."""

    bytes: Count
    device: Count


class MemFreeParams(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="mem-free"
):
    """A free. ``allocated_by`` is the node of the same graph that allocated the memory; None where
    another graph or the program did."""

    allocated_by: Count | None


class EventParams(Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="event"):
    """An event recorded or waited for. ``event`` numbers the events of a graph and its bodies in
    the order in which their nodes come, so that a record and its wait have the same."""

    event: Count


class SemaphoreParams(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="semaphores"
):
    """External semaphores signalled or waited for. ``semaphores`` numbers them as events are
    numbered; ``values`` are the fence values, which binary semaphores do not look at."""

    semaphores: tuple[Count, ...]
    values: tuple[Uint64, ...]


class ConditionalParams(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="conditional"
):
    """A conditional node: its ``type`` and how many bodies it has. An If has one or two (the second
    runs when the value is zero), a While one, a Switch any number. None: not read."""

    type: ConditionalType | None
    size: Count | None


class BatchMemOpParams(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="batch-mem-op"
):
    """Memory operations of the stream: each CUstreamBatchMemOpType in words ("write value 32")."""

    operations: tuple[str, ...]


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
"""The parameters of a node, told apart by the field ``of``."""

PARAMS_OF: Final = {
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
"""The parameters that each kind may have; the others (Empty, ChildGraph) have none."""


class Operand(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Memory that a node may reach: ``bytes`` from ``offset`` on of an allocation. ``allocation``
    numbers what was allocated from the device (the allocator's segments, and others) as the nodes
    of a graph and its bodies first come to it."""

    allocation: Count
    offset: Count
    bytes: Count


class GraphNode(Struct, frozen=True, forbid_unknown_fields=True):
    """One node. ``index`` is its place in creation order, which is its identity within its graph.

    ``params`` is None for kinds that have none (Empty, ChildGraph) or whose parameters were not
    read. ``bodies`` are the ids of the graphs it holds: a child graph, or the bodies of a
    conditional in the order of their values (the first of an If runs when it is not zero).
    ``enabled``: whether the executable runs it (a kernel, copy or set can be switched off there);
    None for other kinds, and where it was not read. ``device``: ordinal of the device that it runs
    on; None for kinds without one, and where it was not read. ``operands`` is all memory that the
    node's arguments give it access to, in order and without overlaps, whether it reads, writes or
    leaves it; None where that is not known. What a kernel reaches through addresses that lie in
    memory, or through global variables, is not in it.
    """

    index: Count
    kind: NodeKind
    params: Params | None = None
    bodies: tuple[str, ...] = ()
    enabled: bool | None = None
    device: Count | None = None
    operands: tuple[Operand, ...] | None = None

    @property
    def label(self) -> str:
        """The name a reader knows the node by: demangled kernel name, or kind with direction."""
        match self.params:
            case KernelParams(demangled=name):
                return name
            case MemcpyParams(direction=direction):
                return f"Memcpy {direction}"
            case HostParams(function=str(name)):
                return f"Host {name}"
            case EventParams(event=number):
                return f"{self.kind.value} {number}"
            case ConditionalParams(type=ConditionalType() as kind):
                return kind.value
            case _:
                return self.kind.value


class GraphEdge(Struct, frozen=True, forbid_unknown_fields=True):
    """A dependency between two nodes (indices) with its CUgraphEdgeData.

    ``from_port``: 0 is completion of the upstream node, other values as the node kind defines
    (1 programmatic, 2 launch order for kernels). ``to_port`` is 0 for all kinds so far.
    """

    source: Count
    target: Count
    from_port: Count = 0
    to_port: Count = 0
    type: EdgeType = EdgeType.FULL


class DriverAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """What the driver said to an attempt. ``result`` is the result's name without its prefix,
    "SUCCESS" when it was done. ``graph`` and ``node`` name the offending node, if it named one;
    ``from_node`` is the dependency of it that does not match."""

    result: str
    graph: str | None = None
    node: Count | None = None
    from_node: Count | None = None


class CapturedGraph(Struct, frozen=True, forbid_unknown_fields=True):
    """A graph read from the driver after capture.

    ``id`` is unique in its run ("graph-0"). ``parent`` names graph and node index that hold this
    graph as a body; None for a graph that is launched by itself. ``read_by`` names the API that
    gave it; with cuGraphNodeGetDependencies in it, the edges into a node come in the order of its
    dependencies. ``name`` is what the workload calls it. ``device_launch`` is the driver's answer
    to instantiating it for launches from the device; None for bodies, and where it was not asked.
    ``captured_as``: which of the captures in the capture's trace made it, counted from 0; None
    where a range of the collector tells, or nothing does.
    """

    id: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    read_by: str
    parent: tuple[str, Count] | None = None
    name: str | None = None
    device_launch: DriverAnswer | None = None
    captured_as: Count | None = None
