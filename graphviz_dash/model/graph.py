"""A captured CUDA graph as the driver describes it: nodes in creation order, edges with their data.

Source of the terms: the CUDA driver API, section "Graph Management" (CUgraphNodeType,
CUgraphEdgeData).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

Count: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Dim3: TypeAlias = tuple[Count, Count, Count]


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


class KernelParams(Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="kernel"):
    """Launch parameters of a kernel node.

    ``name`` is as the driver gives it (mangled), ``demangled`` as c++filt would print it. Shared
    memory in bytes: ``dynamic_shared`` from the launch, ``static_shared`` from the function's
    attributes (None where the driver does not tell); a trace shows their sum.
    """

    name: str
    demangled: str
    grid: Dim3
    block: Dim3
    dynamic_shared: Count
    static_shared: Count | None = None
    registers: Count | None = None


class MemcpyParams(Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="memcpy"):
    """A copy node. Memory types are CUmemorytype in lower case (host, device, array, unified);
    the driver says "unified" for any address it resolves by itself, pinned host memory included.

    ``width`` is in bytes, ``height`` and ``depth`` in rows and slices; ``bytes`` is their product.
    ``direction`` is HtoD, DtoH, DtoD, HtoH by where the addresses live, or "unknown".
    """

    source: str
    target: str
    direction: str
    bytes: Count
    width: Count
    height: Count
    depth: Count


class MemsetParams(Struct, frozen=True, forbid_unknown_fields=True, tag_field="of", tag="memset"):
    """A set node: ``value`` in elements of ``element_bytes``, ``width`` elements by ``height``
    rows; ``bytes`` is the total written."""

    value: Count
    element_bytes: Count
    width: Count
    height: Count
    bytes: Count


Params: TypeAlias = KernelParams | MemcpyParams | MemsetParams


class GraphNode(Struct, frozen=True, forbid_unknown_fields=True):
    """One node. ``index`` is its place in creation order, which is its identity within its graph.

    ``params`` is None for kinds that have none (Empty, events) or whose parameters were not read.
    ``bodies`` are the ids of the graphs it holds (a child graph, the bodies of a conditional).
    """

    index: Count
    kind: NodeKind
    params: Params | None = None
    bodies: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name a reader knows the node by: demangled kernel name, or kind with direction."""
        match self.params:
            case KernelParams(demangled=name):
                return name
            case MemcpyParams(direction=direction):
                return f"Memcpy {direction}"
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


class CapturedGraph(Struct, frozen=True, forbid_unknown_fields=True):
    """A graph read from the driver after capture.

    ``id`` is unique in its run ("graph-0"). ``parent`` names graph and node index that hold this
    graph as a body; None for a graph that is launched by itself. ``read_by`` names the API that
    gave it.
    """

    id: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    read_by: str
    parent: tuple[str, Count] | None = None
