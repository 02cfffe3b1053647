"""Divide replays into steps if the program does not mark them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise


def replay_units(
    sequence: Sequence[int], may_follow: Callable[[int, int], bool]
) -> list[tuple[int, int]]:
    """Divide the replays of a thread into units: runs of graphs that always come in one order.

    Two graphs belong to one unit if the second always follows the first and nothing else precedes
    the second. A cycle without a choice is one unit, which starts with its first graph.

    Args:
        sequence: Graphs in the order of their replays.
        may_follow: Returns True if two graphs can be segments of one step.

    Returns:
        Start and end of each unit in ``sequence``, without gaps.
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
