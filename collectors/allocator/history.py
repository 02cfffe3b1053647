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
