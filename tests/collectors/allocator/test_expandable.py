from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.allocator.expandable import (
    AllocationHistory,
    AllocatorEvent,
    Block,
    Range,
    predict_saving,
)

MIB = 1 << 20
PAGE = 20 * MIB
POOL = (1, 0)


def segment(
    address: int, size: int, *blocks: int, pool: tuple[int, int] = (0, 0), stream: int = 0
) -> dict[str, Any]:
    """A segment in MiB that starts with live blocks; a free block follows."""
    rows = [
        {"state": "active_allocated", "size": part * MIB, "requested_size": part * MIB}
        for part in blocks
    ]
    if (free := size - sum(blocks)) > 0:
        rows.append({"state": "inactive", "size": free * MIB, "requested_size": 0})
    return {
        "address": address * MIB,
        "total_size": size * MIB,
        "segment_pool_id": pool,
        "stream": stream,
        "blocks": rows,
    }


def events(*rows: tuple[str, int, int], stream: int = 0) -> list[AllocatorEvent]:
    return [AllocatorEvent(action, at * MIB, size * MIB, stream) for action, at, size in rows]


def predict(before: list[Any], rows: list[AllocatorEvent], after: list[Any]) -> float | None:
    saving = predict_saving(AllocationHistory(before, rows, after))
    return None if saving is None else saving / MIB


def test_weights_are_placed_in_pages() -> None:
    # Three weights of 15 MiB fill 45 of 60 MiB; natively each one has a segment of 16 MiB.
    weights = [segment(at, 16, 15) for at in (0, 100, 200)]
    assert predict(weights, [], weights) == 48 - 60


def test_each_stream_and_class_of_sizes_has_pages_of_its_own() -> None:
    segments = [segment(0, 32, 32, stream=1), segment(100, 2, 1, stream=1), segment(200, 20, 2)]
    # 32 MiB need two pages of 20, 1 MiB a page of 2, 2 MiB of another stream a page of 20.
    assert predict(segments, [], segments) == 54 - 62


def test_freed_memory_of_a_capture_is_used_again() -> None:
    rows = events(
        ("segment_alloc", 100, 20),
        ("alloc", 100, 8),
        ("alloc", 108, 8),
        ("free_requested", 100, 8),
        ("free_completed", 100, 8),
        ("segment_alloc", 200, 12),
        ("alloc", 200, 12),
    )
    after = [segment(200, 12, 12, pool=POOL), segment(100, 20, pool=POOL)]
    after[1]["blocks"] = [
        {"state": "inactive", "size": 8 * MIB, "requested_size": 0},
        {"state": "active_allocated", "size": 8 * MIB, "requested_size": 8 * MIB},
        {"state": "inactive", "size": 4 * MIB, "requested_size": 0},
    ]
    # The 12 MiB do not fit in front of the second block, so they end at 28 MiB.
    assert predict([], rows, after) == 32 - 40


def test_the_driver_returns_addresses_again_for_another_pool() -> None:
    rows = events(
        ("segment_alloc", 100, 20),
        ("alloc", 100, 8),
        ("free_completed", 100, 8),
        ("segment_free", 100, 20),
        ("segment_alloc", 100, 20),
        ("alloc", 100, 8),
    )
    # The pages of the first allocation, outside the pool, were released.
    assert predict([], rows, [segment(100, 20, 8, pool=POOL)]) == 0


def test_cached_segments_stay_until_they_are_released() -> None:
    cached = [segment(100, 20)]
    assert predict(cached, [], cached) == 0
    assert predict(cached, events(("segment_free", 100, 20)), []) == 0


def test_a_history_without_all_events_predicts_nothing() -> None:
    assert predict([], [], [segment(0, 20, 8)]) is None
    assert predict([segment(0, 20, 8)], [], [segment(0, 20)]) is None


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("allocate"), st.integers(1, 90)),
            st.tuples(st.just("free"), st.integers(0, 99)),
            st.tuples(st.just("release"), st.just(0)),
        ),
        max_size=60,
    )
)
def test_blocks_cover_a_range_in_complete_pages(steps: list[tuple[str, int]]) -> None:
    part = Range(PAGE)
    live: list[Block] = []
    for action, value in steps:
        if action == "allocate":
            live.append(part.allocate(value * MIB // 2))
        elif action == "free" and live:
            part.free(live.pop(value % len(live)))
        elif action == "release":
            part.release()
        assert part.mapped_bytes % PAGE == 0
        places = sorted((block.start, block.end) for block in live)
        assert all(a[1] <= b[0] for a, b in pairwise(places))
        assert sum(block.size for block in live) <= part.mapped_bytes
    for block in live:
        part.free(block)
    part.release()
    assert part.mapped_bytes == 0


def test_the_smallest_sufficient_block_is_used() -> None:
    part = Range(PAGE)
    first, _, third, _ = (part.allocate(size * MIB) for size in (9, 1, 5, 5))
    part.free(first)
    part.free(third)
    assert part.allocate(4 * MIB).start == 10 * MIB
    with pytest.raises(AssertionError, match="endless"):
        part.allocate(1 << 51)
