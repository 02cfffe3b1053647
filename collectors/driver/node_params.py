"""Read the parameters of graph nodes from the driver.

Source: CUDA driver API, "Graph Management", cuGraph*NodeGetParams.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

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


class ParamsReader:
    """Reads node parameters, for a graph and all its bodies, in creation order.

    Addresses and handles are numbered by first appearance.
    """

    def __init__(self) -> None:
        self._events = _Numbering()
        self._semaphores = _Numbering()
        self._launching: dict[int, bool | None] = {}
        self._devices: dict[int, int] = {}

    def read_all(self, handles: list[Any], kinds: list[NodeKind]) -> list[Params | None]:
        """Return the parameters of one graph's nodes, in creation order.

        None for kinds without parameters and for conditional nodes.

        Raises:
            DriverError: The driver refused a query.
        """
        allocated: dict[int, int] = {}
        params_of_nodes: list[Params | None] = []
        for index, (handle, kind) in enumerate(zip(handles, kinds, strict=True)):
            match kind:
                case NodeKind.MEM_ALLOC:
                    params = call(driver.cuGraphMemAllocNodeGetParams, handle)
                    allocated[int(params.dptr)] = index
                    device = int(params.poolProps.location.id)
                    params_of_nodes.append(
                        MemAllocParams(bytes=int(params.bytesize), device=device)
                    )
                case NodeKind.MEM_FREE:
                    address = int(call(driver.cuGraphMemFreeNodeGetParams, handle))
                    # A freed address may be allocated again.
                    params_of_nodes.append(MemFreeParams(allocated_by=allocated.pop(address, None)))
                case _:
                    params_of_nodes.append(self._read(handle, kind))
        return params_of_nodes

    def _read(self, handle: Any, kind: NodeKind) -> Params | None:
        readers: dict[NodeKind, Callable[[Any], Params]] = {
            NodeKind.KERNEL: self._read_kernel,
            NodeKind.MEMCPY: _read_memcpy,
            NodeKind.MEMSET: _read_memset,
            NodeKind.HOST: _read_host,
            NodeKind.BATCH_MEM_OP: _read_batch_mem_op,
            NodeKind.EVENT_RECORD: lambda node: EventParams(
                self._events[int(call(driver.cuGraphEventRecordNodeGetEvent, node))]
            ),
            NodeKind.EVENT_WAIT: lambda node: EventParams(
                self._events[int(call(driver.cuGraphEventWaitNodeGetEvent, node))]
            ),
            NodeKind.SEMAPHORE_SIGNAL: lambda node: self._read_semaphore(
                call(driver.cuGraphExternalSemaphoresSignalNodeGetParams, node)
            ),
            NodeKind.SEMAPHORE_WAIT: lambda node: self._read_semaphore(
                call(driver.cuGraphExternalSemaphoresWaitNodeGetParams, node)
            ),
        }
        return readers[kind](handle) if kind in readers else None

    def _read_kernel(self, handle: Any) -> KernelParams:
        params = call(driver.cuGraphKernelNodeGetParams, handle)
        function = params.func
        if int(function) == 0:
            # Launched through the library API (cuKernel): get the function of the context.
            name = call(driver.cuKernelGetName, params.kern)
            function = call(driver.cuKernelGetFunction, params.kern)
        else:
            name = call(driver.cuFuncGetName, function)
        mangled = name.decode("utf-8", "replace")
        if int(function) not in self._launching:
            self._launching[int(function)] = uses_dynamic_parallelism(params, handle)
        attribute = driver.CUfunction_attribute
        launch = driver.CUkernelNodeAttrID
        read = driver.cuGraphKernelNodeGetAttribute
        return KernelParams(
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
            dynamic_parallelism=self._launching[int(function)],
        )

    def find_device(self, handle: Any, kind: NodeKind) -> int | None:
        """Return the device of a node, or None if unknown.

        Copies and sets run on the device of their memory.
        """
        match kind:
            case NodeKind.KERNEL:
                context = call(driver.cuGraphKernelNodeGetParams, handle).ctx
                if not int(context):
                    return None
                if int(context) not in self._devices:
                    self._devices[int(context)] = _get_context_device(context)
                return self._devices[int(context)]
            case NodeKind.MEMCPY:
                params = call(driver.cuGraphMemcpyNodeGetParams, handle)
                sides = (
                    (int(params.dstMemoryType), int(params.dstDevice)),
                    (int(params.srcMemoryType), int(params.srcDevice)),
                )
                return next((_find_device_at(at) for of, at in sides if of in _ON_DEVICE), None)
            case NodeKind.MEMSET:
                return _find_device_at(int(call(driver.cuGraphMemsetNodeGetParams, handle).dst))
            case _:
                return None

    def _read_semaphore(self, params: Any) -> SemaphoreParams:
        raw = _SemaphoreNode.from_address(params.getPtr())
        return SemaphoreParams(
            semaphores=tuple(self._semaphores[item] for item in raw.semaphores[: raw.count]),
            values=tuple(item.value for item in raw.params[: raw.count]),
        )


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


def _read_memcpy(handle: Any) -> MemcpyParams:
    params = call(driver.cuGraphMemcpyNodeGetParams, handle)
    source_type = _MEMORY_TYPES[int(params.srcMemoryType)]
    target_type = _MEMORY_TYPES[int(params.dstMemoryType)]
    source = _find_side(source_type, int(params.srcDevice))
    target = _find_side(target_type, int(params.dstDevice))
    width, height, depth = params.WidthInBytes, params.Height, params.Depth
    return MemcpyParams(
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


def _read_memset(handle: Any) -> MemsetParams:
    params = call(driver.cuGraphMemsetNodeGetParams, handle)
    return MemsetParams(
        value=params.value,
        element_bytes=params.elementSize,
        width=params.width,
        height=params.height,
        bytes=params.elementSize * params.width * params.height,
    )


def _read_batch_mem_op(handle: Any) -> BatchMemOpParams:
    params = call(driver.cuGraphBatchMemOpNodeGetParams, handle)
    raw = _BatchNode.from_address(params.getPtr())
    # The kind is a 32-bit enumeration, followed by 32 bits of padding.
    kinds = [operation.kind & 0xFFFFFFFF for operation in raw.operations[: raw.count]]
    names = [driver.CUstreamBatchMemOpType(kind).name for kind in kinds]
    words = (name.removeprefix(_OPERATION).lower().replace("_", " ") for name in names)
    return BatchMemOpParams(operations=tuple(words))


class _Symbol(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def _read_host(handle: Any) -> HostParams:
    return find_host_function(int(call(driver.cuGraphHostNodeGetParams, handle).fn))


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
