from __future__ import annotations

from collectors.allocator.captures import list_pool_operations
from collectors.allocator.expandable import AllocationHistory
from tests.collectors.allocator.test_expandable import POOL, events, segment


def test_operations_of_private_pools_are_assigned_to_captures() -> None:
    rows = events(
        ("alloc", 10, 1),  # before the captures
        ("segment_alloc", 100, 20),
        ("alloc", 100, 8),
        ("alloc", 108, 4),
        ("alloc", 11, 1),  # in the default pool
        ("free_requested", 100, 8),
        ("free_completed", 100, 8),
        ("alloc", 100, 2),
        # Between the captures.
        ("free_requested", 108, 4),
        ("free_completed", 108, 4),
        ("alloc", 112, 3),
        ("free_requested", 100, 2),
        ("free_completed", 100, 2),
    )
    after = [segment(100, 20, pool=POOL)]
    before = [segment(10, 2, 1)]
    mib = 1 << 20
    history = AllocationHistory(before, rows, after)
    assert list_pool_operations(history, (1, 7)) == (
        (0, (8 * mib, 4 * mib, -2, 2 * mib, -2)),
        (0, (3 * mib, -2)),
    )
    # The first capture starts after the first allocation of its pool.
    assert list_pool_operations(history, (2,)) == ((0, (4 * mib, 2 * mib, -2, 3 * mib, -2)),)
    # Another stream in the second capture, and in a part of the first one.
    rows[-3] = rows[-3]._replace(stream=7)
    history = AllocationHistory(before, rows, after)
    assert list_pool_operations(history, (1, 7, 9))[1:] == ((1, (3 * mib, -2)), (None, ()))
    assert list_pool_operations(history, (1,)) == ((0, None),)
