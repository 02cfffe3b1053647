"""Divide replays into steps if the program does not mark them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final


def replay_units(
    sequence: Sequence[int], may_follow: Callable[[int, int], bool]
) -> list[tuple[int, int]]:
    """Divide the replays of a thread into units: runs of graphs that always come in one order.

    Two graphs belong to one unit if the second always follows the first and nothing else precedes
    the second. A cycle without a choice is one unit, which starts with its first graph.

    ``may_follow``: two graphs can be segments of one step.

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


def find_repetition(sequence: Sequence[int]) -> list[tuple[int, int]] | None:
    """Divide the replays of a thread into periods: each starts with the same graph and replays the
    same set of graphs, some perhaps in inner loops. None if there is no such graph.

    A graph that is absent from some periods, such as an update at every second step, is allowed if
    the first graph starts the periods.

    Returns:
        Start and end of each period in ``sequence``; the first starts at 0.
    """
    counts = Counter(sequence)
    if len(counts) < 2:
        return None
    rarest = min(counts, key=counts.__getitem__)
    for start in dict.fromkeys((sequence[0], rarest)):
        if counts[start] >= _MIN_PERIODS:
            periods = _split_at(sequence, start)
            # The program may end within a period, and may start one elsewhere.
            inner = periods[sequence[0] != start : -1]
            contents = {tuple(sequence[begin:end]) for begin, end in inner}
            sets = {frozenset(graphs) for graphs in contents}
            common = frozenset.intersection(*sets)
            is_optional = (
                start == sequence[0]
                and len(contents) <= _MAX_VARIANTS
                and all(len({*graphs}) == len(graphs) for graphs in contents)
            )
            if len(common) > 1 and (len(sets) == 1 or is_optional):
                return periods
    return None


_MIN_PERIODS: Final = 4
_MAX_VARIANTS: Final = 3


def _split_at(sequence: Sequence[int], start: int) -> list[tuple[int, int]]:
    starts = [at for at, graph in enumerate(sequence) if graph == start]
    return list(pairwise((*dict.fromkeys((0, *starts)), len(sequence))))
