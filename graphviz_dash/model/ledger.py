"""Ledger of one process: device memory and wall time from its start to the first useful replay."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from graphviz_dash.model.graph import Count
from graphviz_dash.model.memory import Owner, PoolId


class SampleKind(StrEnum):
    """Moment of a memory sample."""

    CONTEXT = "context"
    """Right after the creation of the CUDA context; always the first sample."""
    PERIODIC = "periodic"
    """At intervals during start-up."""
    STAGE = "stage"
    """End of a stage of the memory pass."""
    OPERATOR = "operator"
    """First call of an operator in the memory pass."""
    CAPTURE_BEGIN = "capture begins"
    """Right before a capture."""
    CAPTURE_END = "capture ends"
    """Right before the call that ends a capture and may instantiate its graph."""
    INSTANTIATION = "instantiated"
    """Right after that call, or after a separate instantiation."""
    STARTUP_END = "started"
    """After the first useful replay."""
    CACHE_RELEASE = "cache emptied"
    """After the allocator released its unused memory."""
    GRAPH_DROP = "graph dropped"
    """After a graph was reset and the allocator released its unused memory."""
    END = "end"
    """End of the process or of the pass."""


class MemorySample(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Memory at one moment, in bytes."""

    time_ns: Count
    """Time since the start of the process, in ns."""
    kind: SampleKind
    device_used_bytes: Count
    """Used device memory (cudaMemGetInfo), including other processes."""
    reserved_bytes: Count
    """Memory reserved by the allocator."""
    allocated_bytes: Count
    """Live allocations of the allocator."""
    pool_bytes: Count
    """Memory reserved by private pools at the last capture before, in bytes."""
    host_bytes: Count
    """Resident memory of the process on the host."""
    name: str | None = None
    """Graph id, or name of the stage or operator. None otherwise."""
    others_bytes: Count | None = None
    """Other processes and the driver (NVML), in bytes. None if unknown."""

    @property
    def outside_bytes(self) -> int:
        """Used device memory outside the allocator."""
        return self.device_used_bytes - self.reserved_bytes


class SpanKind(StrEnum):
    """Activity of a span."""

    INTERPRETER = "interpreter"
    """Start of the Python interpreter."""
    IMPORT = "import"
    """Import of a Python module."""
    CHILD = "child process"
    """Wait for the end of a child process (``subprocess``)."""
    CONTEXT = "CUDA context"
    WEIGHTS = "weights"
    """Creation or loading of the model."""
    CACHE = "caches"
    """Allocation of an engine's caches."""
    WARM_UP = "warm-up"
    """Steps before the captures, and an engine's profiling of its memory."""
    NCCL = "process group"
    """Set-up of torch.distributed."""
    DYNAMO = "Dynamo"
    """Tracing of Python code by torch.compile, including its backends."""
    INDUCTOR = "Inductor"
    """Compilation of a graph by Inductor."""
    TRITON = "Triton"
    """Compilation of Triton kernels."""
    AUTOTUNE = "autotuning"
    """Selection of the fastest kernel by measurement."""
    CAPTURES = "captures"
    """A program's function that captures graphs, including the work between captures."""
    CAPTURE = "capture"
    """One capture, from the call that begins it to the end of the one that ends it."""
    DRIVER = "driver"
    """Call of torch that begins or ends a capture. The latter instantiates most graphs."""
    INSTANTIATE = "instantiation"
    """Separate call that instantiates a graph."""
    LAUNCH = "first launch"
    """First launch of a graph, including its upload."""
    GC = "garbage collection"
    """Run of Python's cyclic garbage collector."""
    RECORDER = "recorder"
    """Work of graphviz-dash."""


class LedgerSpan(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """An activity of one thread. Spans of a thread are nested."""

    kind: SpanKind
    name: str
    """Module, function or graph. May be empty."""
    thread: Count
    """Number of the thread, in order of appearance. 0 is the main thread."""
    start_ns: Count
    """Start in ns since the start of the process."""
    end_ns: Count
    """End in ns since the start of the process."""


class AllocatorBlocks(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Live allocations with the same pool, stream and owner."""

    pool: PoolId
    """Pool. (0, 0) is the default pool."""
    stream: Count
    """Number of the stream that allocated them, in order of appearance."""
    owner: Owner
    count: Count
    bytes: Count
    """Total size in bytes."""


class ReservedPool(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Memory reserved by one pool for one stream. Streams do not share blocks."""

    pool: PoolId
    """Pool. (0, 0) is the default pool."""
    stream: Count
    """Number of the stream, in order of appearance."""
    segments: Count
    bytes: Count
    """Total size in bytes."""
    small_bytes: Count
    """Live allocations of at most 1 MiB, in bytes."""
    large_bytes: Count
    """Larger live allocations, in bytes."""
    split_bytes: Count | None = None
    """Free memory in partly used segments, in bytes. None if unknown."""


class TensorGroup(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Tensors of the default pool with the same owner, shape and item size."""

    owner: Owner
    shape: tuple[Count, ...]
    item_bytes: Count
    """Size of one element, in bytes."""
    count: Count
    """Storages."""
    bytes: Count
    """Total size of the storages, in bytes."""


class LayerGroup(Struct, frozen=True, forbid_unknown_fields=True):
    """Equal layers of a model."""

    name: str
    layers: Count
    parameter_bytes: Count
    """Size on the device, in bytes."""


TENSOR_GROUPS: Final = 200
"""Maximum number of recorded tensor groups."""


class AllocatorState(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of the allocator at one moment."""

    sample: Count
    """Index of the sample taken at that moment."""
    pools: tuple[ReservedPool, ...]
    blocks: tuple[AllocatorBlocks, ...]
    """Live allocations by owner. Those of unknown owners are missing if the process ended before
    the search among all objects of Python.
    """
    layers: tuple[LayerGroup, ...] = ()
    """Repeated layers of the models, largest first."""
    tensors: tuple[TensorGroup, ...] = ()
    """Tensors by shape, largest groups first, at most 200."""


class GraphStart(Struct, frozen=True, forbid_unknown_fields=True):
    """Start of one graph."""

    graph: str
    pool: PoolId | None
    """Memory pool. None if unknown."""
    stream: Count | None
    """Capturing stream, in order of appearance. None if unknown."""
    first_replay_ns: Count | None
    """End of its first replay's call, in ns since the start of the process. None if never replayed.
    """
    failure: bool = False
    held_bytes: Count | None = None
    """Memory that was freed in the capture and waits for other streams (``record_stream``), at the
    end of the capture, in bytes. None if unknown."""
    pool_operations: tuple[int, ...] | None = None
    """Operations in private pools from the start of its capture to that of the next. A positive
    number allocates bytes, as requested; -k frees the k-th last allocation. None if not recorded,
    or with several streams."""
    pool_stream: Count | None = None
    """Stream of these allocations, in order of appearance. None without any."""


class Ledger(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of ledger.json.gz."""

    process_start_ns: Count
    """Start of the process on the monotonic clock of the machine, in ns."""
    pid: Count
    parent_pid: Count
    device: Count | None
    """Index of the device. None without a CUDA context."""
    device_total_bytes: Count | None
    """Total memory (cudaMemGetInfo), in bytes. None without a CUDA context."""
    module_loading: str | None
    """Loading of kernels by the driver: ``lazy`` or ``eager``. None if unknown."""
    used_before_bytes: Count | None
    """Used device memory before the context was created (NVML), in bytes. None if unknown."""
    process_used_bytes: Count | None
    """Device memory of this process at the end of start-up (NVML), in bytes. None if unavailable.
    """
    samples: tuple[MemorySample, ...]
    """Memory over time, in order."""
    spans: tuple[LedgerSpan, ...]
    """Activities, in the order of their ends."""
    graphs: tuple[GraphStart, ...]
    """Captures, in the order of their start."""
    states: tuple[AllocatorState, ...]
    """Content of the allocator, in order."""
    startup_end_ns: Count | None
    """End of the start-up, in ns since the start of the process: return of the first replay that is
    followed by as many replays as captures, without another capture. None if there was none.
    """
    recorder_ns: Count
    """Time of the recorder in the program's threads, in ns."""
    compiler_events: dict[str, Count] = {}
    """Events of torch.compile's caches by name, such as ``fx_graph_cache_hit``."""
    settings: dict[str, str] = {}
    """Environment variables that affect memory or start-up."""
    dropped_spans: Count = 0
    """Spans that were not kept."""
    expandable_saving_bytes: int | None = None
    """Reserved memory that expandable segments would save at the end of the start-up, by a
    simulation of the allocator, in bytes. Negative if they need more. None if not simulated."""
