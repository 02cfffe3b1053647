"""Add nodes to a graph through the driver's graph API.

Source: CUDA driver API, "Graph Management". Nodes can also be added to a graph under capture
(cuStreamUpdateCaptureDependencies), so the step runs in every capturing mode.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import torch
from cuda.bindings import driver, nvrtc

from collectors.driver.calls import DriverError, call

Node: TypeAlias = Any
Graph: TypeAlias = Any
Arguments: TypeAlias = tuple[tuple[Any, ...], tuple[Any, ...]]
"""Values and ctypes types of a kernel's parameters, as expected by cuda-python."""

POINTER: Final = ctypes.c_void_p
INT: Final = ctypes.c_int
UINT: Final = ctypes.c_uint
FLOAT: Final = ctypes.c_float
HANDLE: Final = ctypes.c_uint64

_PROGRAMMATIC: Final = 1
"""CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC and CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC."""


class Kernels:
    """CUDA C++ compiled for the current device; look up functions by name."""

    def __init__(self, source: str) -> None:
        # Create torch's context, which modules are loaded into.
        torch.cuda.synchronize()
        major, minor = torch.cuda.get_device_capability()
        options = [f"--gpu-architecture=sm_{major}{minor}".encode(), b"-std=c++17"]
        program = call(nvrtc.nvrtcCreateProgram, source.encode(), b"kernels.cu", 0, [], [])
        try:
            call(nvrtc.nvrtcCompileProgram, program, len(options), options)
        except DriverError as error:
            log = b" " * call(nvrtc.nvrtcGetProgramLogSize, program)
            call(nvrtc.nvrtcGetProgramLog, program, log)
            raise RuntimeError(log.decode("utf-8", "replace")) from error
        code = b" " * call(nvrtc.nvrtcGetCUBINSize, program)
        call(nvrtc.nvrtcGetCUBIN, program, code)
        self._module = call(driver.cuModuleLoadData, code)

    def __getitem__(self, name: str) -> Any:
        return call(driver.cuModuleGetFunction, self._module, name.encode())


class GraphBuilder:
    """Adds nodes to ``graph``; a new node depends on the nodes ``after``.

    Raises, from every method:
        DriverError: The driver refused the node.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._context = call(driver.cuCtxGetCurrent)

    def add_kernel(
        self, function: Any, blocks: int, threads: int, arguments: Arguments, after: Sequence[Node]
    ) -> Node:
        """Add a launch of ``function``."""
        params = driver.CUDA_KERNEL_NODE_PARAMS()
        params.func = function
        params.gridDimX, params.gridDimY, params.gridDimZ = blocks, 1, 1
        params.blockDimX, params.blockDimY, params.blockDimZ = threads, 1, 1
        params.kernelParams = arguments
        return call(driver.cuGraphAddKernelNode, self.graph, [*after], len(after), params)

    def add_dependent_kernel(
        self, function: Any, blocks: int, threads: int, arguments: Arguments, after: Node
    ) -> Node:
        """Add a kernel that may start once the kernel ``after`` lets dependents launch."""
        params = driver.CUgraphNodeParams()
        params.type = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL
        kernel = params.kernel
        kernel.func = function
        kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ = blocks, 1, 1
        kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ = threads, 1, 1
        kernel.kernelParams = arguments
        edge = driver.CUgraphEdgeData()
        edge.from_port = edge.type = _PROGRAMMATIC
        return call(driver.cuGraphAddNode, self.graph, [after], [edge], 1, params)

    def add_copy(
        self, target: int, source: int, size: int, kind: str, after: Sequence[Node]
    ) -> Node:
        """Add a copy of ``size`` bytes; ``kind`` is HtoD, DtoD or DtoH."""
        params = driver.CUDA_MEMCPY3D()
        params.WidthInBytes, params.Height, params.Depth = size, 1, 1
        host, device = (
            driver.CUmemorytype.CU_MEMORYTYPE_HOST,
            driver.CUmemorytype.CU_MEMORYTYPE_DEVICE,
        )
        if kind[0] == "H":
            params.srcMemoryType, params.srcHost = host, source
        else:
            params.srcMemoryType, params.srcDevice = device, driver.CUdeviceptr(source)
        if kind[-1] == "H":
            params.dstMemoryType, params.dstHost = host, target
        else:
            params.dstMemoryType, params.dstDevice = device, driver.CUdeviceptr(target)
        arguments = (self.graph, [*after], len(after), params, self._context)
        return call(driver.cuGraphAddMemcpyNode, *arguments)

    def add_fill(self, target: int, value: int, count: int, after: Sequence[Node]) -> Node:
        """Add a set of ``count`` 32-bit words to ``value``."""
        params = driver.CUDA_MEMSET_NODE_PARAMS()
        params.dst, params.value = driver.CUdeviceptr(target), value
        params.elementSize, params.width, params.height = 4, count, 1
        arguments = (self.graph, [*after], len(after), params, self._context)
        return call(driver.cuGraphAddMemsetNode, *arguments)

    def add_allocation(self, size: int, after: Sequence[Node]) -> tuple[Node, int]:
        """Add an allocation on the current device; return node and address."""
        params = driver.CUDA_MEM_ALLOC_NODE_PARAMS()
        params.bytesize = size
        pool = params.poolProps
        pool.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        location = pool.location
        location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        location.id = torch.cuda.current_device()
        pool.location = location
        params.poolProps = pool
        node = call(driver.cuGraphAddMemAllocNode, self.graph, [*after], len(after), params)
        return node, int(params.dptr)

    def add_free(self, address: int, after: Sequence[Node]) -> Node:
        """Add the free of an allocation of this graph."""
        arguments = (self.graph, [*after], len(after), driver.CUdeviceptr(address))
        return call(driver.cuGraphAddMemFreeNode, *arguments)

    def add_host_call(self, function: int, data: int, after: Sequence[Node]) -> Node:
        """Add a call of the C function at address ``function`` with the pointer ``data``."""
        params = driver.CUDA_HOST_NODE_PARAMS()
        params.fn, params.userData = driver.CUhostFn(function), data
        return call(driver.cuGraphAddHostNode, self.graph, [*after], len(after), params)

    def add_empty(self, after: Sequence[Node]) -> Node:
        """Add a node that only joins its dependencies."""
        return call(driver.cuGraphAddEmptyNode, self.graph, [*after], len(after))

    def add_event_record(self, event: Any, after: Sequence[Node]) -> Node:
        """Add a record of ``event``."""
        return call(driver.cuGraphAddEventRecordNode, self.graph, [*after], len(after), event)

    def add_event_wait(self, event: Any, after: Sequence[Node]) -> Node:
        """Add a wait for ``event``."""
        return call(driver.cuGraphAddEventWaitNode, self.graph, [*after], len(after), event)

    def add_signal(self, semaphore: Any, after: Sequence[Node]) -> Node:
        """Add a signal of an external semaphore."""
        params = driver.CUDA_EXT_SEM_SIGNAL_NODE_PARAMS()
        params.extSemArray = [semaphore]
        params.paramsArray = [driver.CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS()]
        params.numExtSems = 1
        arguments = (self.graph, [*after], len(after), params)
        return call(driver.cuGraphAddExternalSemaphoresSignalNode, *arguments)

    def add_signal_wait(self, semaphore: Any, after: Sequence[Node]) -> Node:
        """Add a wait for an external semaphore."""
        params = driver.CUDA_EXT_SEM_WAIT_NODE_PARAMS()
        params.extSemArray = [semaphore]
        params.paramsArray = [driver.CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS()]
        params.numExtSems = 1
        arguments = (self.graph, [*after], len(after), params)
        return call(driver.cuGraphAddExternalSemaphoresWaitNode, *arguments)

    def add_memory_operations(self, operations: Sequence[Any], after: Sequence[Node]) -> Node:
        """Add a batch of memory operations from :func:`build_write` and :func:`build_wait`."""
        params = driver.CUDA_BATCH_MEM_OP_NODE_PARAMS()
        params.ctx, params.flags = self._context, 0
        params.paramArray, params.count = [*operations], len(operations)
        return call(driver.cuGraphAddBatchMemOpNode, self.graph, [*after], len(after), params)

    def add_child(self, graph: Graph, after: Sequence[Node]) -> Node:
        """Add a copy of ``graph`` as one node."""
        return call(driver.cuGraphAddChildGraphNode, self.graph, [*after], len(after), graph)

    def create_condition(self) -> int:
        """Create a conditional handle, 0 at the start of each launch."""
        flags = driver.CU_GRAPH_COND_ASSIGN_DEFAULT
        create = driver.cuGraphConditionalHandleCreate
        return int(call(create, self.graph, self._context, 0, flags))

    def add_conditional(
        self, kind: str, condition: int, size: int, after: Sequence[Node]
    ) -> tuple[Node, list[GraphBuilder]]:
        """Add a conditional node of ``kind`` IF, WHILE or SWITCH; return it with builders of its
        bodies."""
        params = driver.CUgraphNodeParams()
        params.type = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        conditional = params.conditional
        conditional.handle = driver.CUgraphConditionalHandle(condition)
        conditional.type = getattr(driver.CUgraphConditionalNodeType, f"CU_GRAPH_COND_TYPE_{kind}")
        conditional.size, conditional.ctx = size, self._context
        node = call(driver.cuGraphAddNode, self.graph, [*after], None, len(after), params)
        # The driver owns the array while the node lives, so copy the graphs.
        bodies = [driver.CUgraph(int(body)) for body in params.conditional.phGraph_out]
        return node, [GraphBuilder(body) for body in bodies]


def build_write(address: int, value: int) -> Any:
    """Build a 32-bit write for a batch of memory operations."""
    kind = driver.CUstreamBatchMemOpType.CU_STREAM_MEM_OP_WRITE_VALUE_32
    params = driver.CUstreamBatchMemOpParams()
    params.operation = kind
    write = params.writeValue
    write.operation, write.address = kind, driver.CUdeviceptr(address)
    write.value = driver.cuuint32_t(value)
    return params


def build_wait(address: int, value: int) -> Any:
    """Build a wait until a 32-bit word equals ``value``, for a batch of memory operations."""
    kind = driver.CUstreamBatchMemOpType.CU_STREAM_MEM_OP_WAIT_VALUE_32
    params = driver.CUstreamBatchMemOpParams()
    params.operation = kind
    wait = params.waitValue
    wait.operation, wait.address = kind, driver.CUdeviceptr(address)
    wait.value = driver.cuuint32_t(value)
    wait.flags = int(driver.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_EQ)
    return params


@contextmanager
def create_graph() -> Iterator[GraphBuilder]:
    """Create a temporary graph to embed in another, which copies it."""
    graph = call(driver.cuGraphCreate, 0)
    try:
        yield GraphBuilder(graph)
    finally:
        call(driver.cuGraphDestroy, graph)


def get_capture_builder(stream: Any) -> tuple[GraphBuilder, list[Node]]:
    """Return a builder for the captured graph of ``stream``, and the next node's dependencies."""
    info = call(driver.cuStreamGetCaptureInfo, stream)
    return GraphBuilder(info[2]), list(info[3] or ())


def continue_after(stream: Any, nodes: Iterable[Node]) -> None:
    """Make the next captured node of ``stream`` depend only on ``nodes``."""
    listed = [*nodes]
    replace = driver.CUstreamUpdateCaptureDependencies_flags.CU_STREAM_SET_CAPTURE_DEPENDENCIES
    update = driver.cuStreamUpdateCaptureDependencies
    call(update, stream, listed, None, len(listed), int(replace))
