"""Read the parameters of graph nodes from the driver.

Source: CUDA driver API, "Graph Management", cuGraph*NodeGetParams.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from cuda.bindings import driver

from collectors.driver.calls import call
from collectors.driver.capabilities import uses_dynamic_parallelism
from graphviz_dash.bundle.demangle import demangle
from graphviz_dash.model.graph import (
    BatchMemOpParams,
    Dim3,
    EventParams,
    HostParams,
    KernelParams,
    MemAllocParams,
    MemcpyParams,
    MemFreeParams,
    MemsetParams,
    NodeKind,
    Params,
    SemaphoreParams,
)

_MEMORY_TYPES = {1: "host", 2: "device", 3: "array", 4: "unified"}
_SIDES = {"host": "H", "device": "D", "array": "D"}
_OPERATION = "CU_STREAM_MEM_OP_"
_HOST, _DEVICE, _UNIFIED = 1, 2, 4
_ON_DEVICE = (_DEVICE, _UNIFIED)


class NodeFacts(NamedTuple):
    """Parameters and device of a node."""

    params: Params | None
    """None for kinds without parameters and for conditional nodes."""
    device: int | None = None
    """None if unknown. Copies and sets run on the device of their memory."""


class ParamsReader:
    """Reads node parameters, for a graph and all its bodies, in creation order.

    Addresses and handles are numbered by first appearance.
    """

    _launching: ClassVar[dict[tuple[int, bytes], bool]] = {}
    """Dynamic parallelism by handle and name of the function. Testing it costs more than all other
    queries of a node, and a program captures the same kernels again and again."""

    def __init__(self) -> None:
        self._events = _Numbering()
        self._semaphores = _Numbering()
        self._devices: dict[int, int] = {}
        self._readers: Mapping[NodeKind, Callable[[Any], NodeFacts]] = {
            NodeKind.KERNEL: self._read_kernel,
            NodeKind.MEMCPY: _read_memcpy,
            NodeKind.MEMSET: _read_memset,
            NodeKind.HOST: _read_host,
            NodeKind.BATCH_MEM_OP: _read_batch_mem_op,
            NodeKind.EVENT_RECORD: partial(self._read_event, driver.cuGraphEventRecordNodeGetEvent),
            NodeKind.EVENT_WAIT: partial(self._read_event, driver.cuGraphEventWaitNodeGetEvent),
            NodeKind.SEMAPHORE_SIGNAL: partial(
                self._read_semaphore, driver.cuGraphExternalSemaphoresSignalNodeGetParams
            ),
            NodeKind.SEMAPHORE_WAIT: partial(
                self._read_semaphore, driver.cuGraphExternalSemaphoresWaitNodeGetParams
            ),
        }

    def read_all(self, handles: list[Any], kinds: list[NodeKind]) -> list[NodeFacts]:
        """Return the facts of one graph's nodes, in creation order.

        Raises:
            DriverError: The driver refused a query.
        """
        allocated: dict[int, int] = {}
        facts: list[NodeFacts] = []
        for index, (handle, kind) in enumerate(zip(handles, kinds, strict=True)):
            match kind:
                case NodeKind.MEM_ALLOC:
                    params = call(driver.cuGraphMemAllocNodeGetParams, handle)
                    allocated[int(params.dptr)] = index
                    device = int(params.poolProps.location.id)
                    facts.append(
                        NodeFacts(MemAllocParams(bytes=int(params.bytesize), device=device))
                    )
                case NodeKind.MEM_FREE:
                    address = int(call(driver.cuGraphMemFreeNodeGetParams, handle))
                    # A freed address may be allocated again.
                    facts.append(
                        NodeFacts(MemFreeParams(allocated_by=allocated.pop(address, None)))
                    )
                case _:
                    read = self._readers.get(kind)
                    facts.append(NodeFacts(None) if read is None else read(handle))
        return facts

    def _read_kernel(self, handle: Any) -> NodeFacts:
        params = call(driver.cuGraphKernelNodeGetParams, handle)
        function = params.func
        if int(function) == 0:
            # Launched through the library API (cuKernel): get the function of the context.
            name = call(driver.cuKernelGetName, params.kern)
            function = call(driver.cuKernelGetFunction, params.kern)
        else:
            name = call(driver.cuFuncGetName, function)
        mangled = name.decode("utf-8", "replace")
        key = (int(function), name)
        launching = self._launching.get(key)
        if launching is None:
            launching = uses_dynamic_parallelism(params, handle)
            if launching is not None:
                self._launching[key] = launching
        attribute = driver.CUfunction_attribute
        launch = driver.CUkernelNodeAttrID
        read = driver.cuGraphKernelNodeGetAttribute
        kernel = KernelParams(
            name=mangled,
            demangled=demangle(mangled),
            grid=(params.gridDimX, params.gridDimY, params.gridDimZ),
            block=(params.blockDimX, params.blockDimY, params.blockDimZ),
            dynamic_shared=params.sharedMemBytes,
            static_shared=call(
                driver.cuFuncGetAttribute, attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function
            ),
            registers=call(
                driver.cuFuncGetAttribute, attribute.CU_FUNC_ATTRIBUTE_NUM_REGS, function
            ),
            cluster=_to_cluster(
                call(read, handle, launch.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).clusterDim
            ),
            cooperative=bool(
                call(read, handle, launch.CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative
            ),
            priority=int(call(read, handle, launch.CU_LAUNCH_ATTRIBUTE_PRIORITY).priority),
            dynamic_parallelism=launching,
        )
        return NodeFacts(kernel, self._find_context_device(params.ctx))

    def _find_context_device(self, context: Any) -> int | None:
        if not int(context):
            return None
        if int(context) not in self._devices:
            self._devices[int(context)] = _get_context_device(context)
        return self._devices[int(context)]

    def _read_event(self, query: Any, handle: Any) -> NodeFacts:
        return NodeFacts(EventParams(self._events[int(call(query, handle))]))

    def _read_semaphore(self, query: Any, handle: Any) -> NodeFacts:
        params = call(query, handle)
        raw = _SemaphoreNode.from_address(params.getPtr())
        semaphores = tuple(self._semaphores[item] for item in raw.semaphores[: raw.count])
        values = tuple(item.value for item in raw.params[: raw.count])
        return NodeFacts(SemaphoreParams(semaphores, values))


# cuda-bindings returns driver-filled arrays as empty lists, so read them in place. The structures
# are those of cuda.h. CUDA_EXT_SEM_SIGNAL_NODE_PARAMS and CUDA_EXT_SEM_WAIT_NODE_PARAMS, and their
# parameters, agree in the fields read here.
class _Fence(ctypes.Structure):
    _fields_ = [("value", ctypes.c_uint64), ("rest", ctypes.c_uint8 * 136)]


class _SemaphoreNode(ctypes.Structure):
    _fields_ = [
        ("semaphores", ctypes.POINTER(ctypes.c_uint64)),
        ("params", ctypes.POINTER(_Fence)),
        ("count", ctypes.c_uint),
    ]


class _Operation(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint64), ("rest", ctypes.c_uint8 * 40)]


class _BatchNode(ctypes.Structure):
    """CUDA_BATCH_MEM_OP_NODE_PARAMS."""

    _fields_ = [
        ("context", ctypes.c_void_p),
        ("count", ctypes.c_uint),
        ("operations", ctypes.POINTER(_Operation)),
    ]


class _Numbering(dict[Hashable, int]):
    """Numbers keys from 0 by first appearance."""

    def __missing__(self, key: Hashable) -> int:
        self[key] = len(self)
        return self[key]


def _to_cluster(size: Any) -> Dim3 | None:
    blocks = (int(size.x), int(size.y), int(size.z))
    return blocks if all(blocks) else None


def _read_memcpy(handle: Any) -> NodeFacts:
    params = call(driver.cuGraphMemcpyNodeGetParams, handle)
    source_type = _MEMORY_TYPES[int(params.srcMemoryType)]
    target_type = _MEMORY_TYPES[int(params.dstMemoryType)]
    source = _find_side(source_type, int(params.srcDevice))
    target = _find_side(target_type, int(params.dstDevice))
    width, height, depth = params.WidthInBytes, params.Height, params.Depth
    copy = MemcpyParams(
        source=source_type,
        target=target_type,
        direction=f"{source}to{target}" if source and target else "unknown",
        bytes=width * height * depth,
        width=width,
        height=height,
        depth=depth,
        pageable=any(
            _is_pageable(int(kind), int(host), int(device))
            for kind, host, device in (
                (params.srcMemoryType, params.srcHost, params.srcDevice),
                (params.dstMemoryType, params.dstHost, params.dstDevice),
            )
        ),
    )
    sides = (
        (int(params.dstMemoryType), int(params.dstDevice)),
        (int(params.srcMemoryType), int(params.srcDevice)),
    )
    devices = (_find_device_at(address) for kind, address in sides if kind in _ON_DEVICE)
    return NodeFacts(copy, next(devices, None))


def _is_pageable(memory_type: int, host: int, device: int) -> bool:
    """Check if a copy operand is pageable host memory, unknown to the driver."""
    if memory_type not in (_HOST, _UNIFIED):
        return False
    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    status, _ = driver.cuPointerGetAttribute(attribute, host if memory_type == _HOST else device)
    return int(status) != 0


def _find_device_at(address: int) -> int | None:
    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    status, ordinal = driver.cuPointerGetAttribute(attribute, address)
    return int(ordinal) if int(status) == 0 and int(ordinal) >= 0 else None


def _get_context_device(context: Any) -> int:
    call(driver.cuCtxPushCurrent, context)
    try:
        return int(call(driver.cuCtxGetDevice))
    finally:
        call(driver.cuCtxPopCurrent)


def _find_side(memory_type: str, address: int) -> str | None:
    if memory_type != "unified":
        return _SIDES[memory_type]
    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    status, memory_type_number = driver.cuPointerGetAttribute(attribute, address)
    # The driver does not know pageable host memory and returns "invalid value".
    if int(status) != 0:
        return None
    return _SIDES.get(_MEMORY_TYPES.get(int(memory_type_number), ""))


def _read_memset(handle: Any) -> NodeFacts:
    params = call(driver.cuGraphMemsetNodeGetParams, handle)
    memset = MemsetParams(
        value=params.value,
        element_bytes=params.elementSize,
        width=params.width,
        height=params.height,
        bytes=params.elementSize * params.width * params.height,
    )
    return NodeFacts(memset, _find_device_at(int(params.dst)))


def _read_batch_mem_op(handle: Any) -> NodeFacts:
    params = call(driver.cuGraphBatchMemOpNodeGetParams, handle)
    raw = _BatchNode.from_address(params.getPtr())
    # The kind is a 32-bit enumeration, followed by 32 bits of padding.
    kinds = [operation.kind & 0xFFFFFFFF for operation in raw.operations[: raw.count]]
    names = [driver.CUstreamBatchMemOpType(kind).name for kind in kinds]
    words = (name.removeprefix(_OPERATION).lower().replace("_", " ") for name in names)
    return NodeFacts(BatchMemOpParams(operations=tuple(words)))


class _Symbol(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def _read_host(handle: Any) -> NodeFacts:
    return NodeFacts(find_host_function(int(call(driver.cuGraphHostNodeGetParams, handle).fn)))


def find_host_function(address: int) -> HostParams:
    """Return the symbol at exactly ``address`` and its library's file name, from dladdr(3)."""
    symbol = _Symbol()
    is_loaded = ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(symbol))
    if not is_loaded:
        return HostParams(None, None)
    exact = symbol.name is not None and symbol.address == address
    return HostParams(
        function=demangle(symbol.name.decode("utf-8", "replace")) if exact else None,
        library=Path(symbol.file.decode("utf-8", "replace")).name if symbol.file else None,
    )
