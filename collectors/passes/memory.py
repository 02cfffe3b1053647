"""Run the memory pass: owners of device memory and the use of graph pools.

Runs in a separate process because torch's memory recorder slows every allocation.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from cuda.bindings import runtime
from torch.utils._python_dispatch import TorchDispatchMode

from collectors.allocator.extents import (
    Block,
    Capture,
    Segment,
    SegmentIndex,
    find_blocks_at_peak,
    summarize_capture,
)
from collectors.allocator.history import end_recording, read_segments, start_recording
from collectors.allocator.owners import find_owners, list_tracked_objects
from collectors.driver.calls import call
from collectors.driver.nvml import read_device_memory
from collectors.guard import Guard
from collectors.ledger.recorder import LedgerRecorder
from collectors.ledger.samples import read_used_bytes
from collectors.passes.capture_listener import CaptureListener, record_captures
from collectors.passes.executor import build_step, warm_up
from collectors.passes.modes import COMPILED, prepare_mode
from collectors.process.requests import PassRequest
from collectors.process.results import write_result
from graphviz_dash.bundle import parts
from graphviz_dash.model.ledger import SampleKind, SpanKind
from graphviz_dash.model.memory import (
    DEFAULT_POOL,
    LiveExtent,
    MemoryPass,
    MemoryStage,
    OwnedBytes,
    Owner,
    PoolId,
    PoolSegment,
    Stage,
)

_SETTLE_ITERATIONS: Final = 3
"""Iterations before the recorded one, until the allocator's cache settles."""

_SPANS: Final = {
    Stage.START: SpanKind.CONTEXT,
    Stage.BUILD: SpanKind.WEIGHTS,
    Stage.WARM_UP: SpanKind.WARM_UP,
    Stage.PREPARE: SpanKind.CAPTURES,
}


_METHOD: Final = (
    "pools by segment_pool_id of torch.cuda.memory._snapshot(); a graph's extents from the "
    "allocations in _record_memory_history between the start and the end of its capture; "
    "owners by the storages of parameters, their gradients, optimizer states, buffers and other "
    "tensors that gc finds; device memory by cudaMemGetInfo, process memory by NVML"
)


def run(request: PassRequest) -> None:
    """Write memory-pass.json to ``request.out``."""
    ledger = LedgerRecorder(Guard())
    ledger.start()
    ledger.record_used_before()
    stages = _StageRecorder(ledger)
    step = build_step(request)
    stages.end_stage(Stage.BUILD)
    compile_mode = COMPILED.get(request.mode)
    first_use = None if compile_mode else FirstUse(ledger)
    warm_up(step, request.warmup, compiled=compile_mode, first=first_use)
    stages.end_stage(Stage.WARM_UP)
    captures = MemoryListener(ledger)
    with record_captures(captures) as graphs:
        iterate = prepare_mode(request.mode, step, request.plan)
    ledger.end_startup()
    ledger.stop()
    ledger.holders.stop()
    stages.end_stage(Stage.PREPARE)
    # No iteration needs the cache left by warmup and capture (gradients that the captured step set
    # to None, the warmup of make_graphed_callables).
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(_SETTLE_ITERATIONS):
        iterate()
    torch.cuda.synchronize()
    before = _list_blocks(read_segments())
    start_recording()
    iterate()
    torch.cuda.synchronize()
    events = end_recording()
    all_segments = read_segments()
    after = _list_blocks(all_segments)
    stages.end_stage(Stage.ITERATE)
    private = [segment for segment in all_segments if segment.pool != DEFAULT_POOL]
    result = MemoryPass(
        method=_METHOD,
        iterations=_SETTLE_ITERATIONS + 1,
        stages=tuple(stages.rows),
        owners_at_end=_sum_by_owner(after.values()),
        owners_at_peak=_sum_by_owner(
            find_blocks_at_peak(before, after, events, SegmentIndex(all_segments))
        ),
        segments=tuple(
            PoolSegment(segment.pool, segment.end - segment.start) for segment in private
        ),
        live_extents=tuple(_list_live_extents(private, after)),
        graphs=tuple(capture.to_graph_memory(private) for capture in captures.done),
    )
    write_result(parts.MEMORY_PASS, result, Path(request.out))
    ledger.record_state(collect=True)
    if not request.mode.has_graph_trees:
        _drop_graphs(graphs, ledger)
    ledger.sample(SampleKind.END)
    write_result(parts.LEDGER, ledger.build(), Path(request.out))


def _drop_graphs(graphs: Mapping[str, torch.cuda.CUDAGraph], ledger: LedgerRecorder) -> None:
    """Reset the graphs, last capture first, sampling memory after each."""
    torch.cuda.empty_cache()
    ledger.sample(SampleKind.CACHE_RELEASE)
    for graph_id, graph in reversed(list(graphs.items())):
        graph.reset()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        ledger.record_pools(_sum_private_pools(read_segments()))
        ledger.sample(SampleKind.GRAPH_DROP, graph_id)


def _sum_private_pools(segments: Iterable[Segment]) -> int:
    return sum(segment.end - segment.start for segment in segments if segment.pool != DEFAULT_POOL)


def _list_blocks(segments: Sequence[Segment]) -> dict[int, Block]:
    owners_by_block = find_owners(list_tracked_objects())
    return {
        address: Block(address, size, segment.pool, owners_by_block.get(address, Owner.UNOWNED))
        for segment in segments
        for address, size in segment.live
    }


def _sum_by_owner(blocks: Iterable[Block]) -> tuple[OwnedBytes, ...]:
    sums: Counter[tuple[PoolId, Owner]] = Counter()
    for block in blocks:
        sums[block.pool, block.owner] += block.size
    order = list(Owner)
    return tuple(
        OwnedBytes(pool, owner, size)
        for (pool, owner), size in sorted(
            sums.items(), key=lambda item: (item[0][0], order.index(item[0][1]))
        )
    )


def _list_live_extents(private: Sequence[Segment], after: dict[int, Block]) -> Iterable[LiveExtent]:
    for number, segment in enumerate(private):
        for address, size in segment.live:
            begin = address - segment.start
            yield LiveExtent(number, begin, begin + size, after[address].owner)


class _StageRecorder:
    """Reads allocator and device state at the end of each stage and resets the peaks."""

    def __init__(self, ledger: LedgerRecorder) -> None:
        self.rows: list[MemoryStage] = []
        self._ledger = ledger
        self._begin = time.perf_counter_ns()
        torch.cuda.init()
        self.end_stage(Stage.START)

    def end_stage(self, stage: Stage) -> None:
        torch.cuda.synchronize()
        now = time.perf_counter_ns()
        self._ledger.sample(SampleKind.STAGE, stage.value)
        if (kind := _SPANS.get(stage)) is not None:
            self._ledger.add_span(kind, stage.value, self._begin, now)
        self.rows.append(
            MemoryStage(
                stage=stage,
                peak_allocated_bytes=torch.cuda.max_memory_allocated(),
                peak_reserved_bytes=torch.cuda.max_memory_reserved(),
                allocated_bytes=torch.cuda.memory_allocated(),
                reserved_bytes=torch.cuda.memory_reserved(),
                device_used_bytes=read_used_bytes(),
                process_used_bytes=read_process_memory(torch.cuda.memory_reserved()),
            )
        )
        torch.cuda.reset_peak_memory_stats()
        self._begin = time.perf_counter_ns()
        self._ledger.add_span(SpanKind.RECORDER, "reading memory", now, self._begin)


class FirstUse(TorchDispatchMode):
    """Samples memory outside the allocator after each operator: the first use of a kernel or a
    library loads it."""

    def __init__(self, ledger: LedgerRecorder) -> None:
        super().__init__()
        self._ledger = ledger

    def __enter__(self) -> Any:
        self._ledger.sample(SampleKind.OPERATOR, "streams")
        return super().__enter__()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self._ledger.sample(SampleKind.OPERATOR, str(func))
        return result


def read_process_memory(minimum: int) -> int | None:
    """Return this process's device memory according to NVML, or None if unavailable.

    A value below ``minimum`` bytes belongs to another process, since containers may see host ids.
    """
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    memory = read_device_memory(os.getpid()).get(f"GPU-{properties.uuid}")
    size = None if memory is None else memory.process
    return size if size is not None and size >= minimum else None


class MemoryListener(CaptureListener):
    """Records the allocations of each capture and the cost of its instantiation."""

    def __init__(self, ledger: LedgerRecorder) -> None:
        self.done: list[Capture] = []
        self._ledger = ledger
        self._used = 0

    def on_capture_start(self, graph_id: str) -> None:
        """Start recording allocations."""
        start_recording()
        self._ledger.begin_capture(graph_id)

    def on_capture_end(self, graph_id: str, handle: int, capture_ns: int) -> None:
        """Read the allocations of the capture."""
        end = time.perf_counter_ns()
        events = end_recording()
        segments = read_segments()
        pool = None
        # torch.compile's CUDA graph trees make an empty capture once to create their memory pool.
        if call(runtime.cudaGraphGetNodes, handle, 0)[1]:
            self.done.append(summarize_capture(graph_id, events, SegmentIndex(segments)))
            pool = self.done[-1].pool
        self._ledger.end_capture(graph_id, pool, _sum_private_pools(segments), end)
        self._used = read_used_bytes()

    def on_instantiation(self, graph_id: str, handle: int, instantiate_ns: int) -> None:
        """Measure the driver's memory for the executable."""
        end = time.perf_counter_ns()
        torch.cuda.synchronize()
        if self.done and self.done[-1].graph == graph_id:
            self.done[-1].instantiate_device_bytes = read_used_bytes() - self._used
        self._ledger.record_instantiation(graph_id, end - instantiate_ns, end)

    def on_first_launch(self, graph_id: str, call_ns: int, complete_ns: int) -> None:
        """Record the time of the launch to its completion."""
        end = time.perf_counter_ns()
        self._ledger.record_first_launch(graph_id, end - complete_ns, end)
