"""The collectives of several ranks, matched by their order, and the ranks' clocks, by their ends.

All ranks call the same collectives in the same order, so the n-th of a step on one rank is the n-th
of that step on every other. Each rank's trace has times of its own GPU, which the profiler brings
to the host's clock as well as it can. A meeting collective (an all-reduce, say) ends on all ranks
at nearly the same time, for none can finish before the last has begun; so the clocks are aligned
where its ends agree: a rank's offset is the median of the differences to the first rank's ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

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


class RankTrace(Struct, frozen=True):
    """One rank's traced pass."""

    rank: int
    """Number of the rank."""
    trace: Trace
    """Its trace."""
    steps: tuple[Step, ...]
    """The steps that it marks."""
    communication: tuple[StepCommunication, ...]
    """The communication of each step."""


class MatchedCollectives(Struct, frozen=True):
    """Collectives that were matched on all ranks, n of them, in the order of steps. Times are in ns
    of each rank's own clock."""

    kinds: tuple[Collective, ...]
    """The kind of each."""
    step: Ints
    """Index of its step, shape (n,)."""
    ordinal: Ints
    """Its number within the step, from 0, shape (n,)."""
    row: Ints
    """Row of each rank's ``trace.gpu``, shape (n, ranks)."""
    start: Ints
    """Begin in ns, shape (n, ranks)."""
    end: Ints
    """End in ns, shape (n, ranks)."""
    unmatched: int
    """Collectives of all ranks that have no partner on another."""

    def __len__(self) -> int:
        return len(self.kinds)


class RankClock(Struct, frozen=True):
    """How one rank's times are brought to the first rank's clock."""

    rank: int
    """Number of the rank."""
    offset: int
    """What is added to its Unix times, in ns."""
    spread: float
    """How far the ends of collectives still lie apart afterwards, in ns: half the range from the
    5th to the 95th percentile."""
    bound: float
    """How far the offset could be wrong at most, in ns: beyond it some rank would have finished a
    collective before the last had begun."""
    samples: int
    """Ends that it rests on."""


def match_instances(ranks: Sequence[RankTrace]) -> MatchedCollectives:
    """The collectives of the steps that all of ``ranks`` (one or more) have, matched by order.

    Where the sequences of kinds in a step differ, each kind is matched by itself, if there are
    equally many of it on every rank.
    """
    rows_of = [
        {step.index: part.rows for step, part in zip(rank.steps, rank.communication, strict=True)}
        for rank in ranks
    ]
    common = sorted(set.intersection(*(set(rows) for rows in rows_of)))
    kinds: list[Collective] = []
    step_of: list[int] = []
    ordinal_of: list[int] = []
    rows: list[Ints] = []
    total = sum(len(of_step) for rank in rows_of for of_step in rank.values())
    for index in common:
        rows_by_rank = [rank[index] for rank in rows_of]
        named = [
            collective_kinds(rank.trace, of_step)
            for rank, of_step in zip(ranks, rows_by_rank, strict=True)
        ]
        pairs = _matched(named)
        for ordinal, (kind, members) in enumerate(pairs):
            kinds.append(kind)
            step_of.append(index)
            ordinal_of.append(ordinal)
            rows.append(
                np.array(
                    [of_step[at] for of_step, at in zip(rows_by_rank, members, strict=True)],
                    np.int64,
                )
            )
    table = np.array(rows, dtype=np.int64).reshape(len(rows), len(ranks))
    start = np.empty_like(table)
    end = np.empty_like(table)
    for number, rank in enumerate(ranks):
        gpu = rank.trace.gpu
        begins = column(gpu, "ts")
        start[:, number] = begins[table[:, number]]
        end[:, number] = (begins + np.maximum(column(gpu, "dur"), 0))[table[:, number]]
    return MatchedCollectives(
        kinds=tuple(kinds),
        step=np.array(step_of, dtype=np.int64),
        ordinal=np.array(ordinal_of, dtype=np.int64),
        row=table,
        start=start,
        end=end,
        unmatched=total - table.size,
    )


def _matched(named: list[list[Collective]]) -> list[tuple[Collective, tuple[int, ...]]]:
    """Kind and, for each rank, index in its list of each collective of a step."""
    first = named[0]
    if all(other == first for other in named[1:]):
        return [(kind, (index,) * len(named)) for index, kind in enumerate(first)]
    pairs: list[tuple[Collective, tuple[int, ...]]] = []
    for kind in dict.fromkeys(first):
        places = [[index for index, name in enumerate(names) if name is kind] for names in named]
        if len({len(indices) for indices in places}) == 1:
            pairs += [(kind, members) for members in zip(*places, strict=True)]
    return sorted(pairs, key=lambda pair: pair[1][0])


def align_clocks(
    ranks: Sequence[RankTrace], instances: MatchedCollectives
) -> tuple[RankClock, ...]:
    """The clock of each rank against the first one's, whose offset is 0; empty where no collective
    ends on all ranks together, for the hosts' clocks may differ by anything."""
    meets = np.array([kind in MEETING for kind in instances.kinds], dtype=np.bool_)
    origin = np.array([rank.trace.info.origin_ns for rank in ranks], dtype=np.int64)
    # Differences of origins first: the sums are Unix times, which float64 would round.
    ahead = origin - origin[0]
    if not meets.any():
        return ()
    clocks = [RankClock(ranks[0].rank, 0, 0.0, 0.0, int(meets.sum()))]
    for index in range(1, len(ranks)):
        start = instances.start[meets][:, (0, index)]
        end = instances.end[meets][:, (0, index)]
        late = end[:, 1] - end[:, 0] + ahead[index]
        offset = -round(float(np.median(late)))
        low, high = np.percentile(late + offset, (5, 95))
        # Each rank ends after the other has begun, whatever the clocks say.
        least = int((start[:, 0] - end[:, 1]).max() - ahead[index])
        most = int((end[:, 0] - start[:, 1]).min() - ahead[index])
        clocks.append(
            RankClock(
                rank=ranks[index].rank,
                offset=offset,
                spread=float(high - low) / 2,
                bound=float(max(offset - least, most - offset, 0)),
                samples=int(meets.sum()),
            )
        )
    return tuple(clocks)


def on_one_clock(ranks: Sequence[RankTrace], clocks: Sequence[RankClock], times: Ints) -> Ints:
    """``times`` of shape (n, ranks), each in ns since its trace's origin, as ns since the origin of
    the first rank's trace."""
    origin = np.array([rank.trace.info.origin_ns for rank in ranks], dtype=np.int64)
    offset = np.array([clock.offset for clock in clocks], dtype=np.int64)
    return np.asarray(times + (origin - origin[0] + offset), dtype=np.int64)
