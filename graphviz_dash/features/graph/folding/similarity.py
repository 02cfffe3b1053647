"""Repeats of similar blocks, such as layers of which some differ.

Rows are split before each landmark item. Parts that share most items are blocks of one repeat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from graphviz_dash.analysis.arrays import Ints

SIMILARITY_THRESHOLD: Final = 0.7
"""Share of the longer block's items that similar blocks have in common."""

_MIN_BLOCKS: Final = 3

_MAX_LANDMARKS: Final = 16
"""Landmarks to try, longest parts first."""

_MAX_COVERAGE: Final = 0.95
"""Coverage of a row that ends the search for landmarks."""

_MIN_BLOCK_ITEMS: Final = 3
"""Minimum number of items of a block; shorter ones match by chance."""


def is_similar(first: Counter[int], second: Counter[int]) -> bool:
    """Check whether two blocks, as counts of their items, are similar."""
    longer = max(first.total(), second.total())
    return longer > 0 and (first & second).total() >= SIMILARITY_THRESHOLD * longer


def find_similar_blocks(shapes: Ints) -> tuple[int, list[tuple[int, int]]]:
    """Find similar blocks in a row of shape numbers, shape (items,).

    Returns the number of covered items, and the (begin, end) borders of all blocks, in runs of at
    least three.
    """
    best: tuple[int, list[tuple[int, int]]] = (0, [])
    values, counts = np.unique(shapes, return_counts=True)
    is_frequent = (counts >= _MIN_BLOCKS) & (counts * _MIN_BLOCK_ITEMS <= len(shapes))
    for landmark in values[is_frequent][np.argsort(counts[is_frequent], kind="stable")][
        :_MAX_LANDMARKS
    ].tolist():
        cut = _split_at(shapes, landmark)
        if cut[0] > best[0]:
            best = cut
        if best[0] >= _MAX_COVERAGE * len(shapes):
            break
    return best


def group_runs(blocks: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Group blocks that follow each other without a gap."""
    runs: list[list[tuple[int, int]]] = []
    for block in blocks:
        if runs and runs[-1][-1][1] == block[0]:
            runs[-1].append(block)
        else:
            runs.append([block])
    return runs


def _split_at(shapes: Ints, landmark: int) -> tuple[int, list[tuple[int, int]]]:
    begins = np.flatnonzero(shapes == landmark)
    length = int(np.median(np.diff(begins)))
    # The part after the last landmark is a block if the row ends soon after, else its start is.
    remainder = len(shapes) - int(begins[-1])
    ends = np.append(
        begins[1:], begins[-1] + (remainder if 2 * remainder <= 3 * length else length)
    )
    is_linked = _count_common(shapes, begins, ends) >= SIMILARITY_THRESHOLD * np.maximum(
        (ends - begins)[1:], (ends - begins)[:-1]
    )
    blocks: list[tuple[int, int]] = []
    borders = np.flatnonzero(np.diff(np.concatenate(([False], is_linked, [False])).astype(np.int8)))
    for first, last in zip(borders[::2].tolist(), borders[1::2].tolist(), strict=True):
        if (
            last - first + 1 >= _MIN_BLOCKS
            and ends[last] - begins[first] >= _MIN_BLOCK_ITEMS * _MIN_BLOCKS
        ):
            span = slice(first, last + 1)
            blocks += zip(begins[span].tolist(), ends[span].tolist(), strict=True)
    return sum(end - begin for begin, end in blocks), blocks


def _count_common(shapes: Ints, begins: Ints, ends: Ints) -> Ints:
    """Count the items in common with the previous block, ignoring order."""
    items = np.arange(begins[0], ends[-1])
    block = np.searchsorted(begins, items, "right") - 1
    items, block = items[items < ends[block]], block[items < ends[block]]
    # Occurrences of a shape in a block are numbered to tell them apart.
    order = np.lexsort((block, shapes[items]))
    shape, block = shapes[items][order], block[order]
    is_first = np.append(True, (shape[1:] != shape[:-1]) | (block[1:] != block[:-1]))
    position = np.arange(len(shape))
    nth = position - np.maximum.accumulate(np.where(is_first, position, 0))
    item_order = np.lexsort((block, nth, shape))
    shape, block, nth = shape[item_order], block[item_order], nth[item_order]
    is_common = (shape[1:] == shape[:-1]) & (nth[1:] == nth[:-1]) & (block[1:] == block[:-1] + 1)
    return np.bincount(block[1:][is_common], minlength=len(begins))[1:]
