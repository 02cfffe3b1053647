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
    """Launch parameters of a kernel node. What is None was not read, unless its field says
    otherwise."""

    name: str
    """As the driver gives it, mangled."""
    demangled: str
    """As c++filt would print it."""
    grid: Dim3 | None
    """Blocks in each direction; None only in imported graphs, whose source may tell no more than
    names."""
    block: Dim3 | None
    """Threads of a block in each direction; None as ``grid``."""
    dynamic_shared: Count | None
    """Shared memory of the launch, in bytes; a trace shows the sum with ``static_shared``. None as
    ``grid``."""
    static_shared: Count | None = None
    """Shared memory by the function's attributes, in bytes."""
    registers: Count | None = None
    """Of a thread."""
    cluster: Dim3 | None = None
    """The size of its thread block clusters in blocks; None also where the launch sets none."""
    cooperative: bool | None = None
    """Whether all blocks run at once."""
    priority: int | None = None
    """The launch's; lower numbers go first."""
    dynamic_parallelism: bool | None = None
    """Whether the kernel launches kernels itself."""


class MemcpyParams(Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="memcpy"):
    """A copy node. Memory types are CUmemorytype in lower case (host, device, array, unified); the
    driver says "unified" for any address it resolves by itself, pinned host memory included."""

    source: str
    """The memory type that is read."""
    target: str
    """The memory type that is written."""
    direction: str
    """HtoD, DtoH, DtoD, HtoH by where the addresses live, or "unknown"."""
    bytes: Count
    """The product of width, height and depth."""
    width: Count
    """Of a row, in bytes."""
    height: Count
    """In rows."""
    depth: Count
    """In slices."""
    pageable: bool | None = None
    """Whether an operand lies in host memory that is not pinned; None where it was not read."""


class MemsetParams(Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="memset"):
    """A set node. All but ``bytes`` are None only in imported graphs, where a trace tells no
    more."""

    value: Count | None
    """What each element is set to."""
    element_bytes: Count | None
    """The size of an element."""
    width: Count | None
    """Of a row, in elements."""
    height: Count | None
    """In rows."""
    bytes: Count
    """The total written."""


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
    """One node."""

    index: Count
    """Its position in creation order, which is its identity within its graph."""
    kind: NodeKind
    """What it does."""
    params: Params | None = None
    """None for kinds that have none (Empty, ChildGraph) or whose parameters were not read."""
    bodies: tuple[str, ...] = ()
    """The ids of the graphs it holds: a child graph, or the bodies of a conditional in the order of
    their values (the first of an If runs when it is not zero)."""
    enabled: bool | None = None
    """Whether the executable runs it (a kernel, copy or set can be disabled there); None for
    other kinds, and where it was not read."""
    device: Count | None = None
    """Ordinal of the device that it runs on; None for kinds without one, and where it was not
    read."""
    operands: tuple[Operand, ...] | None = None
    """All memory that the node's arguments give it access to, in order and without overlaps,
    whether it reads, writes or leaves it; None where that is not known. What a kernel reaches
    through addresses that lie in memory, or through global variables, is not in it."""

    @property
    def label(self) -> str:
        """The name a reader knows the node by: see :func:`node_label`."""
        return node_label(self.kind, self.params)


def node_label(kind: NodeKind, params: Params | None) -> str:
    """The name a reader knows a node by: demangled kernel name, or kind with direction."""
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
    """The index of the upstream node."""
    target: Count
    """The index of the node that waits."""
    from_port: Count = 0
    """0 is completion of the upstream node, other values as the node kind defines (1 programmatic,
    2 launch order for kernels)."""
    to_port: Count = 0
    """0 for all kinds so far."""
    type: EdgeType = EdgeType.FULL
    """Whether programmatic launch may relax it."""


class DriverAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """What the driver said to an attempt."""

    result: str
    """The result's name without its prefix, "SUCCESS" when it was done."""
    graph: str | None = None
    """The id of the offending node's graph; None where no node was named."""
    node: Count | None = None
    """The index of the offending node; None where none was named."""
    from_node: Count | None = None
    """The dependency of that node that does not match; None where none was named."""


class CapturedGraph(Struct, frozen=True, forbid_unknown_fields=True):
    """A graph read from the driver after capture."""

    id: str
    """Unique in its run ("graph-0")."""
    nodes: tuple[GraphNode, ...]
    """In creation order."""
    edges: tuple[GraphEdge, ...]
    """Between nodes, by their indices."""
    read_by: str
    """The API that gave it; with cuGraphNodeGetDependencies in it, the edges into a node come in
    the order of its dependencies."""
    parent: tuple[str, Count] | None = None
    """Id of the graph, and index of the node in it, that hold this graph as a body; None for a
    graph that is launched by itself."""
    name: str | None = None
    """What the workload calls it; None where it does not."""
    device_launch: DriverAnswer | None = None
    """The driver's answer to instantiating it for launches from the device; None for bodies, and
    where it was not asked."""
    captured_as: Count | None = None
    """Which of the captures in the capture's trace made it, counted from 0; None where a range of
    the collector tells, or nothing does."""
    captured_in: Count = 0
    """Which of the traces of captures shows its own, counted from 0; engines write one for each
    batch size."""
