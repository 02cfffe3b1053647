"""Read the caching allocator through torch's memory recorder, without stacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from collectors.allocator.extents import Event, Segment

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


@dataclass
class History:
    """Events of a recorded period, in order; filled at its end."""

    events: list[Event] = field(default_factory=list)


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


@contextmanager
def record_history() -> Iterator[History]:
    """Record the history of the block."""
    history = History()
    start_recording()
    try:
        yield history
    finally:
        torch.cuda.synchronize()
        history.events = end_recording()
