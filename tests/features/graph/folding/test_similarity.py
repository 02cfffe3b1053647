from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.features.graph.folding.similarity import (
    find_similar_blocks,
    group_runs,
    is_similar,
)
from graphviz_dash.features.graph.folding.tree import FoldGroup, FoldKind
from tests.analysis.fold.trees import LAYER, layers, leaves, line, of_kind, table, tree


@pytest.mark.parametrize("seed", range(4))
def test_layers_of_which_some_differ_are_one_repeat(seed: int) -> None:
    names = layers(64, seed)
    root = tree(table(len(names), line(len(names)), None, names))
    repeat = next(one for one in of_kind(root, FoldKind.REPEAT) if not one.is_part)
    assert repeat.repeats == len(repeat.blocks) == 64
    assert leaves(root) == list(range(len(names)))
    # Each block is one layer, whole.
    for block in repeat.blocks:
        inside = [names[node] for node in block.nodes]
        assert [name for name in inside if name in LAYER] == list(LAYER)


def test_numbered_modules_that_are_alike_are_one_repeat() -> None:
    modules, names = [], []
    for layer in range(6):
        parts = ["norm", "gemm", "gelu", "gemm2"] + (["dropout"] if layer == 3 else [])
        modules += [f"Net.layers.{layer}.mlp"] * len(parts)
        names += parts
    root = tree(table(len(names), line(len(names)), [*modules], names))
    (repeat,) = of_kind(root, FoldKind.REPEAT)
    assert (repeat.title, repeat.repeats) == ("Net.layers.0-5", 6)
    assert len({block.shape for block in repeat.blocks if isinstance(block, FoldGroup)}) == 2


def test_numbered_modules_that_have_little_in_common_stay_apart() -> None:
    modules = [f"Net.blocks.{index // 3}" for index in range(9)]
    names = [f"kernel{index}" for index in range(9)]
    root = tree(table(9, line(9), [*modules], names))
    assert of_kind(root, FoldKind.REPEAT) == []


def test_alike_is_by_what_both_have() -> None:
    assert is_similar(Counter("aabbccdd"), Counter("aabbccd"))
    assert not is_similar(Counter("aaaa"), Counter("bbbb"))
    assert not is_similar(Counter("ab"), Counter("abcdefgh"))
    assert not is_similar(Counter(), Counter())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 5), max_size=120))
def test_blocks_lie_in_the_row_and_do_not_overlap(row: list[int]) -> None:
    covered, blocks = find_similar_blocks(np.array(row, dtype=np.int64))
    assert covered == sum(end - begin for begin, end in blocks)
    assert all(0 <= begin < end <= len(row) for begin, end in blocks)
    assert all(one[1] <= other[0] for one, other in pairwise(blocks))
    for run in group_runs(blocks):
        assert len(run) >= 3
        assert len({row[begin] for begin, _ in run}) == 1
        for (begin, middle), (_, end) in pairwise(run):
            assert is_similar(Counter(row[begin:middle]), Counter(row[middle:end]))
