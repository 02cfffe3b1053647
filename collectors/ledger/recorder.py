"""Record the ledger of this process.

Samples of memory come from the program's calls around captures, and from a thread that ends with
the start-up. Later, only captures are recorded.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns, thread_time_ns
from typing import Final, NamedTuple

import torch
from msgspec.structs import replace

from collectors.allocator.captures import CaptureOperations, list_pool_operations
from collectors.allocator.expandable import predict_saving
from collectors.allocator.history import AllocationWatch
from collectors.allocator.holders import TensorHolders
from collectors.allocator.owners import list_tracked_objects
from collectors.driver.calls import DriverError
from collectors.driver.nvml import DeviceMemory, keep_loaded, read_device_memory
from collectors.guard import Guard
from collectors.ledger.clock import read_birth, read_process_start
from collectors.ledger.garbage import time_collections
from collectors.ledger.imports import time_imports
from collectors.ledger.phases import PhaseWatch
from collectors.ledger.samples import (
    AllocatedSegment,
    DeviceNumbers,
    OwnedTensor,
    build_state,
    describe_tensors,
    estimate_others,
    find_layers,
    read_module_loading,
    read_numbers,
    read_segments,
    read_settings,
    read_used_bytes,
    select_surviving_tensors,
)
from graphviz_dash.model.ledger import (
    AllocatorState,
    GraphStart,
    LayerGroup,
    Ledger,
    LedgerSpan,
    MemorySample,
    SampleKind,
    SpanKind,
)

MAX_SPANS: Final = 20_000
MAX_SAMPLES: Final = 20_000


_FRESH: Final = frozenset(
    {SampleKind.CONTEXT, SampleKind.PERIODIC, SampleKind.STAGE, SampleKind.END}
)
"""Samples outside captures; they read the memory of other processes."""


class _Graph:
    def __init__(self, graph_id: str, begin: int) -> None:
        self.id = graph_id
        self.begin = begin
        self.pool: tuple[int, int] | None = None
        self.stream: int | None = None
        self.first_replay: int | None = None
        self.failure = False
        self.held_at_begin = 0
        self.held_bytes: int | None = None
        self.first_operation = 0


class _KnownState(NamedTuple):
    """A state whose owners are incomplete."""

    number: int
    segments: tuple[AllocatedSegment, ...]
    tensors: dict[int, OwnedTensor]
    layers: tuple[LayerGroup, ...]


class LedgerRecorder:
    """Records memory and time of this process. Errors go to ``guard``.

    Methods may be called in any thread. All times are of ``time.perf_counter_ns``.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self.allocations: AllocationWatch | None = None
        """Set to simulate expandable segments, from the first capture to the end of the start-up.
        """
        self._expandable_saving: int | None = None
        self._first_operation = 0
        self._pool_operations: dict[str, CaptureOperations] = {}
        self.count_replays: Callable[[], int] = lambda: 0
        self._replays_before = 0
        self._origin = read_process_start()
        self._threads = {threading.main_thread().ident: 0}
        self._samples: list[MemorySample] = []
        self._spans: list[LedgerSpan] = []
        self._dropped = 0
        self._states: list[tuple[MemorySample, AllocatorState]] = []
        self._first_state: _KnownState | None = None
        self.holders = TensorHolders()
        self._graphs: dict[str, _Graph] = {}
        self._events: Counter[str] = Counter()
        self._stops: list[Callable[[], None]] = []
        self._phases = PhaseWatch(self.add_span, self._count_event, self.holders.add, guard)
        self._total: int | None = None
        self._device: int | None = None
        self._used_before: dict[str, DeviceMemory] = {}
        self._memory: DeviceMemory | None = None
        self._uuid: str | None = None
        self._others: int | None = None
        self._outside: int | None = None
        self._loading: str | None = None
        self._pool_bytes = 0
        self._open_captures = 0
        self._streams: dict[int, int] = {}
        self._candidate: int | None = None
        self._ended: int | None = None
        self._changes = 0
        self._cost = 0

    @property
    def has_context(self) -> bool:
        """True after the first sample."""
        return self._device is not None

    @property
    def is_capturing(self) -> bool:
        """True while a capture is open."""
        return self._open_captures > 0

    @property
    def is_startup_done(self) -> bool:
        """True after the end of the start-up."""
        return self._ended is not None

    @property
    def changes(self) -> int:
        """Number that grows with each new fact."""
        return self._changes

    def start(self) -> None:
        """Start recording spans."""
        begin = perf_counter_ns()
        birth = read_birth()
        if birth is not None:
            self.add_span(SpanKind.INTERPRETER, "Python", self._origin, birth.python)
            self.add_span(SpanKind.IMPORT, "torch", birth.torch_begin, birth.torch_end)
            begin = birth.torch_end
        self._stops = [
            time_imports(lambda name, start, end: self.add_span(SpanKind.IMPORT, name, start, end)),
            time_collections(lambda name, start, end: self.add_span(SpanKind.GC, name, start, end)),
        ]
        self._phases.start()
        self.holders.start()
        self.add_span(SpanKind.RECORDER, "hook", begin, perf_counter_ns())

    def record_used_before(self) -> None:
        """Read the device memory in use right before this process has a context."""
        begin = perf_counter_ns()
        keep_loaded()
        self._used_before = read_device_memory(os.getpid())
        self.add_span(SpanKind.RECORDER, "reading NVML", begin, perf_counter_ns())

    def stop(self) -> None:
        """Stop recording spans and restore the program."""
        self._phases.stop()
        while self._stops:
            self._stops.pop()()

    def add_span(self, kind: SpanKind, name: str, begin: int, end: int) -> None:
        """Add an activity of the current thread."""
        # No lock: a fork could copy it while another thread holds it.
        if len(self._spans) >= MAX_SPANS:
            self._dropped += 1
            return
        thread = self._threads.setdefault(get_ident(), len(self._threads))
        start = max(0, begin - self._origin)
        self._spans.append(LedgerSpan(kind, name, thread, start, max(start, end - self._origin)))
        self._changes += 1

    def _count_event(self, name: str) -> None:
        if name.endswith(("_hit", "_miss", "_bypass")):
            self._events[name] += 1

    # Memory.

    def sample(
        self, kind: SampleKind, name: str | None = None, numbers: DeviceNumbers | None = None
    ) -> DeviceNumbers | None:
        """Add a sample of the current device. None without a CUDA context in this thread.

        ``numbers``: values that were just read. None to read them.
        """
        begin = perf_counter_ns()
        # The thread of periodic samples only delays the program by its CPU time.
        clock = thread_time_ns if kind is SampleKind.PERIODIC else perf_counter_ns
        cost_begin = clock()
        try:
            numbers = numbers or read_numbers()
        except DriverError:
            return None
        if self._device is None:
            self._record_context(numbers)
            kind, name = SampleKind.CONTEXT, None
        # Other processes allocate and free outside this one's allocator. Reading their memory costs
        # as much as the rest of a sample, three times per capture.
        others = self._others
        if kind in _FRESH or numbers.outside_bytes != self._outside:
            with self._guard:
                others = self._read_others(numbers.used)
        # The program may have allocated between the readings.
        if kind is SampleKind.PERIODIC and read_used_bytes() != numbers.used:
            self._cost += clock() - cost_begin
            return numbers
        self._outside, self._others = numbers.outside_bytes, others
        if len(self._samples) < MAX_SAMPLES and not self._is_repetition(kind, numbers):
            self._samples.append(
                MemorySample(
                    time_ns=max(0, begin - self._origin),
                    kind=kind,
                    device_used_bytes=max(0, numbers.used),
                    reserved_bytes=numbers.reserved_bytes,
                    allocated_bytes=numbers.allocated_bytes,
                    pool_bytes=min(self._pool_bytes, numbers.reserved_bytes),
                    host_bytes=numbers.host,
                    name=name,
                    others_bytes=others,
                )
            )
            self._changes += 1
        self._cost += clock() - cost_begin
        return numbers

    def _read_others(self, used: int) -> int | None:
        if self._uuid is None:
            self._uuid = self._read_uuid()
        memory = read_device_memory(os.getpid()).get(self._uuid or "")
        before = self._used_before.get(self._uuid or "")
        if memory is None or before is None:
            return self._others
        estimate = estimate_others(used, memory, before)
        return self._others if estimate is None else estimate

    def _is_repetition(self, kind: SampleKind, numbers: DeviceNumbers) -> bool:
        if kind not in (SampleKind.PERIODIC, SampleKind.OPERATOR) or not self._samples:
            return False
        last = self._samples[-1]
        reserved_equal = last.reserved_bytes == numbers.reserved_bytes
        outside_equal = last.outside_bytes == numbers.used - numbers.reserved_bytes
        return outside_equal and (reserved_equal or kind is SampleKind.OPERATOR)

    def _record_context(self, numbers: DeviceNumbers) -> None:
        self._device = int(torch.cuda.current_device())
        self._total = numbers.total
        with self._guard:
            self._loading = read_module_loading()

    def record_pools(self, pool_bytes: int) -> None:
        """Record the size of the private pools for later samples."""
        self._pool_bytes = pool_bytes

    def record_known_state(self) -> None:
        """Add the content of the allocator with the owners that :attr:`holders` finds. The next
        complete search completes it.

        A search among all of Python's objects would delay an engine by half a second.
        """
        begin = perf_counter_ns()
        if self._samples:
            segments = read_segments()
            objects = self.holders.find_objects()
            tensors, layers = describe_tensors(objects), find_layers(objects.modules)
            state = build_state(segments, tensors, layers, is_search_complete=False)
            self._first_state = _KnownState(len(self._states), segments, tensors, layers)
            self._states.append((self._samples[-1], state))
        self.holders.pause()
        self.add_span(SpanKind.RECORDER, "content of the allocator", begin, perf_counter_ns())

    def record_state(self, *, collect: bool) -> None:
        """Add the content of the allocator, which belongs to the last sample.

        Searches the owners among all objects of Python; ``collect``: run the garbage collector
        first. Otherwise, unreachable tensors have owners too.
        """
        begin = perf_counter_ns()
        if self._samples:
            segments = read_segments()
            objects = list_tracked_objects(collect=collect)
            tensors, layers = describe_tensors(objects), find_layers(objects.modules)
            first = self._first_state
            if first is not None:
                surviving_tensors = select_surviving_tensors(tensors, first.segments, segments)
                self._states[first.number] = (
                    self._states[first.number][0],
                    build_state(
                        first.segments,
                        surviving_tensors | first.tensors,
                        # The program may have dropped its model since.
                        first.layers or layers,
                        is_search_complete=True,
                    ),
                )
                self._first_state = None
            state = build_state(segments, tensors, layers, is_search_complete=True)
            self._states.append((self._samples[-1], state))
        self.add_span(SpanKind.RECORDER, "content of the allocator", begin, perf_counter_ns())

    # Captures.

    def begin_capture(self, graph_id: str, begin: int | None = None) -> None:
        """Handle the start of a capture. ``begin``: start of the recorder's work for it."""
        numbers = self.sample(SampleKind.CAPTURE_BEGIN, graph_id)
        if numbers is not None and not self._graphs:
            # Here in the program's own thread and before its steps, where it disturbs no timing.
            with self._guard:
                self.record_known_state()
            with self._guard:
                if self.allocations is not None:
                    self.allocations.start()
                    self._first_operation = read_numbers().operations
        self._open_captures += 1
        self._candidate = None
        self._replays_before = self.count_replays()
        graph = self._graphs[graph_id] = _Graph(graph_id, perf_counter_ns())
        graph.held_at_begin = numbers.held_bytes if numbers is not None else 0
        graph.first_operation = numbers.operations if numbers is not None else 0
        with self._guard:
            handle = int(torch.cuda.current_stream().cuda_stream)
            graph.stream = self._streams.setdefault(handle, len(self._streams))
        graph.begin = perf_counter_ns()
        if begin is not None:
            self.add_span(SpanKind.RECORDER, "preparing the capture", begin, graph.begin)

    def end_body(self, graph_id: str) -> DeviceNumbers | None:
        """Handle the moment before the call that ends a capture. Returns the memory then."""
        numbers = self.sample(SampleKind.CAPTURE_END, graph_id)
        graph = self._graphs.get(graph_id)
        if graph is not None and numbers is not None:
            graph.held_bytes = max(0, numbers.held_bytes - graph.held_at_begin)
        return numbers

    def end_capture(
        self,
        graph_id: str,
        pool: tuple[int, int] | None,
        pool_bytes: int,
        end: int,
        numbers: DeviceNumbers | None = None,
    ) -> None:
        """Handle a capture into ``pool`` that ended at ``end``; ``pool_bytes`` covers all private
        pools. ``numbers``: memory since then, None to read it."""
        graph = self._close_capture(graph_id)
        if graph is not None:
            graph.pool = pool
            self._pool_bytes = pool_bytes
            self.add_span(SpanKind.CAPTURE, graph_id, graph.begin, end)
            self.sample(SampleKind.INSTANTIATION, graph_id, numbers)
            self.add_span(SpanKind.RECORDER, "reading the pools", end, perf_counter_ns())

    def fail_capture(self, graph_id: str, pool: tuple[int, int] | None, pool_bytes: int) -> None:
        """Handle a failed capture; arguments as in :meth:`end_capture`."""
        graph = self._close_capture(graph_id)
        if graph is not None:
            graph.failure = True
            graph.pool = pool
            self._pool_bytes = pool_bytes
            self.add_span(SpanKind.CAPTURE, graph_id, graph.begin, perf_counter_ns())
            self.sample(SampleKind.INSTANTIATION, graph_id)

    def _close_capture(self, graph_id: str) -> _Graph | None:
        graph = self._graphs.get(graph_id)
        if graph is not None:
            self._open_captures = max(0, self._open_captures - 1)
        return graph

    def record_instantiation(self, graph_id: str, begin: int, end: int) -> None:
        """Record a separate instantiation."""
        self.add_span(SpanKind.INSTANTIATE, graph_id, begin, end)
        self.sample(SampleKind.INSTANTIATION, graph_id)

    def record_first_launch(self, graph_id: str, begin: int, end: int) -> None:
        """Record the first replay of a graph."""
        graph = self._graphs.get(graph_id)
        if graph is None:
            return
        graph.first_replay = end
        if self._candidate is None:
            self._candidate = end
        self.add_span(SpanKind.LAUNCH, graph_id, begin, end)

    # End of the start-up.

    def is_startup_over(self) -> bool:
        """Check if as many replays as captures followed the last capture."""
        if self._ended is not None or self._candidate is None or self.is_capturing:
            return False
        return self.count_replays() - self._replays_before >= len(self._graphs)

    def end_startup(self) -> None:
        """End the start-up at the first replay since the last capture, if any, and restore the
        program."""
        if self._ended is None and self._candidate is not None:
            self._ended = self._candidate
            self.stop()
            self.sample(SampleKind.STARTUP_END)
            with self._guard:
                self._evaluate_allocations()
            with self._guard:
                memory = read_device_memory(os.getpid())
                uuid = self._read_uuid()
                self._memory = memory.get(uuid) if uuid is not None else None

    def _evaluate_allocations(self) -> None:
        begin = perf_counter_ns()
        history = self.allocations.finish() if self.allocations is not None else None
        if history is not None:
            self._expandable_saving = predict_saving(history)
            graphs = tuple(self._graphs.values())
            starts = [max(0, graph.first_operation - self._first_operation) for graph in graphs]
            operations = list_pool_operations(history, starts)
            self._pool_operations = {
                graph.id: part for graph, part in zip(graphs, operations, strict=True)
            }
        self.add_span(SpanKind.RECORDER, "allocations", begin, perf_counter_ns())

    def _get_operations(self, graph_id: str) -> CaptureOperations:
        return self._pool_operations.get(graph_id) or CaptureOperations(None, None)

    def _read_uuid(self) -> str | None:
        if self._device is None:
            return None
        uuid = getattr(torch.cuda.get_device_properties(self._device), "uuid", None)
        return None if uuid is None else f"GPU-{uuid}"

    def build(self) -> Ledger:
        """Build the ledger so far."""
        uuid = None
        with self._guard:
            uuid = self._uuid or self._read_uuid()
        before = self._used_before.get(uuid) if uuid is not None else None
        # Threads take samples concurrently.
        samples = sorted(self._samples, key=lambda sample: sample.time_ns)
        positions = {id(sample): number for number, sample in enumerate(samples)}
        return Ledger(
            process_start_ns=self._origin,
            pid=os.getpid(),
            parent_pid=os.getppid(),
            device=self._device,
            device_total_bytes=self._total,
            module_loading=self._loading,
            used_before_bytes=None if before is None else before.used,
            process_used_bytes=None if self._memory is None else self._memory.process,
            samples=tuple(samples),
            spans=tuple(self._spans),
            graphs=tuple(
                GraphStart(
                    graph=graph.id,
                    pool=graph.pool,
                    stream=graph.stream,
                    first_replay_ns=self._convert_time(graph.first_replay),
                    failure=graph.failure,
                    held_bytes=graph.held_bytes,
                    pool_operations=self._get_operations(graph.id).operations,
                    pool_stream=self._get_operations(graph.id).stream,
                )
                for graph in tuple(self._graphs.values())
            ),
            states=tuple(
                replace(state, sample=positions[id(sample)]) for sample, state in self._states
            ),
            startup_end_ns=self._convert_time(self._ended),
            recorder_ns=self._cost,
            compiler_events=dict(self._events),
            settings=read_settings(dict(os.environ)),
            dropped_spans=self._dropped,
            expandable_saving_bytes=self._expandable_saving,
        )

    def _convert_time(self, moment: int | None) -> int | None:
        return None if moment is None else max(0, moment - self._origin)
