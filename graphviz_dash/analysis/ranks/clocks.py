"""The collectives of several ranks, matched by their order, and the ranks' clocks, by their ends.

All ranks call the same collectives in the same order, so the n-th of a step on one rank is the n-th
of that step on every other. Each rank's trace has times of its own GPU, which the profiler brings
to the host's clock as well as it can. A meeting collective (an all-reduce, say) ends on all ranks
at nearly the same time, for none can finish before the last has begun; so the clocks are aligned
where its ends agree: a rank's offset is the median of the differences to the first rank's ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphviz_dash.analysis.arrays import Ints, column
from graphviz_dash.analysis.trace.collectives import (
    MEETING,
    Collective,
    StepCommunication,
    collective_kinds,
)
from graphviz_dash.analysis.trace.steps import Step

if TYPE_CHECKING:
    from graphviz_dash.model.trace import Trace


@dataclass(frozen=True)
class RankTrace:
    """One rank's traced pass: its steps, and the communication of each."""

    rank: int
    trace: Trace
    steps: tuple[Step, ...]
    communication: tuple[StepCommunication, ...]


@dataclass(frozen=True)
class Instances:
    """Collectives that were found on all ranks, in the order of steps.

    ``step`` is the index of the step and ``place`` counts the collectives within it, shape (n,).
    ``row`` (rows of each rank's ``trace.gpu``), ``start`` and ``end`` have shape (n, ranks); times
    are in ns of each rank's own clock. ``unmatched`` counts, over all ranks, collectives that have
    no partner on another.
    """

    kinds: tuple[Collective, ...]
    step: Ints
    place: Ints
    row: Ints
    start: Ints
    end: Ints
    unmatched: int

    def __len__(self) -> int:
        return len(self.kinds)


@dataclass(frozen=True)
class Clock:
    """How one rank's times are brought to the first rank's clock; all in ns.

    ``offset`` is added to its Unix times. ``spread`` is how far the ends of collectives still lie
    apart afterwards: half the range from the 5th to the 95th percentile. ``bound`` is how far the
    offset could be wrong at most: beyond it some rank would have finished a collective before the
    last had begun. ``samples`` is the number of ends it rests on.
    """

    rank: int
    offset: int
    spread: float
    bound: float
    samples: int


def match_instances(ranks: Sequence[RankTrace]) -> Instances:
    """The collectives of the steps that all of ``ranks`` (one or more) have, matched by order.

    Where the sequences of kinds in a step differ, each kind is matched by itself, if there are
    equally many of it on every rank.
    """
    rows_of = [
        {step.index: found.rows for step, found in zip(rank.steps, rank.communication, strict=True)}
        for rank in ranks
    ]
    common = sorted(set.intersection(*(set(rows) for rows in rows_of)))
    kinds: list[Collective] = []
    step_of: list[int] = []
    place_of: list[int] = []
    rows: list[Ints] = []
    total = sum(len(found) for rank in rows_of for found in rank.values())
    for index in common:
        own = [rank[index] for rank in rows_of]
        named = [
            collective_kinds(rank.trace, found) for rank, found in zip(ranks, own, strict=True)
        ]
        pairs = _matched(named)
        for place, (kind, members) in enumerate(pairs):
            kinds.append(kind)
            step_of.append(index)
            place_of.append(place)
            rows.append(
                np.array([found[at] for found, at in zip(own, members, strict=True)], np.int64)
            )
    table = np.array(rows, dtype=np.int64).reshape(len(rows), len(ranks))
    start = np.empty_like(table)
    end = np.empty_like(table)
    for place, rank in enumerate(ranks):
        gpu = rank.trace.gpu
        begins = column(gpu, "ts")
        start[:, place] = begins[table[:, place]]
        end[:, place] = (begins + np.maximum(column(gpu, "dur"), 0))[table[:, place]]
    return Instances(
        kinds=tuple(kinds),
        step=np.array(step_of, dtype=np.int64),
        place=np.array(place_of, dtype=np.int64),
        row=table,
        start=start,
        end=end,
        unmatched=total - table.size,
    )


def _matched(named: list[list[Collective]]) -> list[tuple[Collective, tuple[int, ...]]]:
    """Kind and, for each rank, place in its list of each collective of a step."""
    first = named[0]
    if all(other == first for other in named[1:]):
        return [(kind, (place,) * len(named)) for place, kind in enumerate(first)]
    pairs: list[tuple[Collective, tuple[int, ...]]] = []
    for kind in dict.fromkeys(first):
        places = [[at for at, one in enumerate(names) if one is kind] for names in named]
        if len({len(found) for found in places}) == 1:
            pairs += [(kind, members) for members in zip(*places, strict=True)]
    return sorted(pairs, key=lambda pair: pair[1][0])


def align_clocks(ranks: Sequence[RankTrace], instances: Instances) -> tuple[Clock, ...]:
    """The clock of each rank against the first one's, whose offset is 0; empty where no collective
    ends on all ranks together, for the hosts' clocks may differ by anything."""
    meets = np.array([kind in MEETING for kind in instances.kinds], dtype=np.bool_)
    origin = np.array([rank.trace.info.origin_ns for rank in ranks], dtype=np.int64)
    # Differences of origins first: the sums are Unix times, which float64 would round.
    ahead = origin - origin[0]
    if not meets.any():
        return ()
    clocks = [Clock(ranks[0].rank, 0, 0.0, 0.0, int(meets.sum()))]
    for place in range(1, len(ranks)):
        start = instances.start[meets][:, (0, place)]
        end = instances.end[meets][:, (0, place)]
        late = end[:, 1] - end[:, 0] + ahead[place]
        offset = -round(float(np.median(late)))
        low, high = np.percentile(late + offset, (5, 95))
        # Each rank ends after the other has begun, whatever the clocks say.
        least = int((start[:, 0] - end[:, 1]).max() - ahead[place])
        most = int((end[:, 0] - start[:, 1]).min() - ahead[place])
        clocks.append(
            Clock(
                rank=ranks[place].rank,
                offset=offset,
                spread=float(high - low) / 2,
                bound=float(max(offset - least, most - offset, 0)),
                samples=int(meets.sum()),
            )
        )
    return tuple(clocks)


def on_one_clock(ranks: Sequence[RankTrace], clocks: Sequence[Clock], times: Ints) -> Ints:
    """``times`` of shape (n, ranks), each in ns since its trace's origin, as ns since the origin of
    the first rank's trace."""
    origin = np.array([rank.trace.info.origin_ns for rank in ranks], dtype=np.int64)
    offset = np.array([clock.offset for clock in clocks], dtype=np.int64)
    return np.asarray(times + (origin - origin[0] + offset), dtype=np.int64)
