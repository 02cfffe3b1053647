"""Which replays make up one step where nothing in the program says so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise


def replay_units(
    sequence: Sequence[int], may_follow: Callable[[int, int], bool]
) -> list[tuple[int, int]]:
    """Divides the replays of a thread into units: runs of graphs that always come in one order.

    Two graphs belong to one unit where the second always follows the first and nothing else comes
    before the second. A cycle without any choice is one unit, which begins with its first graph.

    Args:
        sequence: graphs in the order of their replays.
        may_follow: whether two graphs may be segments of one step at all.

    Returns:
        Begin and end of each unit in ``sequence``, without gaps.
    """
    after: defaultdict[int, set[int]] = defaultdict(set)
    before: defaultdict[int, set[int]] = defaultdict(set)
    for first, second in pairwise(sequence):
        after[first].add(second)
        before[second].add(first)
    start = sequence[0] if sequence else None

    def joined(first: int, second: int) -> bool:
        return (
            second not in (first, start)
            and len(after[first]) == 1
            and len(before[second]) == 1
            and may_follow(first, second)
        )

    bounds = [
        at for at in range(len(sequence)) if at == 0 or not joined(sequence[at - 1], sequence[at])
    ]
    return list(pairwise((*bounds, len(sequence))))
