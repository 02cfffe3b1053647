"""Assign the allocations of private pools to captures."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from collectors.allocator.expandable import AllocationHistory, follow_pools
from graphviz_dash.model.memory import DEFAULT_POOL


def list_pool_operations(
    history: AllocationHistory, starts: Sequence[int]
) -> tuple[tuple[int, ...], ...]:
    """Return the operations in private pools from each start to the next.

    ``starts``: numbers of allocations and frees in ``history`` before each capture, ascending. A
    positive operation allocates bytes, as requested; -k frees the k-th last allocation.
    """
    operations: list[list[int]] = [[] for _ in starts]
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
        elif event.action == "free_completed" and event.address in numbers:
            operations[capture].append(numbers.pop(event.address) - allocations)
    return tuple(tuple(part) for part in operations)
