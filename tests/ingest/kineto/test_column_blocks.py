from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphviz_dash.ingest.kineto.column_blocks import compress_values, expand_blocks
from graphviz_dash.ingest.kineto.events import ABSENT

_INT64 = st.integers(ABSENT, (1 << 63) - 1)
_NEAR = st.builds(
    lambda base, parts: [ABSENT if part is None else base + part for part in parts],
    st.integers(ABSENT // 2, 1 << 62),
    st.lists(st.none() | st.integers(-70_000, 70_000), min_size=1),
)


@given(pieces=st.lists(st.lists(_INT64, min_size=1) | _NEAR))
def test_all_numbers_come_back(pieces: list[list[int]]) -> None:
    blocks = [compress_values(np.array(piece, np.int64)) for piece in pieces]
    assert expand_blocks(blocks).tolist() == [number for piece in pieces for number in piece]


@pytest.mark.parametrize(
    ("values", "width"),
    [
        ([7] * 5, 0),
        ([ABSENT] * 5, 0),
        ([1 << 60, (1 << 60) + 255], 1),
        ([ABSENT, 0, 254], 1),
        ([ABSENT, 0, 255], 2),  # one number more than a byte has
        ([-5, 65_530], 2),
        ([0, (1 << 32) - 1], 4),
        ([0, 1 << 32], 8),
        ([ABSENT, ABSENT + 1], 1),
        ([ABSENT, (1 << 63) - 1], 1),
        ([ABSENT, -1, (1 << 63) - 1], 8),
    ],
)
def test_as_few_bytes_as_needed(values: list[int], width: int) -> None:
    block = compress_values(np.array(values, np.int64))
    assert (0 if block.offsets is None else block.offsets.itemsize) == width
    assert expand_blocks([block]).tolist() == values


def test_memory_that_is_given_is_used() -> None:
    out = np.full(3, 9, np.int64)
    assert expand_blocks([compress_values(np.array([1, 2, 3]))], out) is out
    assert out.tolist() == [1, 2, 3]
