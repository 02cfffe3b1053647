from __future__ import annotations

import numpy as np

from graphviz_dash.features.graph.drawing.repeat_card import (
    format_variant,
    list_block_differences,
    summarize_times,
)
from graphviz_dash.features.graph.folding.repeats import (
    BlockVariant,
    LaunchDifference,
    LaunchShape,
    RepeatFacts,
)

USUAL = BlockVariant((0, 1, 3))


def facts(*others: BlockVariant, launches: tuple[LaunchDifference, ...] = ()) -> RepeatFacts:
    return RepeatFacts(np.array([2_000.0, 1_000.0, np.nan, 3_000.0]), (USUAL, *others), launches)


def test_times_are_of_the_blocks_that_were_seen() -> None:
    assert summarize_times(facts()) == "median 2.00 µs, 1.00 µs to 3.00 µs"
    unseen = RepeatFacts(np.array([np.nan]), (USUAL,), ())
    assert summarize_times(unseen) == "not timed"


def test_equal_blocks() -> None:
    assert list_block_differences(facts()) == [
        "All blocks have the same kernels and launch shapes."
    ]


def test_a_variant_is_named_by_what_it_has_and_lacks() -> None:
    variant = BlockVariant((2,), added=(("gemm", 2),), missing=(("norm", 1),))
    assert list_block_differences(facts(variant)) == [
        "3 blocks have the same kernels.",
        "3: 2 gemm more; 1 norm less",
    ]
    many = BlockVariant((2,), added=tuple((name, 1) for name in "abcdef"))
    assert format_variant(many) == "1 a, 1 b, 1 c, 1 d and 2 others more"
    assert format_variant(BlockVariant((2,))) == "the same kernels in another order"


def test_a_node_that_is_launched_otherwise() -> None:
    usual = LaunchShape((1, 1, 1), (64, 1, 1), 0)
    other = LaunchShape((2, 1, 1), (64, 1, 1), 0)
    kernel = LaunchDifference(4, "gemm", usual, ((other, 2),))
    copy = LaunchDifference(0, "copy", LaunchShape(bytes=8), ((LaunchShape(bytes=16), 1),))
    assert list_block_differences(facts(launches=(kernel, copy))) == [
        "gemm (node 5 of each block): grid 1 x 1 x 1, block 64 x 1 x 1, 0 B shared, "
        "but grid 2 x 1 x 1, block 64 x 1 x 1, 0 B shared in 2",
        "copy (node 1 of each block): 8 B, but 16 B in 1",
    ]
