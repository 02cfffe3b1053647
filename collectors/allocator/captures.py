"""Assign the allocations of private pools to captures."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from collectors.allocator.expandable import AllocationHistory, follow_pools
from graphviz_dash.model.memory import DEFAULT_POOL


class CaptureOperations(NamedTuple):
    """Allocations and frees in private pools from one capture to the next."""

    stream: int | None
    """Stream of the allocations, in order of appearance. None without any."""
    operations: tuple[int, ...] | None
    """A positive number allocates bytes, as requested; -k frees the k-th last allocation. None if
    the allocations have several streams."""


def list_pool_operations(
    history: AllocationHistory, starts: Sequence[int]
) -> tuple[CaptureOperations, ...]:
    """Return the operations in private pools from each start to the next.

    ``starts``: numbers of allocations and frees in ``history`` before each capture, ascending.
    """
    operations: list[list[int]] = [[] for _ in starts]
    handles: dict[int, int] = {}
    streams: list[set[int]] = [set() for _ in starts]
    numbers: dict[int, int] = {}
    count = allocations = 0
    capture = -1
    for event, pool in follow_pools(history):
        if event.action in ("alloc", "free_requested"):
            capture = bisect_right(starts, count) - 1
            count += 1
        if pool == DEFAULT_POOL or capture < 0:
            continue
        if event.action == "alloc":
            numbers[event.address] = allocations
            allocations += 1
            operations[capture].append(event.size)
            streams[capture].add(handles.setdefault(event.stream, len(handles)))
        elif event.action == "free_completed" and event.address in numbers:
            operations[capture].append(numbers.pop(event.address) - allocations)
    return tuple(
        CaptureOperations(min(used, default=None), tuple(part) if len(used) < 2 else None)
        for used, part in zip(streams, operations, strict=True)
    )
