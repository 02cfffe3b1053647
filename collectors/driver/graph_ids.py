"""The ids that the driver gives to graphs and their nodes, by which a record names its node.

From cupti-python on any driver; from torch's ``CUDAGraph.get_graph_data`` where torch (2.12) and
driver (CUDA 13.1) are new enough, which is also when a trace of torch.profiler has such ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from cuda.bindings import driver

from collectors.driver.topology import call
from graphviz_dash.model.node_ids import GraphIds

_LOW: Final = 0xFFFF_FFFF


def ids_from_torch(graphs: Mapping[str, Any]) -> tuple[GraphIds, ...]:
    """The ids of captured torch.cuda.CUDAGraph objects, none where torch or driver are too old.

    ``get_graph_data`` (torch 2.12) returns ``exec_graph_id`` and, for each node in creation order,
    ``node_id``; it does not descend into child graphs, and neither does this.
    """
    ids = []
    for name, graph in graphs.items():
        if not hasattr(graph, "get_graph_data"):
            return ()
        try:
            data = graph.get_graph_data()
        except RuntimeError:
            # The driver lacks cudaGraphNodeGetToolsId; torch raises this and says so.
            return ()
        if nodes := data["nodes"]:
            numbers = tuple(node["node_id"] for node in nodes)
            ids.append(GraphIds(name, (data["exec_graph_id"],), numbers))
    return tuple(ids)


def ids_from_cupti(cupti: ModuleType, graphs: Mapping[str, Any]) -> tuple[GraphIds, ...]:
    """The ids of captured and instantiated torch.cuda.CUDAGraph objects.

    Raises:
        DriverError: the driver refused a query.
    """
    ids = []
    for name, graph in graphs.items():
        handle = driver.CUgraph(graph.raw_cuda_graph())
        _, count = call(driver.cuGraphGetNodes, handle, 0)
        # The cudagraph trees capture nothing once, to make their memory pool.
        if not count:
            continue
        nodes = call(driver.cuGraphGetNodes, handle, count)[0]
        numbers = tuple(cupti.get_graph_node_id(int(node)) & _LOW for node in nodes)
        launched = int(cupti.get_graph_exec_id(graph.raw_cuda_graph_exec()))
        ids.append(GraphIds(name, (launched,), numbers))
    return tuple(ids)
