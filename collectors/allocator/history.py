"""Read the caching allocator through torch's memory recorder, without stacks."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

from collectors.allocator.expandable import AllocationHistory, AllocatorEvent
from collectors.allocator.extents import Event, Segment
from collectors.allocator.snapshot import can_omit_history, read_snapshot

_GRAIN: Final = 512
"""Allocation granularity in bytes."""


def read_segments() -> list[Segment]:
    """Read the current device's segments, by address."""
    device = torch.cuda.current_device()
    return sorted(
        (
            _parse_segment(raw)
            for raw in torch.cuda.memory._snapshot()["segments"]
            if raw["device"] == device
        ),
        key=lambda segment: segment.start,
    )


def _parse_segment(raw: dict[str, Any]) -> Segment:
    address = raw["address"]
    live = []
    for block in raw["blocks"]:
        if block["state"] == "active_allocated":
            live.append((address, block["size"]))
        address += block["size"]
    first, second = raw["segment_pool_id"]
    return Segment(
        raw["address"], raw["address"] + raw["total_size"], (int(first), int(second)), tuple(live)
    )


def keep_allocation_lines() -> None:
    """Make the allocator keep the Python stack of each live block, from CUDA's start on."""
    torch.cuda._lazy_call(
        lambda: torch.cuda.memory._record_memory_history("state", context="state", stacks="python")
    )


def read_allocation_frames() -> dict[int, list[tuple[str, int, str]]]:
    """Return file, line and function of the frames that allocated each live block, by address.

    The innermost frame is first. Blocks without recorded frames are omitted.
    """
    frames = {}
    for raw in torch.cuda.memory._snapshot()["segments"]:
        for block in raw["blocks"]:
            if block["state"] == "active_allocated" and block.get("frames"):
                frames[block["address"]] = [
                    (frame["filename"], frame["line"], frame["name"]) for frame in block["frames"]
                ]
    return frames


def start_recording() -> None:
    """Start a new history."""
    torch.cuda.memory._record_memory_history(None)
    torch.cuda.memory._record_memory_history("all", context=None, stacks="python")


def end_recording() -> list[Event]:
    """Stop recording and return the events."""
    traces = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
    torch.cuda.memory._record_memory_history(None)
    return [
        Event(raw["action"] == "free_requested", raw["addr"], -(-raw["size"] // _GRAIN) * _GRAIN)
        for raw in traces
        if raw["action"] in ("alloc", "free_requested")
    ]


MAX_EVENTS: Final = 100_000
"""Maximum number of recorded events. Their conversion stops the program once, for up to 0.2 s."""

_GLOBAL: Final = "global_record_annotations"
"""Option of torch that keeps its callback for annotations in no single thread."""

_CONFIGURATION: Final = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


class AllocationWatch:
    """Records all allocations of the current device, unless the program records them itself or
    configures the allocator.
    """

    def __init__(self) -> None:
        self._before: list[Mapping[str, Any]] | None = None
        self._restore: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Start recording."""
        memory: Any = torch.cuda.memory
        record = getattr(memory, "_record_memory_history", None)
        check_history = getattr(torch._C, "_cuda_isHistoryEnabled", None)
        if record is None or check_history is None or check_history() or not can_omit_history():
            return
        has_settings = any(name in os.environ for name in _CONFIGURATION)
        if has_settings or torch.cuda.get_allocator_backend() != "native":
            return

        def record_for_program(*args: Any, **kwargs: Any) -> Any:
            """Leave the allocator's only history to the program."""
            self._before = None
            self._restore()
            return record(*args, **kwargs)

        def restore() -> None:
            if memory._record_memory_history is record_for_program:
                memory._record_memory_history = record

        before = _read_raw_segments(read_snapshot())
        # Another thread ends the recording, and cannot remove a callback of this one: torch warns.
        options = {_GLOBAL: True} if _GLOBAL in inspect.signature(record).parameters else {}
        record("all", context=None, stacks="python", max_entries=MAX_EVENTS, **options)
        self._before, self._restore = before, restore
        memory._record_memory_history = record_for_program

    def finish(self) -> AllocationHistory | None:
        """Stop recording. None without a complete history."""
        before, self._before = self._before, None
        if before is None:
            return None
        self._restore()
        content = torch.cuda.memory._snapshot()
        torch.cuda.memory._record_memory_history(None)
        trace = content["device_traces"][torch.cuda.current_device()]
        if len(trace) >= MAX_EVENTS:
            return None
        events = [
            AllocatorEvent(row["action"], row["addr"], row["size"], row["stream"]) for row in trace
        ]
        return AllocationHistory(before, events, _read_raw_segments(content["segments"]))

    def cancel(self) -> None:
        """Stop recording without a result."""
        if self._before is not None:
            self._before = None
            self._restore()
            torch.cuda.memory._record_memory_history(None)


def _read_raw_segments(segments: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the segments of the current device."""
    device = torch.cuda.current_device()
    return [segment for segment in segments if segment["device"] == device]
