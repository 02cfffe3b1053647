"""Read the topology of a captured graph from the driver through cuda-python.

Source: CUDA driver API, "Graph Management". Creation order identifies the nodes.
"""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver

from collectors.driver.bodies import BY_DOT, BodyFinder
from collectors.driver.calls import DriverError, call
from collectors.driver.node_operands import OperandReader
from collectors.driver.node_params import ParamsReader
from collectors.driver.operands import AllocationResolver
from graphviz_dash.model.graph import (
    CapturedGraph,
    ConditionalParams,
    EdgeType,
    GraphEdge,
    GraphNode,
    NodeKind,
    Params,
)

__all__ = ["DriverError", "call", "read_graph"]

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

_BY_GRAPH = "cuGraphGetNodes, cuGraphNodeGetDependencies"


def has_conditional(graph: Any) -> bool:
    """Check if a graph, without its nested graphs, has conditional nodes."""
    return any(
        call(driver.cuGraphNodeGetType, node).name == "CU_GRAPH_NODE_TYPE_CONDITIONAL"
        for node in _list_nodes(driver.CUgraph(int(graph)))
    )


def read_graph(handle: int, graph_id: str) -> tuple[CapturedGraph, ...]:
    """Read a graph like :func:`read_graph_with_positions`, without node positions."""
    return read_graph_with_positions(handle, graph_id)[0]


def read_graph_with_positions(
    handle: int, graph_id: str, resolver: AllocationResolver | None = None
) -> tuple[tuple[CapturedGraph, ...], dict[int, tuple[str, int]]]:
    """Read the graph of a CUgraph ``handle``, then its child graphs and conditional bodies,
    recursively.

    Also returns graph id and index of each node handle. Edges into a node are in the order of its
    dependencies.

    Args:
        handle: The CUgraph; the caller keeps ownership.
        graph_id: Id of the graph. A child graph gets ``<graph_id>.<node index>``, a conditional's
            body ``<graph_id>.<node index>.<body index>``.
        resolver: Resolves operands; None skips them.

    Raises:
        DriverError: The driver refused a query.
    """
    root = driver.CUgraph(handle)
    reader = _GraphReader(root, None if resolver is None else OperandReader(resolver))
    return reader.read_graph(root, graph_id, None), reader.positions


class _GraphReader:
    """Reads a graph and its nested graphs, with shared numbering of events and semaphores."""

    def __init__(self, root: Any, operands: OperandReader | None) -> None:
        self._params = ParamsReader()
        self._operands = operands
        self._bodies = BodyFinder(root)
        self.positions: dict[int, tuple[str, int]] = {}

    def read_graph(
        self, graph: Any, graph_id: str, parent: tuple[str, int] | None
    ) -> tuple[CapturedGraph, ...]:
        return self._read(_list_nodes(graph), graph_id, _BY_GRAPH, parent)

    def _read_body(
        self, nodes: tuple[int, ...], graph_id: str, parent: tuple[str, int]
    ) -> tuple[CapturedGraph, ...]:
        handles = [driver.CUgraphNode(node) for node in nodes]
        return self._read(handles, graph_id, BY_DOT, parent)

    def _read(
        self,
        handles: list[Any],
        graph_id: str,
        read_by: str,
        parent: tuple[str, int] | None,
    ) -> tuple[CapturedGraph, ...]:
        kinds = [_KINDS[call(driver.cuGraphNodeGetType, handle).name] for handle in handles]
        facts = self._params.read_all(handles, kinds)
        nested: list[CapturedGraph] = []
        nodes = []
        for index, (handle, kind) in enumerate(zip(handles, kinds, strict=True)):
            params: Params | None = facts[index].params
            bodies: tuple[str, ...] = ()
            holder = (graph_id, index)
            if kind is NodeKind.CHILD_GRAPH:
                bodies = (f"{graph_id}.{index}",)
                child = call(driver.cuGraphChildGraphNodeGetGraph, handle)
                nested += self.read_graph(child, bodies[0], holder)
            elif kind is NodeKind.CONDITIONAL:
                bodies, params = self._read_conditional(handle, holder, nested)
            operands = self._operands.read(handle, kind) if self._operands else None
            device = facts[index].device
            nodes.append(GraphNode(index, kind, params, bodies, device=device, operands=operands))
            self.positions[int(handle)] = holder
        outer = CapturedGraph(graph_id, tuple(nodes), _read_edges(handles), read_by, parent)
        return (outer, *nested)

    def _read_conditional(
        self, handle: Any, holder: tuple[str, int], nested: list[CapturedGraph]
    ) -> tuple[tuple[str, ...], ConditionalParams]:
        """Return body ids and parameters of a conditional; append its bodies to ``nested``."""
        conditional = self._bodies.find(handle)
        if conditional is None:
            return (), ConditionalParams(type=None, size=None)
        size = len(conditional.graphs) or len(conditional.nodes)
        names = tuple(f"{holder[0]}.{holder[1]}.{number}" for number in range(size))
        for name, graph in zip(names, conditional.graphs, strict=False):
            nested += self.read_graph(graph, name, holder)
        for name, nodes in zip(names, conditional.nodes, strict=False):
            nested += self._read_body(nodes, name, holder)
        return names, ConditionalParams(type=conditional.type, size=size)


def _list_nodes(graph: Any) -> list[Any]:
    _, count = call(driver.cuGraphGetNodes, graph, 0)
    return list(call(driver.cuGraphGetNodes, graph, count)[0]) if count else []


def _read_edges(handles: list[Any]) -> tuple[GraphEdge, ...]:
    """Return the edges of a graph in dependency order, which cuGraphGetEdges would sort."""
    query = getattr(driver, "cuGraphNodeGetDependencies_v2", driver.cuGraphNodeGetDependencies)
    index_of = {int(handle): index for index, handle in enumerate(handles)}
    edges = []
    for target, handle in enumerate(handles):
        count = call(query, handle, 0)[-1]
        if not count:
            continue
        sources, data, _ = call(query, handle, count)
        edges += [
            _to_edge(index_of[int(source)], target, extra)
            for source, extra in zip(sources, data, strict=True)
        ]
    return tuple(edges)


def _to_edge(source: int, target: int, data: Any) -> GraphEdge:
    return GraphEdge(
        source=source,
        target=target,
        from_port=int(data.from_port),
        to_port=int(data.to_port),
        type=EdgeType.PROGRAMMATIC if int(data.type) == 1 else EdgeType.FULL,
    )
