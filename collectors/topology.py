"""The topology of a captured graph, read from the driver through cuda-python.

Source: CUDA driver API, "Graph Management". Nodes come in creation order, which identifies them.
"""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver

from collectors.demangle import demangle
from graphviz_dash.model.graph import (
    CapturedGraph,
    EdgeType,
    GraphEdge,
    GraphNode,
    KernelParams,
    MemcpyParams,
    MemsetParams,
    NodeKind,
    Params,
)

_KINDS = {
    "CU_GRAPH_NODE_TYPE_KERNEL": NodeKind.KERNEL,
    "CU_GRAPH_NODE_TYPE_MEMCPY": NodeKind.MEMCPY,
    "CU_GRAPH_NODE_TYPE_MEMSET": NodeKind.MEMSET,
    "CU_GRAPH_NODE_TYPE_HOST": NodeKind.HOST,
    "CU_GRAPH_NODE_TYPE_GRAPH": NodeKind.CHILD_GRAPH,
    "CU_GRAPH_NODE_TYPE_EMPTY": NodeKind.EMPTY,
    "CU_GRAPH_NODE_TYPE_WAIT_EVENT": NodeKind.EVENT_WAIT,
    "CU_GRAPH_NODE_TYPE_EVENT_RECORD": NodeKind.EVENT_RECORD,
    "CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL": NodeKind.SEMAPHORE_SIGNAL,
    "CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT": NodeKind.SEMAPHORE_WAIT,
    "CU_GRAPH_NODE_TYPE_MEM_ALLOC": NodeKind.MEM_ALLOC,
    "CU_GRAPH_NODE_TYPE_MEM_FREE": NodeKind.MEM_FREE,
    "CU_GRAPH_NODE_TYPE_BATCH_MEM_OP": NodeKind.BATCH_MEM_OP,
    "CU_GRAPH_NODE_TYPE_CONDITIONAL": NodeKind.CONDITIONAL,
}

_MEMORY_TYPES = {1: "host", 2: "device", 3: "array", 4: "unified"}
_SIDES = {"host": "H", "device": "D", "array": "D"}


class DriverError(RuntimeError):
    """A call of the CUDA driver returned something other than success."""


def call(function: Any, *arguments: Any) -> Any:
    """Calls a cuda-bindings function; its result without the status.

    Raises:
        DriverError: the status was not success; the message names function and status.
    """
    status, *results = function(*arguments)
    if int(status) != 0:
        raise DriverError(f"{function.__name__} returned {status.name} ({int(status)})")
    return results[0] if len(results) == 1 else tuple(results)


def read_graph(handle: int, graph_id: str) -> tuple[CapturedGraph, ...]:
    """The graph behind a CUgraph ``handle`` and, after it, the bodies of its child graph nodes.

    Args:
        handle: the CUgraph as an integer; the graph stays the caller's.
        graph_id: the id the graph gets; a child's is ``<graph_id>.<node index>``.

    Raises:
        DriverError: the driver refused a query.
    """
    return _read(driver.CUgraph(handle), graph_id, None)


def _read(graph: Any, graph_id: str, parent: tuple[str, int] | None) -> tuple[CapturedGraph, ...]:
    handles = _nodes(graph)
    children: list[CapturedGraph] = []
    nodes = []
    for index, handle in enumerate(handles):
        kind = _KINDS[call(driver.cuGraphNodeGetType, handle).name]
        bodies: tuple[str, ...] = ()
        if kind is NodeKind.CHILD_GRAPH:
            child_id = f"{graph_id}.{index}"
            body = call(driver.cuGraphChildGraphNodeGetGraph, handle)
            children.extend(_read(body, child_id, (graph_id, index)))
            bodies = (child_id,)
        nodes.append(GraphNode(index, kind, _params(handle, kind), bodies))
    whole = CapturedGraph(
        id=graph_id,
        nodes=tuple(nodes),
        edges=_edges(graph, {int(handle): index for index, handle in enumerate(handles)}),
        read_by="cuGraphGetNodes, cuGraphGetEdges",
        parent=parent,
    )
    return (whole, *children)


def _nodes(graph: Any) -> list[Any]:
    _, count = call(driver.cuGraphGetNodes, graph, 0)
    return list(call(driver.cuGraphGetNodes, graph, count)[0]) if count else []


def _edges(graph: Any, index_of: dict[int, int]) -> tuple[GraphEdge, ...]:
    # CUDA 12's bindings give edge data under the _v2 name only.
    query = getattr(driver, "cuGraphGetEdges_v2", driver.cuGraphGetEdges)
    count = call(query, graph, 0)[-1]
    if not count:
        return ()
    sources, targets, data, _ = call(query, graph, count)
    return tuple(
        GraphEdge(
            source=index_of[int(source)],
            target=index_of[int(target)],
            from_port=int(extra.from_port),
            to_port=int(extra.to_port),
            type=EdgeType.PROGRAMMATIC if int(extra.type) == 1 else EdgeType.FULL,
        )
        for source, target, extra in zip(sources, targets, data, strict=True)
    )


def _params(handle: Any, kind: NodeKind) -> Params | None:
    match kind:
        case NodeKind.KERNEL:
            return _kernel(call(driver.cuGraphKernelNodeGetParams, handle))
        case NodeKind.MEMCPY:
            return _memcpy(call(driver.cuGraphMemcpyNodeGetParams, handle))
        case NodeKind.MEMSET:
            return _memset(call(driver.cuGraphMemsetNodeGetParams, handle))
        case _:
            return None


def _kernel(params: Any) -> KernelParams:
    function = params.func
    if int(function) == 0:
        # Launched through the library API (cuKernel): the function is that of the current context.
        name = call(driver.cuKernelGetName, params.kern)
        function = call(driver.cuKernelGetFunction, params.kern)
    else:
        name = call(driver.cuFuncGetName, function)
    mangled = name.decode("utf-8", "replace")
    attribute = driver.CUfunction_attribute
    return KernelParams(
        name=mangled,
        demangled=demangle(mangled),
        grid=(params.gridDimX, params.gridDimY, params.gridDimZ),
        block=(params.blockDimX, params.blockDimY, params.blockDimZ),
        dynamic_shared=params.sharedMemBytes,
        static_shared=call(
            driver.cuFuncGetAttribute, attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function
        ),
        registers=call(driver.cuFuncGetAttribute, attribute.CU_FUNC_ATTRIBUTE_NUM_REGS, function),
    )


def _memcpy(params: Any) -> MemcpyParams:
    source_type = _MEMORY_TYPES[int(params.srcMemoryType)]
    target_type = _MEMORY_TYPES[int(params.dstMemoryType)]
    source = _side(source_type, int(params.srcDevice))
    target = _side(target_type, int(params.dstDevice))
    width, height, depth = params.WidthInBytes, params.Height, params.Depth
    return MemcpyParams(
        source=source_type,
        target=target_type,
        direction=f"{source}to{target}" if source and target else "unknown",
        bytes=width * height * depth,
        width=width,
        height=height,
        depth=depth,
    )


def _side(memory_type: str, address: int) -> str | None:
    """H or D for where the memory lies; a unified address is asked of the driver."""
    if memory_type != "unified":
        return _SIDES[memory_type]
    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    status, place = driver.cuPointerGetAttribute(attribute, address)
    # Pageable host memory is unknown to the driver, which then answers "invalid value".
    if int(status) != 0:
        return None
    return _SIDES.get(_MEMORY_TYPES.get(int(place), ""))


def _memset(params: Any) -> MemsetParams:
    return MemsetParams(
        value=params.value,
        element_bytes=params.elementSize,
        width=params.width,
        height=params.height,
        bytes=params.elementSize * params.width * params.height,
    )
