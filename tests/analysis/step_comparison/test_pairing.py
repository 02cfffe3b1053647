from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.analysis.step_comparison.pairing import (
    NOTHING,
    ItemPairs,
    PairMethod,
    WorkSequence,
    pair_items,
)
from graphviz_dash.analysis.unique_context import find_unique_pairs
from tests.analysis.programs import program


def _found(pairs: ItemPairs) -> set[tuple[int, int]]:
    return set(zip(pairs.before.tolist(), pairs.after.tolist(), strict=True))


def _line(
    key: list[int], op: list[int] | None = None, name: list[int] | None = None
) -> WorkSequence:
    codes = [np.array(key if one is None else one, dtype=np.int64) for one in (key, op, name)]
    return WorkSequence.from_lanes(*codes, np.zeros(len(key), dtype=np.int64))


@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.integers(0, 10_000), min_size=5, max_size=5, unique=True),
    st.floats(0.0, 0.1),
    st.integers(0, 4),
    st.booleans(),
)
def test_pairs_what_is_the_same_whatever_differs_and_in_whatever_order_branches_come(
    seeds: list[int], differ: float, branches: int, by_lane: bool
) -> None:
    made = [program(seed, layers=30, differ=differ, branches=branches) for seed in seeds]
    found = [_found(pair_items(*one.sides(by_lane))) for one in made]
    right = sum(len(pairs & one.truth) for pairs, one in zip(found, made, strict=True))
    assert right / sum(map(len, found)) >= 0.99, "precision"
    assert right / sum(len(one.truth) for one in made) >= 0.99, "recall"


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_a_program_against_itself_is_paired_whole(seed: int) -> None:
    made = program(seed, differ=0.0)
    found = pair_items(*made.sides())
    assert _found(found) == made.truth
    assert found.confidence.min() >= 0.9


def _renumbered(side: WorkSequence) -> tuple[WorkSequence, list[int]]:
    """Put the items in another topological order, with branches interleaved and reversed; also
    return the item at each place."""
    depth = [0] * len(side.key)
    for source, target in sorted(side.edges.tolist(), key=lambda edge: edge[1]):
        depth[target] = max(depth[target], depth[source] + 1)
    order = sorted(range(len(depth)), key=lambda place: (depth[place], -place))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    moved = WorkSequence(side.key[order], side.op[order], side.name[order], rank[side.edges])
    return moved, order


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_the_order_of_independent_branches_changes_nothing(seed: int) -> None:
    made = program(seed, differ=0.0, shuffled=False)
    before, after = made.sides()
    moved, order = _renumbered(after)
    found = {(one, order[node]) for one, node in _found(pair_items(before, moved))}
    assert found == _found(pair_items(before, after)) == made.truth


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(0, 10_000), min_size=5, max_size=5, unique=True))
def test_nor_does_it_where_kernels_differ(seeds: list[int]) -> None:
    right = found = true = 0
    for seed in seeds:
        made = program(seed, layers=30, differ=0.1, shuffled=False)
        before, after = made.sides()
        moved, order = _renumbered(after)
        pairs = {(one, order[node]) for one, node in _found(pair_items(before, moved))}
        right += len(pairs & made.truth)
        found += len(pairs)
        true += len(made.truth)
    assert right / found >= 0.99
    assert right / true >= 0.99


def test_equal_lines_are_paired_by_order_and_are_certain() -> None:
    found = pair_items(_line([1, 2, 3]), _line([1, 2, 3]))
    assert _found(found) == {(0, 0), (1, 1), (2, 2)}
    assert found.method.tolist() == [PairMethod.ORDER] * 3
    assert found.confidence.tolist() == [1.0] * 3


def test_another_kernel_of_the_same_operator_is_paired_by_it() -> None:
    before = _line([1, 2, 3, 4], [1, 2, 3, 4])
    after = _line([1, 20, 3, 4], [1, 2, 3, 4])
    found = pair_items(before, after)
    assert (1, 1) in _found(found)
    assert PairMethod(int(found.method[1])) is PairMethod.OPERATOR
    assert found.confidence[1] < found.confidence[0]


def test_an_item_of_one_side_has_no_partner() -> None:
    found = pair_items(
        _line([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]),
        _line([1, 2, 9, 3, 5, 6], [1, 2, NOTHING, 3, 5, 6], [1, 2, 9, 3, 5, 6]),
    )
    assert _found(found) == {(0, 0), (1, 1), (2, 3), (4, 4), (5, 5)}


def test_one_kernel_that_became_two_has_both() -> None:
    """The operator 2 runs one kernel eager, and another and a reduction in the graph."""
    found = pair_items(
        _line([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]),
        _line([1, 20, 21, 3, 4, 5], [1, 2, 2, 3, 4, 5]),
    )
    assert {(1, 1), (1, 2)} <= _found(found)
    assert PairMethod(int(found.method[2])) is PairMethod.SPLIT


def test_a_missing_repeat_does_not_shift_the_rest() -> None:
    block = [1, 2, 3, 4, 5, 6, 7]
    whole = block * 40
    lost = whole[:100] + whole[102:]
    found = _found(pair_items(_line(whole), _line(lost)))
    assert len(found) == len(lost)
    assert (279, 277) in found
    assert (99, 99) in found


def test_twins_are_paired_with_a_confidence_that_says_so() -> None:
    """A fork into two equal branches."""
    edges = [(0, 1), (1, 2), (0, 3), (3, 4), (2, 5), (4, 5)]
    after = WorkSequence(
        np.array([1, 2, 3, 2, 3, 4]),
        np.array([1, 2, 3, 2, 3, 4]),
        np.array([1, 2, 3, 2, 3, 4]),
        np.array(edges),
    )
    found = pair_items(_line([1, 2, 3, 2, 3, 4]), after)
    assert len(_found(found)) == 6
    assert found.confidence[1] == 0.5


def test_nothing_is_paired_with_nothing() -> None:
    empty = _line([])
    assert len(pair_items(empty, empty).after) == 0
    assert len(pair_items(_line([1, 2]), empty).after) == 0
    assert len(pair_items(empty, _line([1, 2])).after) == 0


def test_programs_that_share_nothing_stay_apart() -> None:
    assert len(pair_items(_line([1, 2, 3] * 30), _line([4, 5, 6] * 30)).after) == 0


def test_unique_contexts_need_their_neighbours() -> None:
    line = np.array([1, 2, 1, 3], dtype=np.int64)
    onward = np.array([1, 2, 3, -1], dtype=np.int64)
    back = np.array([-1, 0, 1, 2], dtype=np.int64)
    same = find_unique_pairs((line, onward, back), (line, onward, back), 0)
    assert same == [(1, 1), (3, 3)]
    assert find_unique_pairs((line, onward, back), (line, onward, back), 1) == [
        (0, 0), (1, 1), (2, 2), (3, 3),
    ]  # fmt: skip
