"""Parts of the device memory over time; they add up to the used memory.

Memory outside the allocator is assigned by the moment of its growth: to the context, to the first
use of kernels and libraries, or to the instantiation of a graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graphviz_dash.analysis.ledger.startup import TimePart
from graphviz_dash.analysis.memory.executables import find_capture_chunks
from graphviz_dash.model.ledger import SampleKind, SpanKind
from graphviz_dash.model.memory import DEFAULT_POOL, Owner

if TYPE_CHECKING:
    from graphviz_dash.model.ledger import AllocatorState, Ledger, LedgerSpan, MemorySample


class LedgerPart(StrEnum):
    """Part of the device memory in use."""

    OTHER_PROCESSES = "other processes"
    CONTEXT = "CUDA context"
    KERNELS = "kernels and libraries"
    NCCL = "process group"
    EXECUTABLES = "executable graphs"
    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer state"
    CACHES = "caches"
    TENSORS = "other tensors"
    WORKSPACES = "library workspaces"
    ALLOCATIONS = "allocations"
    """Unknown owner: freed before the search among all objects of Python, which comes at the end of
    the process. A killed process has only the owners among its modules and caches.
    """
    FRAGMENTATION = "allocator, fragmentation"
    """Free memory in partly used segments, which the allocator cannot release."""
    FREE = "allocator, free"
    POOLS = "graph pools"
    FAILED_POOLS = "pools of failed captures"
    REMAINDER = "remainder"
    """Growth outside the allocator without a known cause."""


_OWNERS: Final = {
    Owner.WEIGHTS: LedgerPart.WEIGHTS,
    Owner.GRADIENTS: LedgerPart.GRADIENTS,
    Owner.OPTIMIZER: LedgerPart.OPTIMIZER,
    Owner.BUFFERS: LedgerPart.TENSORS,
    Owner.CACHES: LedgerPart.CACHES,
    Owner.TENSORS: LedgerPart.TENSORS,
    Owner.TRANSIENT: LedgerPart.TENSORS,
    Owner.UNOWNED: LedgerPart.WORKSPACES,
}

_KEPT_ORDER: Final = (
    LedgerPart.WEIGHTS,
    LedgerPart.OPTIMIZER,
    LedgerPart.GRADIENTS,
    LedgerPart.WORKSPACES,
    LedgerPart.ALLOCATIONS,
    LedgerPart.CACHES,
    LedgerPart.TENSORS,
)
"""Order in which allocations of a state are assumed to exist at other moments."""


class MemoryMoment(Struct, frozen=True):
    """Device memory at one moment, in bytes."""

    time_ns: int
    """Since the start of the process."""
    kind: SampleKind
    name: str | None
    """Graph, stage or operator. None otherwise."""
    used: int
    parts: Mapping[LedgerPart, int]
    """Without parts of 0; they add up to ``used``."""
    host: int
    """Resident memory on the host."""


class OutsideGrowth(Struct, frozen=True):
    """Growth of device memory outside the allocator by one cause, in bytes."""

    part: LedgerPart
    cause: str
    """Operator, graph, module or function that ran. Empty if unknown."""
    is_graph: bool
    """True if ``cause`` is the id of a graph."""
    bytes: int
    """Growth; negative if memory was freed."""


class StreamWorkspaces(Struct, frozen=True):
    """Workspaces (allocations and bytes) that libraries keep for one stream."""

    stream: int
    """Number of the stream, in order of appearance."""
    count: int
    bytes: int


class MemoryLedger(Struct, frozen=True):
    """Device memory of one process over time."""

    moments: tuple[MemoryMoment, ...]
    growths: tuple[OutsideGrowth, ...]
    """Growth outside the allocator by cause, largest first."""
    total: int | None
    """Total device memory. None if unknown."""
    others_change: int | None
    """Change of other processes' memory during start-up, which was not read in between: growth
    outside the allocator has no known cause then. None if the driver does not list the process.
    """
    workspaces: tuple[StreamWorkspaces, ...]
    """Outside graph pools, by stream, largest first."""

    @property
    def is_complete(self) -> bool:
        """True if the recording covers the first useful replay."""
        return any(moment.kind is SampleKind.STARTUP_END for moment in self.moments)

    @property
    def end_of_startup(self) -> MemoryMoment:
        """Moment after the first useful replay, else the last one."""
        ends = [moment for moment in self.moments if moment.kind is SampleKind.STARTUP_END]
        return ends[0] if ends else self.moments[-1]

    @property
    def own_bytes(self) -> int:
        """Used memory at the end of the start-up, without other processes."""
        moment = self.end_of_startup
        return moment.used - moment.parts.get(LedgerPart.OTHER_PROCESSES, 0)

    @property
    def peak(self) -> MemoryMoment:
        """Moment with the most used memory."""
        return max(self.moments, key=lambda moment: moment.used)


def build_memory_ledger(ledger: Ledger) -> MemoryLedger | None:
    """Build the memory ledger; None without samples."""
    if not ledger.samples:
        return None
    others_change = compute_others_change(ledger)
    outside = _OutsideParts(ledger, is_attributable=not others_change)
    failures = _FailedPools(ledger)
    states = {state.sample: state for state in ledger.states}
    state: AllocatorState | None = None
    # Libraries keep their workspaces, so those of the last state exist since the captures.
    workspaces = sum_owners(ledger.states[-1])[LedgerPart.WORKSPACES] if ledger.states else None
    after_startup = False
    moments = []
    for number, sample in enumerate(ledger.samples):
        state = states.get(number, state)
        if sample.kind is SampleKind.STARTUP_END:
            after_startup = True
        parts = outside.advance(sample)
        # Not +=, which drops negative counts.
        parts.update(_split_allocator(sample, state, workspaces, after_startup=after_startup))
        failed_bytes = failures.advance(sample)
        parts[LedgerPart.FAILED_POOLS] = failed_bytes
        parts[LedgerPart.POOLS] -= failed_bytes
        moments.append(
            MemoryMoment(
                time_ns=sample.time_ns,
                kind=sample.kind,
                name=sample.name,
                used=sample.device_used_bytes,
                parts={part: parts[part] for part in LedgerPart if parts[part]},
                host=sample.host_bytes,
            )
        )
    growths = tuple(
        OutsideGrowth(part, cause, is_graph, size)
        for (part, cause, is_graph), size in sorted(
            outside.causes.items(), key=lambda item: (-item[1], item[0][1])
        )
        if size
    )
    return MemoryLedger(
        moments=tuple(moments),
        growths=growths,
        total=ledger.device_total_bytes,
        others_change=others_change,
        workspaces=list_workspaces(ledger),
    )


class _FailedPools:
    def __init__(self, ledger: Ledger) -> None:
        used_pools = {graph.pool for graph in ledger.graphs if not graph.failure}
        # A later capture into the same pool uses the memory of a failed one.
        self._failures = {
            graph.graph
            for graph in ledger.graphs
            if graph.failure and (graph.pool is None or graph.pool not in used_pools)
        }
        self._begins: dict[str, int] = {}
        self._bytes = 0

    def advance(self, sample: MemorySample) -> int:
        """Return the bytes at the next ``sample``."""
        if sample.name in self._failures:
            if sample.kind is SampleKind.CAPTURE_BEGIN:
                self._begins[sample.name] = sample.reserved_bytes
            elif sample.kind is SampleKind.INSTANTIATION and sample.name in self._begins:
                self._bytes += max(sample.reserved_bytes - self._begins.pop(sample.name), 0)
        self._bytes = min(self._bytes, sample.pool_bytes)
        return self._bytes


def list_workspaces(ledger: Ledger) -> tuple[StreamWorkspaces, ...]:
    """List the workspaces in the last state by stream, largest first."""
    if not ledger.states:
        return ()
    counts: Counter[int] = Counter()
    sizes: Counter[int] = Counter()
    for block in ledger.states[-1].blocks:
        if block.pool == DEFAULT_POOL and _OWNERS[block.owner] is LedgerPart.WORKSPACES:
            counts[block.stream] += block.count
            sizes[block.stream] += block.bytes
    return tuple(
        StreamWorkspaces(stream, counts[stream], size)
        for stream, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0]))
    )


_DRIVER_BYTES: Final = 64 << 20
"""Used memory that the driver assigns to no process: 9 MiB on an H100 with driver 580."""


def compute_others_change(ledger: Ledger) -> int | None:
    """Compute :attr:`MemoryLedger.others_change` from the driver's list and the used memory at the
    end of the start-up."""
    ends = [
        sample.device_used_bytes
        for sample in ledger.samples
        if sample.kind is SampleKind.STARTUP_END
    ]
    if ledger.process_used_bytes is None or ledger.used_before_bytes is None or not ends:
        return None
    if any(sample.others_bytes is not None for sample in ledger.samples):
        return 0
    change = ends[0] - ledger.process_used_bytes - ledger.used_before_bytes
    return change if abs(change) > _DRIVER_BYTES else 0


def _split_allocator(
    sample: MemorySample,
    state: AllocatorState | None,
    workspaces: int | None,
    *,
    after_startup: bool,
) -> Counter[LedgerPart]:
    """Split the reserved memory of ``sample`` by the owners of the last ``state``.

    ``workspaces`` is the size in the ledger's last state; all exist after the start-up.
    """
    parts: Counter[LedgerPart] = Counter({LedgerPart.POOLS: sample.pool_bytes})
    left = sample.reserved_bytes - sample.pool_bytes
    if state is None:
        parts[LedgerPart.ALLOCATIONS] = min(sample.allocated_bytes, left)
        left -= parts[LedgerPart.ALLOCATIONS]
    else:
        sizes = sum_owners(state)
        if workspaces is not None:
            # Libraries keep their workspaces, so the excess has other owners.
            excess = max(sizes[LedgerPart.WORKSPACES] - workspaces, 0)
            sizes[LedgerPart.ALLOCATIONS] += excess
            sizes[LedgerPart.WORKSPACES] = (
                workspaces if after_startup else (sizes[LedgerPart.WORKSPACES] - excess)
            )
        sizes[LedgerPart.FRAGMENTATION] = sum(
            pool.split_bytes or 0 for pool in state.pools if pool.pool == DEFAULT_POOL
        )
        for part in (*_KEPT_ORDER, LedgerPart.FRAGMENTATION):
            parts[part] = min(sizes[part], left)
            left -= parts[part]
    parts[LedgerPart.FREE] = left
    return parts


def sum_owners(state: AllocatorState) -> Counter[LedgerPart]:
    """Sum the live allocations of the default pool by part."""
    sizes: Counter[LedgerPart] = Counter()
    for block in state.blocks:
        if block.pool == DEFAULT_POOL:
            sizes[_OWNERS[block.owner]] += block.bytes
    live_bytes = sum(
        pool.small_bytes + pool.large_bytes for pool in state.pools if pool.pool == DEFAULT_POOL
    )
    sizes[LedgerPart.ALLOCATIONS] = max(live_bytes - sizes.total(), 0)
    return sizes


class _OutsideParts:
    def __init__(self, ledger: Ledger, *, is_attributable: bool) -> None:
        self._ledger = ledger
        self._is_attributable = is_attributable
        self._parts: Counter[LedgerPart] = Counter()
        self._last: MemorySample | None = None
        self._end = find_last_start(ledger)
        self._spans = sorted(
            (span for span in ledger.spans if span.kind not in _NO_CAUSES),
            key=lambda span: span.start_ns,
        )
        self._graphs = {graph.graph for graph in ledger.graphs}
        self._chunks = find_capture_chunks(ledger)
        self._instantiations = [s for s in ledger.spans if s.kind is SpanKind.INSTANTIATE]
        captures = [span.start_ns for span in ledger.spans if span.kind is SpanKind.CAPTURE]
        self._first_capture = min(captures, default=self._end)
        self.causes: Counter[tuple[LedgerPart, str, bool]] = Counter()

    def advance(self, sample: MemorySample) -> Counter[LedgerPart]:
        """Return the parts at the next ``sample``."""
        others = sample.others_bytes
        if self._last is None:
            if others is None:
                others = self._ledger.used_before_bytes or 0
            others = min(others, sample.outside_bytes)
            self._add(LedgerPart.OTHER_PROCESSES, "", False, others)
            self._add(LedgerPart.CONTEXT, "", False, sample.outside_bytes - others)
            self._last = sample
            return Counter(self._parts)
        if others is not None:
            change = others - self._parts[LedgerPart.OTHER_PROCESSES]
            self._add(LedgerPart.OTHER_PROCESSES, "", False, change)
        else:
            change = 0
        if growth := sample.outside_bytes - self._last.outside_bytes - change:
            part, cause, is_graph = (
                self._find_cause(self._last, sample)
                if self._is_attributable
                else (LedgerPart.REMAINDER, "", False)
            )
            if part is LedgerPart.KERNELS and is_graph and cause in self._chunks:
                part = LedgerPart.EXECUTABLES
            # Nothing can release more than it has.
            limit = max(growth, -max(self._parts[part], 0)) if growth < 0 else growth
            self._add(part, cause, is_graph, limit)
            self._add(LedgerPart.REMAINDER, "", False, growth - limit)
        self._last = sample
        return Counter(self._parts)

    def _add(self, part: LedgerPart, cause: str, is_graph: bool, size: int) -> None:
        if size:
            self._parts[part] += size
            self.causes[part, cause, is_graph] += size

    def _find_cause(
        self, before: MemorySample, sample: MemorySample
    ) -> tuple[LedgerPart, str, bool]:
        name = sample.name or ""
        match sample.kind:
            case SampleKind.INSTANTIATION | SampleKind.GRAPH_DROP:
                return LedgerPart.EXECUTABLES, name, True
            case SampleKind.CAPTURE_END | SampleKind.OPERATOR:
                return LedgerPart.KERNELS, name, sample.kind is SampleKind.CAPTURE_END
        # The thread of periodic samples sees the growth before the call returns.
        for instantiation in self._instantiations:
            if instantiation.start_ns <= sample.time_ns <= instantiation.end_ns:
                return LedgerPart.EXECUTABLES, instantiation.name, True
        span = self._find_span(before.time_ns, sample.time_ns)
        if span is not None and span.kind is SpanKind.NCCL:
            return LedgerPart.NCCL, span.name, False
        if sample.time_ns <= self._end:
            name = span.name if span else self._name_program(sample)
            return LedgerPart.KERNELS, name, name in self._graphs
        return LedgerPart.REMAINDER, "", False

    def _name_program(self, sample: MemorySample) -> str:
        if sample.time_ns <= self._first_capture:
            return TimePart.BEFORE_CAPTURES.value
        return TimePart.BETWEEN_CAPTURES.value

    def _find_span(self, begin: int, end: int) -> LedgerSpan | None:
        best: tuple[int, int] = (0, 0)
        closest = None
        for span in self._spans:
            if span.start_ns >= end:
                break
            overlap = min(end, span.end_ns) - max(begin, span.start_ns)
            rank = overlap, span.start_ns - span.end_ns
            if overlap > 0 and rank > best:
                best, closest = rank, span
        return closest


_NO_CAUSES: Final = frozenset(
    {SpanKind.INTERPRETER, SpanKind.GC, SpanKind.RECORDER, SpanKind.CHILD}
)


def find_last_start(ledger: Ledger) -> int:
    """Return the end of the start-up or of the last first replay, whichever is later, in ns: until
    then, kernels and libraries are first used.
    """
    ends = [graph.first_replay_ns for graph in ledger.graphs if graph.first_replay_ns is not None]
    times = [sample.time_ns for sample in ledger.samples if sample.kind is SampleKind.STARTUP_END]
    if ledger.startup_end_ns is None:
        return ledger.samples[-1].time_ns if ledger.samples else 0
    return max([ledger.startup_end_ns, *ends, *times])


_LIBRARIES: Final[Sequence[tuple[str, tuple[str, ...]]]] = (
    ("attention", ("attention", "flash", "sdpa")),
    ("cuBLAS", ("mm", "linear", "matmul", "addmv", "dot")),
    ("cuDNN", ("conv", "cudnn", "batch_norm")),
    ("cuFFT", ("fft",)),
    ("cuSOLVER", ("linalg",)),
    ("NCCL", ("c10d", "nccl")),
)


def name_library(operator: str) -> str:
    """Return the library that an operator uses for the first time: ``aten.mm.default`` uses cuBLAS,
    others kernels of PyTorch.
    """
    name = operator.lower()
    for library, words in _LIBRARIES:
        if any(word in name for word in words):
            return library
    return "PyTorch"
