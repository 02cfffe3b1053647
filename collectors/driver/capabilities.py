"""What the driver allows to be done with a graph after its capture, asked of the driver itself:
launching it from the device, updating an executable of it to another graph, switching nodes off.

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
from graphviz_dash.model.graph import DriverAnswer, NodeKind
from graphviz_dash.model.run import GraphUpdate

Places: TypeAlias = Mapping[int, tuple[str, int]]
"""Where each node handle of a graph and its bodies is: id of its graph, and index."""

SWITCHABLE: Final = frozenset({NodeKind.KERNEL, NodeKind.MEMCPY, NodeKind.MEMSET})
"""The kinds that an executable can switch off."""

_INSTANTIATED: Final = "CUDA_GRAPH_INSTANTIATE_"
_UPDATED: Final = "CU_GRAPH_EXEC_UPDATE_"


def ask_device_launch(graph: Any, places: Places) -> DriverAnswer:
    """The answer to instantiating ``graph`` for launches from the device; what came of it is
    destroyed at once."""
    params = driver.CUDA_GRAPH_INSTANTIATE_PARAMS()
    params.flags = int(driver.CUgraphInstantiate_flags.CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
    status, executable = driver.cuGraphInstantiateWithParams(graph, params)
    if int(status) == 0:
        call(driver.cuGraphExecDestroy, executable)
        return DriverAnswer("SUCCESS")
    name, node = _node_of(places, int(params.hErrNode_out or 0))
    result = driver.CUgraphInstantiateResult(params.result_out).name.removeprefix(_INSTANTIATED)
    return DriverAnswer(result, name, node)


def _node_of(places: Places, handle: int) -> tuple[str, int] | tuple[None, None]:
    return places.get(handle, (None, None))


def launches_kernels(params: Any, node: Any) -> bool | None:
    """Whether the kernel of a node uses dynamic parallelism; None where the driver does not say.

    No attribute of a function tells. But of a graph that is this kernel alone, dynamic parallelism
    is the one thing that keeps the driver from instantiating it for launches from the device, as
    long as the launch is not cooperative.
    """
    graph = call(driver.cuGraphCreate, 0)
    try:
        alone = call(driver.cuGraphAddKernelNode, graph, None, 0, params)
        call(driver.cuGraphKernelNodeCopyAttributes, alone, node)
        answer = ask_device_launch(graph, {})
    except DriverError:
        return None
    finally:
        call(driver.cuGraphDestroy, graph)
    return {"SUCCESS": False, "NODE_OPERATION_NOT_SUPPORTED": True}.get(answer.result)


def enabled(executable: int, node: int) -> bool:
    """Whether ``executable`` runs a kernel, copy or set node of the graph that it was made from;
    both by their handles."""
    handles = driver.CUgraphExec(executable), driver.CUgraphNode(node)
    return bool(call(driver.cuGraphNodeGetEnabled, *handles))


class _UpdateInfo(ctypes.Structure):
    """CUgraphExecUpdateResultInfo."""

    _fields_ = [
        ("result", ctypes.c_int),
        ("node", ctypes.c_void_p),
        ("from_node", ctypes.c_void_p),
    ]


def _update(executable: Any, graph: Any) -> _UpdateInfo:
    """cuGraphExecUpdate; cuda-python drops the details of a refusal, so it is called directly."""
    info = _UpdateInfo()
    ctypes.CDLL("libcuda.so.1").cuGraphExecUpdate_v2(
        ctypes.c_void_p(int(executable)), ctypes.c_void_p(int(graph)), ctypes.byref(info)
    )
    return info


def ask_update(of: tuple[str, Any], by: tuple[str, Any], places: Places, times: int) -> GraphUpdate:
    """The answer to updating an executable of the graph ``of`` to the graph ``by``, each given as
    id and handle, and what that takes beside instantiating ``by`` anew, ``times`` times each.

    ``places`` are those of ``by``. An executable that was updated once is updated again: the
    driver compares parameters each time.

    Raises:
        DriverError: one of the graphs cannot be instantiated.
    """
    updates, instantiations = [], []
    with _executable(of[1]) as executable:
        info = _update(executable, by[1])
        for _ in range(times):
            begin = time.perf_counter_ns()
            driver.cuGraphExecUpdate(executable, by[1])
            updates.append(time.perf_counter_ns() - begin)
    for _ in range(times):
        begin = time.perf_counter_ns()
        _, anew = driver.cuGraphInstantiate(by[1], 0)
        instantiations.append(time.perf_counter_ns() - begin)
        call(driver.cuGraphExecDestroy, anew)
    result = driver.CUgraphExecUpdateResult(info.result).name.removeprefix(_UPDATED)
    name, node = _node_of(places, info.node or 0)
    _, back = _node_of(places, info.from_node or 0)
    answer = DriverAnswer(result, name, node, back)
    return GraphUpdate(of[0], by[0], answer, tuple(updates), tuple(instantiations))


@contextmanager
def _executable(graph: Any) -> Iterator[Any]:
    executable = call(driver.cuGraphInstantiate, graph, 0)
    try:
        yield executable
    finally:
        call(driver.cuGraphExecDestroy, executable)
