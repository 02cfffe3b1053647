"""What the memory pass of a run found: who owns device memory, and which graph uses which part of
its pool. Raw facts; docs/reference/bundle-format.md documents the file, analysis/memory/report.py
reads them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from graphviz_dash.model.graph import Count

PoolId: TypeAlias = tuple[Count, Count]
SignedBytes: TypeAlias = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]

DEFAULT_POOL: Final = (0, 0)
"""The id of the allocator's pool that belongs to no graph."""


class Owner(StrEnum):
    """Whose a live allocation is, the first that fits."""

    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer state"
    BUFFERS = "buffers"
    TENSORS = "other tensors"
    UNOWNED = "no tensor"
    TRANSIENT = "transient"


class Stage(StrEnum):
    """A part of the memory pass, in the order they are run."""

    START = "start"
    BUILD = "build"
    WARM_UP = "warm-up"
    PREPARE = "prepare"
    ITERATE = "iterate"


class MemoryStage(Struct, frozen=True, forbid_unknown_fields=True):
    """The allocator and the device in one stage, in bytes. Peaks are within the stage, the rest is
    at its end."""

    stage: Stage
    """Which stage."""
    peak_allocated_bytes: Count
    """Most bytes of live allocations."""
    peak_reserved_bytes: Count
    """Most bytes that the allocator held from the device."""
    allocated_bytes: Count
    """Bytes of live allocations."""
    reserved_bytes: Count
    """Bytes that the allocator held from the device."""
    device_used_bytes: Count
    """What the device has no longer free (cudaMemGetInfo), other processes included."""
    process_used_bytes: Count | None = None
    """What the driver says of this process alone (nvidia-smi, in MiB); None where it does not list
    it."""


class OwnedBytes(Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes of live allocations of one owner in one pool."""

    pool: PoolId
    owner: Owner
    bytes: Count


class PoolSegment(Struct, frozen=True, forbid_unknown_fields=True):
    """A segment that a private pool holds from the device at the end of the pass."""

    pool: PoolId
    bytes: Count


class Extent(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """A place in a private pool: bytes ``begin`` to before ``end`` of the segment at that place
    of ``MemoryPass.segments``."""

    segment: Count
    begin: Count
    end: Count


class LiveExtent(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """A live allocation in a private pool at the end of the pass."""

    segment: Count
    """The index of its segment in ``MemoryPass.segments``."""
    begin: Count
    """Its first byte within the segment."""
    end: Count
    """The byte behind its last."""
    owner: Owner
    """Whose it is."""


class GraphMemory(Struct, frozen=True, forbid_unknown_fields=True):
    """What one capture allocated."""

    graph: str
    """The graph's id."""
    pool: PoolId | None
    """The private pool; None where it allocated nothing."""
    allocations: Count
    """How many there were."""
    peak_bytes: Count
    """Most bytes of its own allocations alive at once."""
    kept_bytes: Count
    """Bytes of its own that were alive when it ended."""
    extents: tuple[Extent, ...]
    """All of its pool that was allocated at some time of the capture, merged."""
    instantiate_device_bytes: SignedBytes | None
    """Growth of device memory while the graph was instantiated; the driver takes memory in pieces
    of MiB and keeps some, so it is 0 for most graphs, and other processes disturb it. None where it
    was not instantiated."""


class MemoryPass(Struct, frozen=True, forbid_unknown_fields=True):
    """memory-pass.json."""

    method: str
    """By what means all this was measured."""
    iterations: Count
    """Iterations after the graphs were captured."""
    stages: tuple[MemoryStage, ...]
    """The allocator and the device in each stage, in their order."""
    at_rest: tuple[OwnedBytes, ...]
    """The live allocations after the last iteration."""
    at_peak: tuple[OwnedBytes, ...]
    """Those of the moment in one iteration at which most were alive, where ``transient`` is what
    that iteration allocated and freed again."""
    segments: tuple[PoolSegment, ...]
    """What the private pools hold from the device."""
    live: tuple[LiveExtent, ...]
    """The live allocations in them."""
    graphs: tuple[GraphMemory, ...]
    """What each capture allocated."""
