"""Read the driver's ids of graphs and nodes, which records use to name nodes.

Needs cupti-python, or torch 2.12 and CUDA 13.1 for ``CUDAGraph.get_graph_data``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from cuda.bindings import driver

from collectors.driver.topology import call
from graphviz_dash.model.node_ids import GraphIds

_LOW_BITS: Final = 0xFFFF_FFFF


def get_torch_ids(graphs: Mapping[str, Any]) -> tuple[GraphIds, ...]:
    """Return the ids of captured torch.cuda.CUDAGraph objects, none if torch or driver is too old.

    Excludes child graphs.
    """
    ids = []
    for name, graph in graphs.items():
        if not hasattr(graph, "get_graph_data"):
            return ()
        try:
            data = graph.get_graph_data()
        except RuntimeError:
            # The driver lacks cudaGraphNodeGetToolsId.
            return ()
        if nodes := data["nodes"]:
            numbers = tuple(node["node_id"] for node in nodes)
            ids.append(GraphIds(name, (data["exec_graph_id"],), numbers))
    return tuple(ids)


def read_cupti_ids(cupti: ModuleType, graphs: Mapping[str, Any]) -> tuple[GraphIds, ...]:
    """Return the ids of captured and instantiated torch.cuda.CUDAGraph objects.

    Raises:
        DriverError: The driver refused a query.
    """
    ids = []
    for name, graph in graphs.items():
        handle = driver.CUgraph(graph.raw_cuda_graph())
        _, count = call(driver.cuGraphGetNodes, handle, 0)
        # torch.compile's CUDA graph trees make an empty capture once to create their memory pool.
        if not count:
            continue
        nodes = call(driver.cuGraphGetNodes, handle, count)[0]
        numbers = tuple(cupti.get_graph_node_id(int(node)) & _LOW_BITS for node in nodes)
        exec_id = int(cupti.get_graph_exec_id(graph.raw_cuda_graph_exec()))
        ids.append(GraphIds(name, (exec_id,), numbers))
    return tuple(ids)
