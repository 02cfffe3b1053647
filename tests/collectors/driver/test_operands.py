from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from collectors.allocator.extents import Event, Segment
from collectors.driver.operands import (
    AllocationResolver,
    Extent,
    find_addresses,
    find_argument,
    find_invalid_arguments,
    list_live_extents,
    merge_operands,
)
from graphviz_dash.model.graph import Operand

BASE = 0x7F12_0000_0000
SEGMENT = Segment(BASE, BASE + 0x10000, (0, 1), ((BASE, 512), (BASE + 1024, 1024)))
OTHER = (0x7F50_0000_0000, 0x7F50_0000_1000)


def ask(address: int) -> Extent | None:
    """Build a driver with one allocation outside torch."""
    return OTHER if OTHER[0] <= address < OTHER[1] else None


def reach(*events: Event) -> AllocationResolver:
    return AllocationResolver([SEGMENT], list_live_extents([SEGMENT], events), ask)


def test_addresses_are_found_at_every_multiple_of_four_bytes() -> None:
    arguments = struct.pack("<QIQi", BASE, 7, BASE + 512, -1)
    assert {BASE, BASE + 512} <= set(find_addresses(arguments))
    assert find_addresses(struct.pack("<QQdf", 12, 1 << 60, 0.0, 1.0)) == []
    assert find_addresses(b"") == find_addresses(b"1234567") == []


def test_the_argument_with_an_address_in_an_extent() -> None:
    structure = struct.pack("<IQ", 3, BASE + 600)
    arguments = [struct.pack("<I", 5), struct.pack("<Q", BASE + 4096), structure]
    assert find_argument(arguments, BASE, BASE + 1024) == 2
    assert find_argument(arguments, BASE + 4096, BASE + 4097) == 1
    assert find_argument(arguments, BASE + 4097, BASE + 5000) is None


def test_arguments_that_may_be_invalid_addresses() -> None:
    def has_allocation(address: int) -> bool:
        return BASE <= address < BASE + 512

    values = (BASE + 8, 0, 16, BASE + 4096)
    arguments = [*(struct.pack("<Q", value) for value in values), struct.pack("<I", 7), bytes(16)]
    assert find_invalid_arguments(arguments, has_allocation) == [(2, 16), (3, BASE + 4096)]


@given(st.lists(st.integers(1 << 32, (1 << 47) - 1), max_size=6), st.binary(max_size=12))
def test_no_address_in_the_arguments_is_missed(addresses: list[int], rest: bytes) -> None:
    packed = rest[: len(rest) // 4 * 4] + struct.pack(f"<{len(addresses)}Q", *addresses)
    assert set(addresses) <= set(find_addresses(packed))


def test_an_address_reaches_the_allocation_that_holds_it() -> None:
    found = reach()
    assert found.resolve(BASE + 1500) == Operand(0, 1024, 1024)
    assert found.resolve(BASE) == Operand(0, 0, 512)
    assert found.resolve(OTHER[0] + 8) == Operand(1, 0, 0x1000)
    assert found.resolve(0x1234_5678_9ABC) is None


def test_memory_that_served_several_allocations_is_reached_as_all_of_them() -> None:
    again = [
        Event(True, BASE + 1024, 1024),
        Event(False, BASE + 1024, 512),
        Event(False, BASE + 1536, 2048),
    ]
    found = reach(*again)
    # Of 1024 to 2048 before, and of 1024 to 1536 since: whichever it was when the node was added.
    assert found.resolve(BASE + 1024) == Operand(0, 1024, 1024)
    assert found.resolve(BASE + 1536) == Operand(0, 1024, 2560)
    assert found.resolve(BASE + 3000) == Operand(0, 1536, 2048)


def test_memory_that_nothing_was_allocated_in_is_reached_as_its_whole_segment() -> None:
    assert reach().resolve(BASE + 700) == Operand(0, 0, 0x10000)


def test_memory_that_the_graph_allocates_is_known_from_then_on() -> None:
    found = reach()
    address = 0x3_0200_0000
    assert found.resolve(address) is None
    found.add_graph_allocation(address, 256)
    assert found.resolve(address + 8) == Operand(0, 0, 256)


def test_operands_that_overlap_are_one() -> None:
    parts = [Operand(1, 0, 8), Operand(0, 512, 512), Operand(0, 0, 600), Operand(0, 1024, 8)]
    assert merge_operands(parts) == (Operand(0, 0, 1024), Operand(0, 1024, 8), Operand(1, 0, 8))
