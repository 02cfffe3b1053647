"""Repeats that are not equal: blocks of a row that are alike, as layers are of which some differ.

A row is cut before each occurrence of one of its items, the landmark; parts that share most of
their items with the part before them are blocks of one repeat. The landmark is the item with which
most of the row becomes such blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from graphviz_dash.analysis.arrays import Ints

ALIKE: Final = 0.7
"""Share of the items of the longer of two blocks that the other has too, from which on they are
blocks of one repeat."""

_FEWEST: Final = 3
"""Blocks of a repeat that are not all equal."""

_LANDMARKS: Final = 16
"""Items tried as landmarks, those whose parts are longest first."""

_NEARLY_ALL: Final = 0.95
"""Share of a row in blocks from which on no better landmark is looked for."""

_SHORTEST: Final = 3
"""Items of a block; shorter ones are alike by chance."""


def alike(first: Counter[int], second: Counter[int]) -> bool:
    """Whether two blocks, as counts of what is in them, are blocks of one repeat."""
    longer = max(first.total(), second.total())
    return longer > 0 and (first & second).total() >= ALIKE * longer


def alike_blocks(shapes: Ints) -> tuple[int, list[tuple[int, int]]]:
    """The stretches of a row that are blocks alike: how many items they cover, and for each run of
    blocks (of at least three) their borders in the row, as (begin, end) of one block after another.

    Args:
        shapes: what each item of the row looks like, shape (items,).
    """
    best: tuple[int, list[tuple[int, int]]] = (0, [])
    values, counts = np.unique(shapes, return_counts=True)
    often = (counts >= _FEWEST) & (counts * _SHORTEST <= len(shapes))
    for landmark in values[often][np.argsort(counts[often], kind="stable")][:_LANDMARKS].tolist():
        cut = _cut(shapes, landmark)
        if cut[0] > best[0]:
            best = cut
        if best[0] >= _NEARLY_ALL * len(shapes):
            break
    return best


def runs_of(blocks: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Blocks that follow one another without a gap, together."""
    runs: list[list[tuple[int, int]]] = []
    for block in blocks:
        if runs and runs[-1][-1][1] == block[0]:
            runs[-1].append(block)
        else:
            runs.append([block])
    return runs


def _cut(shapes: Ints, landmark: int) -> tuple[int, list[tuple[int, int]]]:
    """The blocks that begin with ``landmark``."""
    begins = np.flatnonzero(shapes == landmark)
    length = int(np.median(np.diff(begins)))
    # What follows the last landmark is a block if the row ends soon after, else its beginning is.
    rest = len(shapes) - int(begins[-1])
    ends = np.append(begins[1:], begins[-1] + (rest if 2 * rest <= 3 * length else length))
    linked = _common(shapes, begins, ends) >= ALIKE * np.maximum(
        (ends - begins)[1:], (ends - begins)[:-1]
    )
    blocks: list[tuple[int, int]] = []
    borders = np.flatnonzero(np.diff(np.concatenate(([False], linked, [False])).astype(np.int8)))
    for first, last in zip(borders[::2].tolist(), borders[1::2].tolist(), strict=True):
        if last - first + 1 >= _FEWEST and ends[last] - begins[first] >= _SHORTEST * _FEWEST:
            span = slice(first, last + 1)
            blocks += zip(begins[span].tolist(), ends[span].tolist(), strict=True)
    return sum(end - begin for begin, end in blocks), blocks


def _common(shapes: Ints, begins: Ints, ends: Ints) -> Ints:
    """How many items each block has in common with the one before it, order apart."""
    inside = np.arange(begins[0], ends[-1])
    block = np.searchsorted(begins, inside, "right") - 1
    inside, block = inside[inside < ends[block]], block[inside < ends[block]]
    # The first, second ... occurrence of a shape in a block are things apart.
    order = np.lexsort((block, shapes[inside]))
    shape, block = shapes[inside][order], block[order]
    fresh = np.append(True, (shape[1:] != shape[:-1]) | (block[1:] != block[:-1]))
    position = np.arange(len(shape))
    nth = position - np.maximum.accumulate(np.where(fresh, position, 0))
    by = np.lexsort((block, nth, shape))
    shape, block, nth = shape[by], block[by], nth[by]
    shared = (shape[1:] == shape[:-1]) & (nth[1:] == nth[:-1]) & (block[1:] == block[:-1] + 1)
    return np.bincount(block[1:][shared], minlength=len(begins))[1:]
