"""The memory pass: who owns device memory, and which graph uses which part of its pool.

A process of its own: torch's memory recorder costs time on every allocation, and the clean pass
must not pay for it.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import torch
from cuda.bindings import runtime

from collectors.allocator.extents import Block, Capture, Segment, SegmentIndex, allocated, at_peak
from collectors.allocator.history import end_recording, recorded, segments, start_recording
from collectors.allocator.owners import owners
from collectors.driver.calls import call
from collectors.passes.capture_listener import recording
from collectors.passes.executor import build, warm_up
from collectors.passes.modes import COMPILED, make_ready
from collectors.process.requests import PassRequest
from collectors.process.results import write_result
from graphviz_dash.bundle import parts
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

_SETTLE: Final = 3
"""Iterations before the watched one: the allocator's cache settles."""

_QUERY: Final = "--query-compute-apps=pid,gpu_uuid,used_memory"

_METHOD: Final = (
    "pools by segment_pool_id of torch.cuda.memory._snapshot(); a graph's extents from the "
    "allocations that _record_memory_history saw between the begin and the end of its capture; "
    "owners by the storages of parameters, their gradients, optimizer states, buffers and other "
    "tensors that gc finds; memory of the device by cudaMemGetInfo, of the process by nvidia-smi"
)


def run(request: PassRequest) -> None:
    """Writes memory-pass.json into ``request.out``."""
    stages = _Stages()
    step = build(request)
    stages.end(Stage.BUILD)
    warm_up(step, request.warmup, compiled=COMPILED.get(request.mode))
    stages.end(Stage.WARM_UP)
    captures = Captures()
    with recording(captures):
        iterate = make_ready(request.mode, step, request.plan)
    stages.end(Stage.PREPARE)
    # What warm-up and capture left in the cache (gradients that the captured step set to None, the
    # warm-up of make_graphed_callables) no iteration needs.
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(_SETTLE):
        iterate()
    torch.cuda.synchronize()
    before = _blocks(segments())
    with recorded() as history:
        iterate()
    held = segments()
    after = _blocks(held)
    stages.end(Stage.ITERATE)
    private = [segment for segment in held if segment.pool != DEFAULT_POOL]
    result = MemoryPass(
        method=_METHOD,
        iterations=_SETTLE + 1,
        stages=tuple(stages.rows),
        at_rest=_totals(after.values()),
        at_peak=_totals(at_peak(before, after, history.events, SegmentIndex(held))),
        segments=tuple(
            PoolSegment(segment.pool, segment.end - segment.begin) for segment in private
        ),
        live=tuple(_live(private, after)),
        graphs=tuple(capture.memory_in(private) for capture in captures.done),
    )
    write_result(parts.MEMORY_PASS, result, Path(request.out))


def _blocks(held: Sequence[Segment]) -> dict[int, Block]:
    """The live allocations by address."""
    owned = owners()
    return {
        address: Block(address, size, segment.pool, owned.get(address, Owner.UNOWNED))
        for segment in held
        for address, size in segment.live
    }


def _totals(blocks: Iterable[Block]) -> tuple[OwnedBytes, ...]:
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


def _live(private: Sequence[Segment], after: dict[int, Block]) -> Iterable[LiveExtent]:
    for number, segment in enumerate(private):
        for address, size in segment.live:
            begin = address - segment.begin
            yield LiveExtent(number, begin, begin + size, after[address].owner)


class _Stages:
    """Reads allocator and device at the end of each stage; the peaks begin anew with the next."""

    def __init__(self) -> None:
        self.rows: list[MemoryStage] = []
        torch.cuda.init()
        self.end(Stage.START)

    def end(self, stage: Stage) -> None:
        """The stage is over."""
        torch.cuda.synchronize()
        self.rows.append(
            MemoryStage(
                stage=stage,
                peak_allocated_bytes=torch.cuda.max_memory_allocated(),
                peak_reserved_bytes=torch.cuda.max_memory_reserved(),
                allocated_bytes=torch.cuda.memory_allocated(),
                reserved_bytes=torch.cuda.memory_reserved(),
                device_used_bytes=device_used(),
                process_used_bytes=process_used(torch.cuda.memory_reserved()),
            )
        )
        torch.cuda.reset_peak_memory_stats()


def process_used(at_least: int) -> int | None:
    """Memory of this process on the current device as nvidia-smi lists it; None where it does not.

    In a container the listed processes may be numbered as outside of it, so one of our number that
    has less than ``at_least`` bytes is another.
    """
    try:
        answer = subprocess.run(
            ["nvidia-smi", _QUERY, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    ours = [str(os.getpid()), f"GPU-{properties.uuid}"]
    for line in answer.stdout.splitlines():
        *who, used = (part.strip() for part in line.split(","))
        if who == ours and used.isdigit():
            size = int(used) << 20
            return size if size >= at_least else None
    return None


def device_used() -> int:
    """Bytes of the device that are not free, whoever has them."""
    free, total = torch.cuda.mem_get_info()
    return int(total - free)


class Captures:
    """Listens to the recorder: the allocations of each capture, the cost of its instantiation."""

    def __init__(self) -> None:
        self.done: list[Capture] = []
        self._used = 0

    def begins(self, graph_id: str) -> None:
        """Records what the capture allocates."""
        start_recording()

    def captured(self, graph_id: str, handle: int, capture_ns: int) -> None:
        """Reads what it allocated."""
        events = end_recording()
        # The cudagraph trees capture nothing once, to make their memory pool.
        if call(runtime.cudaGraphGetNodes, handle, 0)[1]:
            self.done.append(allocated(graph_id, events, SegmentIndex(segments())))
        self._used = device_used()

    def instantiated(self, graph_id: str, handle: int, instantiate_ns: int) -> None:
        """Measures what the driver took for it."""
        torch.cuda.synchronize()
        if self.done and self.done[-1].graph == graph_id:
            self.done[-1].instantiate_device_bytes = device_used() - self._used

    def launched(self, graph_id: str, call_ns: int, complete_ns: int) -> None:
        """Other code ran since it was instantiated, so nothing can be said of the launch alone."""
