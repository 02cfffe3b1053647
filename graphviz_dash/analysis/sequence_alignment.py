"""Alignment of two nearly equal sequences.

Method: E. W. Myers, "An O(ND) Difference Algorithm and Its Variations" (1986), greedy, from the
front and from the back. If they differ, equal items surround a gap, and the missing one is
ambiguous.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints

NO_PARTNER: Final = -1

_MAX_DIFFERENCES: Final = 400
_MAX_DIFFERENT_SHARE: Final = 0.1
_MIN_LIMIT: Final = 4


class Alignment(Struct, frozen=True):
    """An alignment of two sequences.

    ``partner`` is each first item's index in the second sequence or NO_PARTNER, ascending.
    ``spread`` is the index uncertainty, 0 if unique.
    """

    partner: Ints
    spread: Ints

    @property
    def pair_count(self) -> int:
        """Number of items with a partner."""
        return int(np.count_nonzero(self.partner >= 0))


def align(first: Ints, second: Ints) -> Alignment | None:
    """Pair equal items of two sequences, shape (n,) and (m,), with the fewest unpaired items.

    None if more than a tenth (in long sequences, more than 400) would be unpaired: they are too
    different to align. O((n + m) d) time for d differences, O(d * d) memory.
    """
    if len(first) == len(second) and np.array_equal(first, second):
        return Alignment(np.arange(len(first), dtype=np.int64), np.zeros(len(first), np.int64))
    max_length = max(len(first), len(second))
    # A replaced item counts as two differences.
    limit = min(_MAX_DIFFERENCES, max(_MIN_LIMIT, int(2 * _MAX_DIFFERENT_SHARE * max_length)))
    front = find_partners(first, second, limit)
    backward_partners = find_partners(first[::-1], second[::-1], limit)
    if front is None or backward_partners is None:
        return None
    backward_partners = np.where(
        backward_partners >= 0, len(second) - 1 - backward_partners, NO_PARTNER
    )[::-1]
    is_mutual = (front >= 0) & (backward_partners >= 0)
    spread = np.where(
        is_mutual, np.abs(front - backward_partners), np.where(front == backward_partners, 0, 1)
    )
    return Alignment(front, spread)


def find_partners(first: Ints, second: Ints, limit: int) -> Ints | None:
    """Return for each item of ``first`` its index in ``second`` or NO_PARTNER.

    None if more than ``limit`` would be unpaired. O((n + m) limit) time, O(d * d) memory.
    """
    trace = _trace_furthest(first, second, limit)
    if trace is None:
        return None
    partner = np.full(len(first), NO_PARTNER, dtype=np.int64)
    x, y = len(first), len(second)
    for edits in range(len(trace) - 1, -1, -1):
        diagonal = x - y
        if edits == 0:
            start = 0
        else:
            before = trace[edits - 1]
            down = _is_insertion(before, diagonal, edits)
            previous = diagonal + 1 if down else diagonal - 1
            from_x = before[previous]
            start = from_x if down else from_x + 1
        # From ``start`` to ``x`` the two sequences agree.
        partner[start:x] = np.arange(start, x) - diagonal
        if edits:
            x, y = from_x, from_x - previous
    return partner


def _trace_furthest(first: Ints, second: Ints, limit: int) -> list[dict[int, int]] | None:
    """Return for each edit count the furthest index in ``first`` on each diagonal."""
    trace: list[dict[int, int]] = []
    for edits in range(limit + 1):
        reach: dict[int, int] = {}
        for diagonal in range(-edits, edits + 1, 2):
            if edits == 0:
                x = 0
            else:
                down = _is_insertion(trace[-1], diagonal, edits)
                x = trace[-1][diagonal + 1] if down else trace[-1][diagonal - 1] + 1
            if x > len(first) or x - diagonal > len(second):
                # Beyond the end of one sequence, with no way back.
                reach[diagonal] = x
                continue
            x = _find_agreement_end(first, second, x, x - diagonal)
            reach[diagonal] = x
            if x >= len(first) and x - diagonal >= len(second):
                trace.append(reach)
                return trace
        trace.append(reach)
    return None


def _is_insertion(before: dict[int, int], diagonal: int, edits: int) -> bool:
    if diagonal == -edits:
        return True
    return diagonal != edits and before[diagonal - 1] < before[diagonal + 1]


def _find_agreement_end(first: Ints, second: Ints, x: int, y: int) -> int:
    size = 16
    while x < len(first) and y < len(second):
        width = min(size, len(first) - x, len(second) - y)
        differ = first[x : x + width] != second[y : y + width]
        offset = int(differ.argmax())
        if differ[offset]:
            return x + offset
        x, y, size = x + width, y + width, size * 8
    return x
