from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from collectors.allocator.extents import (
    Block,
    Event,
    Segment,
    SegmentIndex,
    find_blocks_at_peak,
    merge_extents,
    summarize_capture,
)
from graphviz_dash.model.memory import DEFAULT_POOL, Extent, Owner

POOL = (0, 1)
PRIVATE = Segment(1_000_000, 1_010_000, POOL, ())
DEFAULT = Segment(2_000_000, 2_010_000, DEFAULT_POOL, ())
SEGMENTS = SegmentIndex([DEFAULT, PRIVATE])


def alloc(address: int, size: int) -> Event:
    return Event(False, address, size)


def free(address: int, size: int = 0) -> Event:
    return Event(True, address, size)


def test_an_address_is_in_the_segment_that_holds_it() -> None:
    assert SEGMENTS.find(1_000_000) is PRIVATE
    assert SEGMENTS.find(1_009_999) is PRIVATE
    assert SEGMENTS.find(1_010_000) is None
    assert SEGMENTS.find(999_999) is None
    assert SEGMENTS.find(2_000_512) is DEFAULT


def test_a_capture_takes_every_place_that_it_allocated() -> None:
    events = [
        alloc(1_000_000, 512),
        alloc(1_000_512, 1024),
        free(1_000_512),
        alloc(1_000_512, 512),
        alloc(1_004_096, 512),
        alloc(2_000_000, 4096),
        free(2_009_000),
    ]
    capture = summarize_capture("graph-3", events, SEGMENTS)
    assert (capture.pool, capture.allocations) == (POOL, 4)
    assert (capture.peak_bytes, capture.retained_bytes) == (1536, 1536)
    found = capture.to_graph_memory([PRIVATE])
    assert found.graph == "graph-3"
    assert found.extents == (Extent(0, 0, 1536), Extent(0, 4096, 4608))


def test_a_capture_that_allocates_nothing_has_no_pool() -> None:
    capture = summarize_capture("graph-0", [alloc(2_000_000, 512)], SEGMENTS)
    assert (capture.pool, capture.allocations, capture.extents) == (None, 0, [])


def test_the_peak_is_divided_by_owner() -> None:
    weight = Block(2_000_000, 1000, DEFAULT_POOL, Owner.WEIGHTS)
    old_gradient = Block(2_001_024, 300, DEFAULT_POOL, Owner.GRADIENTS)
    new_gradient = Block(2_001_024, 300, DEFAULT_POOL, Owner.GRADIENTS)
    events = [
        free(2_001_024),
        alloc(2_002_048, 700),
        alloc(2_001_024, 300),
        alloc(2_003_072, 100),
        free(2_003_072),
        free(2_002_048),
    ]
    before = {block.address: block for block in (weight, old_gradient)}
    after = {block.address: block for block in (weight, new_gradient)}
    peak = find_blocks_at_peak(before, after, events, SEGMENTS)
    assert {(block.address, block.owner) for block in peak} == {
        (2_000_000, Owner.WEIGHTS),
        (2_001_024, Owner.GRADIENTS),
        (2_002_048, Owner.TRANSIENT),
        (2_003_072, Owner.TRANSIENT),
    }
    assert sum(block.size for block in peak) == 2100


def test_a_place_that_is_taken_again_after_the_peak_was_transient() -> None:
    after = {2_000_000: Block(2_000_000, 100, DEFAULT_POOL, Owner.TENSORS)}
    events = [alloc(2_000_000, 900), free(2_000_000), alloc(2_000_000, 100)]
    (peak,) = find_blocks_at_peak({}, after, events, SEGMENTS)
    assert (peak.size, peak.owner) == (900, Owner.TRANSIENT)


def test_without_events_the_peak_is_what_was_there() -> None:
    before = {1: Block(1, 5, POOL, Owner.TENSORS)}
    assert find_blocks_at_peak(before, before, [], SEGMENTS) == [before[1]]


extents = st.tuples(st.integers(0, 60), st.integers(1, 20)).map(
    lambda pair: (pair[0], pair[0] + pair[1])
)


@given(st.lists(extents))
def test_merged_covers_the_same_without_overlap(given_extents: list[tuple[int, int]]) -> None:
    result = merge_extents(given_extents)
    assert {p for b, e in result for p in range(b, e)} == {
        p for b, e in given_extents for p in range(b, e)
    }
    assert all(before[1] < after[0] for before, after in itertools.pairwise(result))
