from __future__ import annotations

import itertools
import time

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.sequence_alignment import align


def _ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _longest_common(a: list[int], b: list[int]) -> int:
    best = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            best[i + 1][j + 1] = max(best[i][j + 1], best[i + 1][j], best[i][j] + (x == y))
    return best[-1][-1]


edits = st.lists(
    st.tuples(st.booleans(), st.integers(0, 100), st.integers(0, 2)), min_size=0, max_size=2
)


@given(st.lists(st.integers(0, 2), max_size=25), edits)
def test_pairs_are_equal_ascending_and_as_many_as_can_be(
    first: list[int], changes: list[tuple[bool, int, int]]
) -> None:
    second = list(first)
    for drop, place, value in changes:
        if drop and second:
            second.pop(place % len(second))
        else:
            second.insert(place % (len(second) + 1), value)
    found = align(_ints(first), _ints(second))
    assert found is not None
    pairs = [(a, b) for a, b in enumerate(found.partner.tolist()) if b >= 0]
    assert all(first[a] == second[b] for a, b in pairs)
    assert all(x[1] < y[1] for x, y in itertools.pairwise(pairs))
    assert found.pair_count == len(pairs) == _longest_common(first, second)


def test_equal_sequences_leave_no_doubt() -> None:
    found = align(_ints([1, 1, 2]), _ints([1, 1, 2]))
    assert found is not None
    assert found.partner.tolist() == [0, 1, 2]
    assert found.spread.tolist() == [0, 0, 0]


def test_doubt_reaches_as_far_as_the_items_look_alike() -> None:
    # One of three equal items is missing: which one cannot be told; the others are certain.
    found = align(_ints([9, 1, 1, 1, 8]), _ints([9, 1, 1, 8]))
    assert found is not None
    assert found.partner[0] == 0
    assert found.partner[4] == 3
    assert (found.spread > 0).tolist() == [False, True, True, True, False]


def test_sequences_that_differ_too_much_are_not_paired() -> None:
    assert align(_ints(list(range(50))), _ints(list(range(100, 150)))) is None


def test_fifty_thousand_items_take_no_time() -> None:
    rng = np.random.default_rng(0)
    first = rng.integers(0, 3, 50_000)
    second = np.delete(first, rng.choice(50_000, 30, replace=False))
    begun = time.process_time()
    found = align(first, second)
    assert time.process_time() - begun < 1
    assert found is not None
    assert found.pair_count == len(second)
