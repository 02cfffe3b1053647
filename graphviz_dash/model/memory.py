"""Results of the memory pass: owners of device memory, and pool memory used by each graph."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from graphviz_dash.model.graph import Count

PoolId: TypeAlias = tuple[Count, Count]
SignedBytes: TypeAlias = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]

DEFAULT_POOL: Final = (0, 0)
"""Id of the allocator's default pool, which belongs to no graph."""


class Owner(StrEnum):
    """Owner of a live allocation; the first match applies."""

    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer state"
    BUFFERS = "buffers"
    CACHES = "caches"
    """Keys and values of earlier tokens in an engine that the recorder knows."""
    TENSORS = "other tensors"
    UNOWNED = "no tensor"
    TRANSIENT = "transient"


class Stage(StrEnum):
    """A stage of the memory pass, in execution order."""

    START = "start"
    BUILD = "build"
    WARM_UP = "warm-up"
    PREPARE = "prepare"
    ITERATE = "iterate"


class MemoryStage(Struct, frozen=True, forbid_unknown_fields=True):
    """Allocator and device memory in one stage, in bytes. Peaks are within the stage, other values
    at its end."""

    stage: Stage
    peak_allocated_bytes: Count
    """Peak of live allocations, in bytes."""
    peak_reserved_bytes: Count
    """Peak of memory reserved by the allocator, in bytes."""
    allocated_bytes: Count
    """Live allocations, in bytes."""
    reserved_bytes: Count
    """Memory reserved by the allocator, in bytes."""
    device_used_bytes: Count
    """Used device memory in bytes (cudaMemGetInfo), including other processes."""
    process_used_bytes: Count | None = None
    """Memory of this process according to NVML, in bytes. None if unavailable."""


class OwnedBytes(Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes of live allocations by owner and pool."""

    pool: PoolId
    owner: Owner
    bytes: Count


class PoolSegment(Struct, frozen=True, forbid_unknown_fields=True):
    """A segment of a private pool at the end of the pass."""

    pool: PoolId
    bytes: Count


class Extent(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """A range of a private pool."""

    segment: Count
    """Index in `segments` of the file."""
    start: Count
    """First byte in the segment."""
    end: Count
    """Byte after the last one."""


class LiveExtent(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """A live allocation in a private pool at the end of the pass."""

    segment: Count
    """Index in `segments` of the file."""
    start: Count
    """First byte in the segment."""
    end: Count
    """Byte after the last one."""
    owner: Owner


class GraphMemory(Struct, frozen=True, forbid_unknown_fields=True):
    """Allocations of one capture."""

    graph: str
    pool: PoolId | None
    """Private pool. None if the capture allocated nothing."""
    allocations: Count
    peak_bytes: Count
    """Peak of its simultaneous live allocations, in bytes."""
    retained_bytes: Count
    """Its allocations alive at the end of the capture, in bytes."""
    extents: tuple[Extent, ...]
    """Merged ranges of its pool that the capture allocated at any time."""
    instantiate_device_bytes: SignedBytes | None
    """Growth of device memory during instantiation, in bytes. Allocated in chunks of MiB, so most
    graphs have 0; other processes interfere. None if not instantiated.
    """


class MemoryPass(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of memory-pass.json."""

    method: str
    """Measurement method."""
    iterations: Count
    """Iterations after the captures."""
    stages: tuple[MemoryStage, ...]
    """Allocator and device memory per stage, in order."""
    owners_at_end: tuple[OwnedBytes, ...]
    """Live allocations after the last iteration."""
    owners_at_peak: tuple[OwnedBytes, ...]
    """Live allocations at the peak within one iteration. `transient` is freed again within it."""
    segments: tuple[PoolSegment, ...]
    """Segments of the private pools."""
    live_extents: tuple[LiveExtent, ...]
    """Live allocations in the segments."""
    graphs: tuple[GraphMemory, ...]
    """Allocations per capture."""
