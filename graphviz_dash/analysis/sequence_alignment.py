"""Two sequences that should be the same but for a few items: which item is which.

Method: E. W. Myers, "An O(ND) Difference Algorithm and Its Variations" (1986), greedy, once from
the front and once from the back. Where the two agree there is one answer; where they do not, items
that look alike stand beside a gap, and which of them is missing cannot be told.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints

NO_PARTNER: Final = -1

_MOST_DIFFERENCES: Final = 400
_DIFFERENT_SHARE: Final = 0.1
_FEW: Final = 4


class Alignment(Struct, frozen=True):
    """``partner``: for each item of the first sequence its place in the second, or NO_PARTNER;
    ascending. ``spread``: by how many places it may be off, 0 where there is one answer only."""

    partner: Ints
    spread: Ints

    @property
    def pairs(self) -> int:
        """Items that have a partner."""
        return int(np.count_nonzero(self.partner >= 0))


def align(first: Ints, second: Ints) -> Alignment | None:
    """Pairs up equal items of two sequences, shape (n,) and (m,), with the fewest left over.

    None when more than a tenth would be left over (or, in long ones, more than 400): then they are
    not the same sequence with gaps, and a pairing would be a guess. O((n + m) d) time for d
    differences, O(d * d) memory.
    """
    if len(first) == len(second) and np.array_equal(first, second):
        return Alignment(np.arange(len(first), dtype=np.int64), np.zeros(len(first), np.int64))
    longest = max(len(first), len(second))
    # Cutting one item out and putting another in is two differences.
    limit = min(_MOST_DIFFERENCES, max(_FEW, int(2 * _DIFFERENT_SHARE * longest)))
    front = partners(first, second, limit)
    back = partners(first[::-1], second[::-1], limit)
    if front is None or back is None:
        return None
    back = np.where(back >= 0, len(second) - 1 - back, NO_PARTNER)[::-1]
    both = (front >= 0) & (back >= 0)
    spread = np.where(both, np.abs(front - back), np.where(front == back, 0, 1))
    return Alignment(front, spread)


def partners(first: Ints, second: Ints, limit: int) -> Ints | None:
    """For each item of ``first`` its place in ``second`` or NO_PARTNER, with the fewest left over;
    None when more than ``limit`` would be. O((n + m) limit) time at worst, O(d * d) memory."""
    trace = _furthest(first, second, limit)
    if trace is None:
        return None
    partner = np.full(len(first), NO_PARTNER, dtype=np.int64)
    x, y = len(first), len(second)
    for edits in range(len(trace) - 1, -1, -1):
        diagonal = x - y
        if edits == 0:
            begin = 0
        else:
            before = trace[edits - 1]
            down = _goes_down(before, diagonal, edits)
            previous = diagonal + 1 if down else diagonal - 1
            from_x = before[previous]
            begin = from_x if down else from_x + 1
        # From ``begin`` to ``x`` the two ran along together.
        partner[begin:x] = np.arange(begin, x) - diagonal
        if edits:
            x, y = from_x, from_x - previous
    return partner


def _furthest(first: Ints, second: Ints, limit: int) -> list[dict[int, int]] | None:
    """For each count of edits the furthest place in ``first`` on each diagonal, until the end."""
    trace: list[dict[int, int]] = []
    for edits in range(limit + 1):
        reach: dict[int, int] = {}
        for diagonal in range(-edits, edits + 1, 2):
            if edits == 0:
                x = 0
            else:
                down = _goes_down(trace[-1], diagonal, edits)
                x = trace[-1][diagonal + 1] if down else trace[-1][diagonal - 1] + 1
            if x > len(first) or x - diagonal > len(second):
                # Beyond the end of one: no way leads back from there.
                reach[diagonal] = x
                continue
            x = _slide(first, second, x, x - diagonal)
            reach[diagonal] = x
            if x >= len(first) and x - diagonal >= len(second):
                trace.append(reach)
                return trace
        trace.append(reach)
    return None


def _goes_down(before: dict[int, int], diagonal: int, edits: int) -> bool:
    """Whether the furthest way to ``diagonal`` comes by leaving out an item of the second."""
    if diagonal == -edits:
        return True
    return diagonal != edits and before[diagonal - 1] < before[diagonal + 1]


def _slide(first: Ints, second: Ints, x: int, y: int) -> int:
    """The place in ``first`` up to which the two agree from (x, y) on."""
    size = 16
    while x < len(first) and y < len(second):
        width = min(size, len(first) - x, len(second) - y)
        differ = first[x : x + width] != second[y : y + width]
        at = int(differ.argmax())
        if differ[at]:
            return x + at
        x, y, size = x + width, y + width, size * 8
    return x
