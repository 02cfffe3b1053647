from __future__ import annotations

from graphviz_dash.planning.allocator import PrivatePool

KIB = 1 << 10
MIB = 1 << 20


def test_segments_have_the_sizes_of_torch() -> None:
    pool = PrivatePool()
    # Small up to 1 MiB, then 20 MiB below 10 MiB, then multiples of 2 MiB.
    for size, reserved in ((1, 2), (MIB + 1, 22), (10 * MIB - 1, 22), (10 * MIB, 32)):
        pool.allocate(size)
        assert pool.reserved_bytes == reserved * MIB
    pool.allocate(13 * MIB)
    assert pool.reserved_bytes == 46 * MIB


def test_small_blocks_are_split_to_512_bytes() -> None:
    pool = PrivatePool()
    blocks = [pool.allocate(1) for _ in range(4_096)]
    assert pool.reserved_bytes == 2 * MIB
    assert {block.size for block in blocks} == {512}
    pool.allocate(512)
    assert pool.reserved_bytes == 4 * MIB


def test_a_large_block_keeps_a_rest_of_at_most_1_mib() -> None:
    pool = PrivatePool()
    pool.allocate(11 * MIB)
    assert pool.allocate(9 * MIB).size == 9 * MIB
    block = pool.allocate(10 * MIB)
    # 20 MiB less 9 leaves 11; 10 of them keep the rest.
    assert pool.reserved_bytes == 32 * MIB
    assert block.size == 11 * MIB


def test_free_neighbours_merge_and_segments_do_not() -> None:
    pool = PrivatePool()
    blocks = [pool.allocate(5 * MIB) for _ in range(8)]
    assert pool.reserved_bytes == 40 * MIB
    for number in (1, 3, 2, 5, 4, 0):
        pool.free(blocks[number])
    # 20 MiB of the first segment, 10 of the second.
    assert pool.allocate(10 * MIB).start == 20 * MIB
    assert pool.allocate(20 * MIB).start == 0
    assert pool.reserved_bytes == 40 * MIB


def test_the_smallest_sufficient_block_is_used() -> None:
    pool = PrivatePool()
    blocks = [pool.allocate(size * KIB) for size in (600, 8, 300, 8, 400)]
    for number in (0, 2):
        pool.free(blocks[number])
    assert pool.allocate(300 * KIB).start == 608 * KIB
    assert pool.allocate(300 * KIB).start == 0
