"""Read the memory that graph nodes may access from the driver.

Source: CUDA driver API, cuGraphKernelNodeGetParams, cuFuncGetParamInfo, cuPointerGetAttribute.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from cuda.bindings import driver

from collectors.driver.calls import call
from collectors.driver.operands import AllocationResolver, Extent, find_addresses, merge_operands
from graphviz_dash.model.graph import NodeKind, Operand

_BUFFER, _SIZE, _END = 1, 2, 0
"""CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END."""

_HOST: Final = 1
_ARRAY: Final = 3


def find_extent(address: int) -> Extent | None:
    """Return the device or pinned allocation that contains ``address``, or None if unknown."""
    attribute = driver.CUpointer_attribute
    status, begin = driver.cuPointerGetAttribute(
        attribute.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address
    )
    if int(status) != 0:
        return None
    status, size = driver.cuPointerGetAttribute(attribute.CU_POINTER_ATTRIBUTE_RANGE_SIZE, address)
    first = int(begin)
    return (first, first + int(size)) if int(status) == 0 and first <= address else None


@dataclass(frozen=True)
class DriverAllocation:
    """An allocation of the driver, outside torch's allocator."""

    extent: Extent
    identity: int | None
    """Number that the driver never uses again in this process. None if unknown."""
    is_host: bool

    @property
    def begin(self) -> int:
        """Its first address."""
        return self.extent[0]

    def find_end(self) -> Literal["freed", "reused"] | None:
        """Return what became of the memory, or None while it lives."""
        # The number alone, one call of the driver, shows that the memory lives.
        identity = _read_identity(self.begin)
        if identity is not None and identity == self.identity:
            return None
        if find_extent(self.begin) is None:
            return "freed"
        return None if identity == self.identity else "reused"


def find_allocation(address: int) -> DriverAllocation | None:
    """Return the allocation that contains ``address``.

    None if the driver knows none, or if it belongs to another GPU.
    """
    extent = find_extent(address)
    if extent is None:
        return None
    attributes = driver.CUpointer_attribute
    kind = attributes.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    status, memory_type = driver.cuPointerGetAttribute(kind, address)
    is_host = int(status) == 0 and int(memory_type) == _HOST
    kind = attributes.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    status, device = driver.cuPointerGetAttribute(kind, address)
    if not is_host and int(status) == 0 and int(device) != int(call(driver.cuCtxGetDevice)):
        return None
    return DriverAllocation(extent, _read_identity(extent[0]), is_host)


def _read_identity(address: int) -> int | None:
    kind = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_BUFFER_ID
    status, identity = driver.cuPointerGetAttribute(kind, address)
    return int(identity) if int(status) == 0 else None


class OperandReader:
    """Reads the operands of nodes, for a graph and all its bodies, in creation order.

    Raises, from every method:
        DriverError: The driver refused a query.
    """

    def __init__(self, resolver: AllocationResolver) -> None:
        self._reach = resolver
        self._sizes: dict[int, tuple[int, ...]] = {}

    def read(self, handle: Any, kind: NodeKind) -> tuple[Operand, ...] | None:
        """Return the memory that a node may access, or None if unknown.

        Unknown for CPU calls, events, semaphores, nested graphs, arrays, unregistered memory, and
        kernels without address arguments.

        Raises:
            DriverError: The driver refused a query.
        """
        readers: dict[NodeKind, Callable[[Any], tuple[Operand, ...] | None]] = {
            NodeKind.KERNEL: self._read_kernel,
            NodeKind.MEMCPY: self._read_memcpy,
            NodeKind.MEMSET: lambda node: self._resolve_all(
                call(driver.cuGraphMemsetNodeGetParams, node).dst
            ),
            NodeKind.MEM_ALLOC: self._read_mem_alloc,
            NodeKind.MEM_FREE: lambda node: self._resolve_all(
                call(driver.cuGraphMemFreeNodeGetParams, node)
            ),
            NodeKind.EMPTY: lambda _node: (),
        }
        return readers[kind](handle) if kind in readers else None

    def read_kernel_arguments(self, handle: Any) -> bytes | None:
        """Return the concatenated arguments of a kernel node, or None if unreadable."""
        return self._read_arguments(call(driver.cuGraphKernelNodeGetParams, handle))

    def read_addresses(self, handle: Any, kind: NodeKind) -> list[int]:
        """Return the possible addresses among a node's parameters; empty for other kinds."""
        match kind:
            case NodeKind.KERNEL:
                arguments = self._read_arguments(call(driver.cuGraphKernelNodeGetParams, handle))
                return [] if arguments is None else find_addresses(arguments)
            case NodeKind.MEMCPY:
                params = call(driver.cuGraphMemcpyNodeGetParams, handle)
                return [
                    int(host if int(side) == _HOST else device)
                    for side, host, device in (
                        (params.srcMemoryType, params.srcHost, params.srcDevice),
                        (params.dstMemoryType, params.dstHost, params.dstDevice),
                    )
                    if int(side) != _ARRAY
                ]
            case NodeKind.MEMSET:
                return [int(call(driver.cuGraphMemsetNodeGetParams, handle).dst)]
            case _:
                return []

    def _resolve_all(self, *addresses: Any) -> tuple[Operand, ...] | None:
        operands = [self._reach.resolve(int(address)) for address in addresses]
        resolved = [operand for operand in operands if operand is not None]
        return merge_operands(resolved) if len(resolved) == len(operands) else None

    def _read_mem_alloc(self, handle: Any) -> tuple[Operand, ...] | None:
        params = call(driver.cuGraphMemAllocNodeGetParams, handle)
        self._reach.add_graph_allocation(int(params.dptr), int(params.bytesize))
        return self._resolve_all(params.dptr)

    def _read_memcpy(self, handle: Any) -> tuple[Operand, ...] | None:
        params = call(driver.cuGraphMemcpyNodeGetParams, handle)
        sides = (
            (int(params.srcMemoryType), params.srcHost, params.srcDevice),
            (int(params.dstMemoryType), params.dstHost, params.dstDevice),
        )
        if any(kind == _ARRAY for kind, _, _ in sides):
            return None
        return self._resolve_all(*(host if kind == _HOST else at for kind, host, at in sides))

    def _read_kernel(self, handle: Any) -> tuple[Operand, ...] | None:
        arguments = self._read_arguments(call(driver.cuGraphKernelNodeGetParams, handle))
        if arguments is None:
            return None
        operands = (self._reach.resolve(address) for address in find_addresses(arguments))
        return merge_operands(operand for operand in operands if operand is not None) or None

    def read_kernel_parameters(self, handle: Any) -> list[bytes]:
        """Return the arguments of a kernel node one by one; empty if they are unreadable."""
        params = call(driver.cuGraphKernelNodeGetParams, handle)
        return self._read_parameters(params) or []

    def _read_arguments(self, params: Any) -> bytes | None:
        if int(params.kernelParams or 0):
            parts = self._read_parameters(params)
            return None if parts is None else b"".join(map(_pad, parts))
        if extra := int(params.extra or 0):
            return _read_packed_arguments(extra)
        return None

    def _read_parameters(self, params: Any) -> list[bytes] | None:
        pointers = int(params.kernelParams or 0)
        if not pointers:
            return None
        sizes = self._read_parameter_sizes(params)
        listed = (ctypes.c_void_p * len(sizes)).from_address(pointers)
        parts = [ctypes.string_at(at, size) for at, size in zip(listed, sizes, strict=True) if at]
        return parts if len(parts) == len(sizes) else None

    def _read_parameter_sizes(self, params: Any) -> tuple[int, ...]:
        """Return the size of each kernel parameter, until the driver refuses an index."""
        function = params.func
        if int(function) == 0:
            function = call(driver.cuKernelGetFunction, params.kern)
        if int(function) not in self._sizes:
            sizes: list[int] = []
            while True:
                status, _, size = driver.cuFuncGetParamInfo(function, len(sizes))
                if int(status) != 0:
                    break
                sizes.append(int(size))
            self._sizes[int(function)] = tuple(sizes)
        return self._sizes[int(function)]


def _pad(argument: bytes) -> bytes:
    return argument.ljust(-(-len(argument) // 8) * 8, b"\0")


def _read_packed_arguments(extra: int) -> bytes | None:
    words = ctypes.cast(extra, ctypes.POINTER(ctypes.c_void_p))
    buffer = size = None
    index = 0
    while (option := words[index] or _END) != _END:
        if option == _BUFFER:
            buffer = words[index + 1]
        elif option == _SIZE:
            size = words[index + 1]
        index += 2
    if not buffer or not size:
        return None
    return ctypes.string_at(buffer, ctypes.c_size_t.from_address(size).value)
