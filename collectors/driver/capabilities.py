"""Ask the driver about device launch, updates and disabled nodes of a captured graph.

Source: CUDA driver API, cuGraphInstantiateWithParams, cuGraphExecUpdate, cuGraphNodeGetEnabled.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from cuda.bindings import driver

from collectors.driver.calls import DriverError, call
from graphviz_dash.model.graph import DriverResult, NodeKind
from graphviz_dash.model.run import GraphUpdate

NodePositions: TypeAlias = Mapping[int, tuple[str, int]]
"""Graph id and index of each node handle."""

SWITCHABLE: Final = frozenset({NodeKind.KERNEL, NodeKind.MEMCPY, NodeKind.MEMSET})
"""Node kinds that an executable can disable."""

_INSTANTIATED: Final = "CUDA_GRAPH_INSTANTIATE_"
_UPDATED: Final = "CU_GRAPH_EXEC_UPDATE_"


def try_device_launch(graph: Any, positions: NodePositions) -> DriverResult:
    """Test whether the driver instantiates ``graph`` for device launches."""
    params = driver.CUDA_GRAPH_INSTANTIATE_PARAMS()
    params.flags = int(driver.CUgraphInstantiate_flags.CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
    status, executable = driver.cuGraphInstantiateWithParams(graph, params)
    if int(status) == 0:
        call(driver.cuGraphExecDestroy, executable)
        return DriverResult("SUCCESS")
    name, node = _find_node(positions, int(params.hErrNode_out or 0))
    result = driver.CUgraphInstantiateResult(params.result_out).name.removeprefix(_INSTANTIATED)
    return DriverResult(result, name, node)


def _find_node(positions: NodePositions, handle: int) -> tuple[str, int] | tuple[None, None]:
    return positions.get(handle, (None, None))


def uses_dynamic_parallelism(params: Any, node: Any) -> bool | None:
    """Check if a node's kernel uses dynamic parallelism; None if unknown.

    Tests a graph of this kernel alone: only dynamic parallelism prevents its instantiation for
    device launches, unless the launch is cooperative.
    """
    graph = call(driver.cuGraphCreate, 0)
    try:
        node_copy = call(driver.cuGraphAddKernelNode, graph, None, 0, params)
        call(driver.cuGraphKernelNodeCopyAttributes, node_copy, node)
        response = try_device_launch(graph, {})
    except DriverError:
        return None
    finally:
        call(driver.cuGraphDestroy, graph)
    return {"SUCCESS": False, "NODE_OPERATION_NOT_SUPPORTED": True}.get(response.result)


def is_node_enabled(executable: int, node: int) -> bool:
    """Check if ``executable`` runs a node of its source graph; both are handles."""
    handles = driver.CUgraphExec(executable), driver.CUgraphNode(node)
    return bool(call(driver.cuGraphNodeGetEnabled, *handles))


class _UpdateInfo(ctypes.Structure):
    """CUgraphExecUpdateResultInfo."""

    _fields_ = [
        ("result", ctypes.c_int),
        ("node", ctypes.c_void_p),
        ("from_node", ctypes.c_void_p),
    ]


def _update_executable(executable: Any, graph: Any) -> _UpdateInfo:
    """Call cuGraphExecUpdate directly, because cuda-python drops details of a refusal."""
    info = _UpdateInfo()
    ctypes.CDLL("libcuda.so.1").cuGraphExecUpdate_v2(
        ctypes.c_void_p(int(executable)), ctypes.c_void_p(int(graph)), ctypes.byref(info)
    )
    return info


def try_update(
    source: tuple[str, Any], target: tuple[str, Any], positions: NodePositions, repeats: int
) -> GraphUpdate:
    """Test and time updates of a ``source`` executable to ``target``, next to instantiation.

    Graphs are (id, handle); ``positions`` are those of ``target``. Each operation is timed
    ``repeats`` times, updates on the same executable.

    Raises:
        DriverError: One of the graphs cannot be instantiated.
    """
    updates, instantiations = [], []
    with _instantiate(source[1]) as executable:
        info = _update_executable(executable, target[1])
        for _ in range(repeats):
            begin = time.perf_counter_ns()
            driver.cuGraphExecUpdate(executable, target[1])
            updates.append(time.perf_counter_ns() - begin)
    for _ in range(repeats):
        begin = time.perf_counter_ns()
        _, instantiated = driver.cuGraphInstantiate(target[1], 0)
        instantiations.append(time.perf_counter_ns() - begin)
        call(driver.cuGraphExecDestroy, instantiated)
    result = driver.CUgraphExecUpdateResult(info.result).name.removeprefix(_UPDATED)
    name, node = _find_node(positions, info.node or 0)
    _, source_node = _find_node(positions, info.from_node or 0)
    answer = DriverResult(result, name, node, source_node)
    return GraphUpdate(source[0], target[0], answer, tuple(updates), tuple(instantiations))


@contextmanager
def _instantiate(graph: Any) -> Iterator[Any]:
    executable = call(driver.cuGraphInstantiate, graph, 0)
    try:
        yield executable
    finally:
        call(driver.cuGraphExecDestroy, executable)
