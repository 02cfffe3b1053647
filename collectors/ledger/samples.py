"""Read the memory of this process: on the device, in torch's allocator, on the host."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import torch
from cuda.bindings import driver

from collectors.allocator.owners import TrackedObjects, find_owned_tensors
from collectors.allocator.snapshot import read_snapshot
from collectors.driver.calls import call
from collectors.driver.nvml import DeviceMemory
from graphviz_dash.model.ledger import (
    TENSOR_GROUPS,
    AllocatorBlocks,
    AllocatorState,
    LayerGroup,
    ReservedPool,
    TensorGroup,
)
from graphviz_dash.model.memory import DEFAULT_POOL, Owner

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_MIN_LAYERS: Final = 2
_SMALL: Final = 1 << 20
"""Largest allocation that the allocator serves from its small pool (kSmallSize)."""

Pool: TypeAlias = tuple[int, int]
Key = TypeVar("Key", bound=Hashable)

SETTINGS: Final = (
    "CUDA_MODULE_LOADING",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUBLASLT_WORKSPACE_SIZE",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCHINDUCTOR_FX_GRAPH_CACHE",
    "NCCL_NVLS_ENABLE",
)


class DeviceNumbers(NamedTuple):
    """Memory at one moment, in bytes."""

    used: int
    total: int
    reserved_bytes: int
    allocated_bytes: int
    host: int
    """Resident on the host."""
    held_bytes: int
    """Freed in the allocator, but waiting for other streams (``record_stream``)."""
    operations: int = 0
    """Allocations and frees of the process so far."""

    @property
    def outside_bytes(self) -> int:
        """Used device memory outside the allocator, by all processes."""
        return self.used - self.reserved_bytes


def read_numbers() -> DeviceNumbers:
    """Read the memory of the current device.

    Raises:
        DriverError: The thread has no CUDA context, or the driver refused.
    """
    free, total = call(driver.cuMemGetInfo)
    # The nested statistics cost a tenth of the flat ones, which torch.cuda.memory_reserved() reads.
    stats = torch.cuda.memory_stats_as_nested_dict()
    allocated_bytes = _get_current(stats, "allocated_bytes")
    return DeviceNumbers(
        used=int(total) - int(free),
        total=int(total),
        reserved_bytes=_get_current(stats, "reserved_bytes"),
        allocated_bytes=allocated_bytes,
        host=read_host_bytes(),
        held_bytes=max(0, _get_current(stats, "active_bytes") - allocated_bytes),
        operations=_count_operations(stats),
    )


def _count_operations(stats: Mapping[str, Any]) -> int:
    if "allocation" not in stats:
        return 0
    counts = stats["allocation"]["all"]
    return int(counts["allocated"]) + int(counts["freed"])


def read_used_bytes() -> int:
    """Read the used memory of the current device, in bytes.

    Raises:
        DriverError: The thread has no CUDA context, or the driver refused.
    """
    free, total = call(driver.cuMemGetInfo)
    return int(total) - int(free)


def _get_current(stats: Mapping[str, Any], name: str) -> int:
    """Return a statistic, 0 before the first allocation."""
    return int(stats[name]["all"]["current"]) if name in stats else 0


def read_host_bytes() -> int:
    """Read the resident memory of this process, in bytes. 0 if unavailable."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


_LAG: Final = 64 << 20
"""Difference between the device's memory and the lists of processes above which a list lags."""


def estimate_others(used: int, memory: DeviceMemory, before: DeviceMemory) -> int | None:
    """Estimate the memory of other processes and the driver when ``used`` bytes were in use.

    ``before``: memory before this process had a context. The lists lag while other processes start
    and end, but the entry of this process, which does nothing meanwhile, is right. None if the
    driver does not list it.
    """
    if memory.process is None:
        return None
    driver_bytes = before.used - before.others
    listed_bytes = driver_bytes + memory.others
    remaining = used - memory.process
    return max(0, remaining if abs(remaining - listed_bytes) > _LAG else listed_bytes)


def find_context() -> int | None:
    """Return the first device with a CUDA context of this process, or None.

    Raises:
        DriverError: The driver refused.
    """
    for index in range(torch.cuda.device_count()):
        _, active = call(driver.cuDevicePrimaryCtxGetState, call(driver.cuDeviceGet, index))
        if active:
            return index
    return None


def read_module_loading() -> str:
    """Return how the driver loads kernels: ``lazy`` or ``eager``.

    Raises:
        DriverError: The driver refused.
    """
    return "lazy" if "LAZY" in call(driver.cuModuleGetLoadingMode).name else "eager"


def read_settings(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment variables that affect memory or start-up."""
    return {name: environment[name] for name in SETTINGS if name in environment}


class OwnedTensor(NamedTuple):
    """Owner and largest tensor of an allocation."""

    owner: Owner
    shape: tuple[int, ...]
    item_bytes: int
    """Size of one element, in bytes."""


class AllocatedSegment(NamedTuple):
    """A segment of the allocator."""

    pool: Pool
    stream: int
    """Handle of the stream."""
    bytes: int
    live_blocks: tuple[tuple[int, int], ...]
    """Address and size of each live allocation."""


def read_segments() -> tuple[AllocatedSegment, ...]:
    """Read the segments of the current device's allocator."""
    device = torch.cuda.current_device()
    return tuple(
        convert_segment(segment) for segment in read_snapshot() if segment["device"] == device
    )


def convert_segment(segment: Mapping[str, Any]) -> AllocatedSegment:
    """Convert a segment of ``torch.cuda.memory_snapshot``."""
    live_blocks = []
    address = int(segment["address"])
    for block in segment["blocks"]:
        size = int(block["size"])
        if block["state"].startswith("active"):
            live_blocks.append((address, size))
        address += size
    first, second = segment.get("segment_pool_id", DEFAULT_POOL)
    return AllocatedSegment(
        (int(first), int(second)),
        int(segment.get("stream", 0)),
        int(segment["total_size"]),
        tuple(live_blocks),
    )


def describe_tensors(objects: TrackedObjects) -> dict[int, OwnedTensor]:
    """Describe the tensors among ``objects`` by the addresses of their allocations."""
    return {
        address: OwnedTensor(
            owner, tuple(int(dimension) for dimension in tensor.shape), tensor.element_size()
        )
        for address, (owner, tensor) in find_owned_tensors(objects).items()
    }


def build_state(
    segments: Iterable[AllocatedSegment],
    tensors: Mapping[int, OwnedTensor],
    layers: tuple[LayerGroup, ...],
    *,
    is_search_complete: bool,
) -> AllocatorState:
    """Build the content of an allocator. The caller sets the sample.

    ``is_search_complete``: allocations without a tensor have no owner in Python. Otherwise, their
    owners are unknown and they are omitted.
    """
    content = _Content(tensors, is_search_complete=is_search_complete)
    for segment in segments:
        content.add_segment(segment)
    return AllocatorState(
        sample=0,
        pools=tuple(ReservedPool(*key, *content.pools[key]) for key in sorted(content.pools)),
        blocks=tuple(AllocatorBlocks(*key, *content.blocks[key]) for key in sorted(content.blocks)),
        layers=layers,
        tensors=content.list_tensors(),
    )


def select_surviving_tensors(
    tensors: Mapping[int, OwnedTensor],
    before: Iterable[AllocatedSegment],
    now: Iterable[AllocatedSegment],
) -> dict[int, OwnedTensor]:
    """Select the ``tensors`` of now whose allocations existed before, by address and size."""
    earlier_blocks = {block for segment in before for block in segment.live_blocks}
    return {
        address: tensors[address]
        for segment in now
        for address, size in segment.live_blocks
        if address in tensors and (address, size) in earlier_blocks
    }


class _Content:
    def __init__(
        self, tensors: Mapping[int, OwnedTensor], *, is_search_complete: bool = True
    ) -> None:
        self.pools: dict[tuple[Pool, int], list[int]] = {}
        self.blocks: dict[tuple[Pool, int, Owner], list[int]] = {}
        self._owned_tensors = tensors
        self._is_search_complete = is_search_complete
        self._tensors: dict[OwnedTensor, list[int]] = {}
        self._streams: dict[int, int] = {}

    def add_segment(self, segment: AllocatedSegment) -> None:
        pool = segment.pool
        stream = self._streams.setdefault(segment.stream, len(self._streams))
        pool_sums = self.pools.setdefault((pool, stream), [0, 0, 0, 0, 0])
        pool_sums[0] += 1
        pool_sums[1] += segment.bytes
        live_bytes = 0
        for address, size in segment.live_blocks:
            pool_sums[2 if size <= _SMALL else 3] += size
            live_bytes += size
            tensor = self._owned_tensors.get(address)
            if tensor is not None:
                _count(self.blocks, (pool, stream, tensor.owner), size)
                if pool == DEFAULT_POOL:
                    _count(self._tensors, tensor, size)
            elif self._is_search_complete:
                _count(self.blocks, (pool, stream, Owner.UNOWNED), size)
        if live_bytes:
            pool_sums[4] += segment.bytes - live_bytes

    def list_tensors(self) -> tuple[TensorGroup, ...]:
        order = sorted(self._tensors, key=lambda key: (-self._tensors[key][1], key))
        return tuple(TensorGroup(*key, *self._tensors[key]) for key in order[:TENSOR_GROUPS])


def _count(sums: dict[Key, list[int]], key: Key, size: int) -> None:
    entry = sums.setdefault(key, [0, 0])
    entry[0] += 1
    entry[1] += size


def find_layers(modules: Iterable[torch.nn.Module]) -> tuple[LayerGroup, ...]:
    """Find lists of equal layers among ``modules``, largest first."""
    groups: dict[tuple[int, ...], LayerGroup] = {}
    for candidate in modules:
        if not isinstance(candidate, torch.nn.ModuleList | torch.nn.Sequential):
            continue
        layers = list(candidate)
        if len(layers) < _MIN_LAYERS or len({type(layer) for layer in layers}) != 1:
            continue
        parameters = {
            id(parameter): parameter
            for layer in layers
            for parameter in torch.nn.Module.parameters(layer)
            if parameter.is_cuda
        }
        size = sum(p.numel() * p.element_size() for p in parameters.values())
        if size:
            identity = tuple(sorted(id(layer) for layer in layers))
            groups[identity] = LayerGroup(type(layers[0]).__name__, len(layers), size)
    return tuple(sorted(groups.values(), key=lambda group: -group.parameter_bytes)[:8])
