"""Matching of collectives between ranks by order, and clock alignment by their ends.

All ranks call the same collectives in the same order, so the n-th of a step corresponds between
ranks. The profiler converts GPU times to the host clock with limited accuracy. A synchronising
collective (an all-reduce, for example) ends on all ranks at nearly the same time, because none can
finish before the last has started. A rank's clock offset is therefore the median difference to the
first rank's ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, get_spans
from graphviz_dash.analysis.trace.collectives import (
    SYNCHRONISING_COLLECTIVES,
    Collective,
    StepCommunication,
    get_collective_kinds,
)
from graphviz_dash.analysis.trace.steps import Step
from graphviz_dash.model.trace import Trace


class RankTrace(Struct, frozen=True):
    """One rank's traced pass."""

    rank: int
    trace: Trace
    steps: tuple[Step, ...]
    communication: tuple[StepCommunication, ...]


class MatchedCollectives(Struct, frozen=True):
    """Collectives matched on all ranks, in step order. Times are in ns of each rank's clock."""

    kinds: tuple[Collective, ...]
    step: Ints
    ordinal: Ints
    """Within the step, from 0, shape (n,)."""
    row: Ints
    """In each rank's ``trace.gpu``, shape (n, ranks)."""
    start: Ints
    """Start in ns, shape (n, ranks)."""
    end: Ints
    """End in ns, shape (n, ranks)."""
    unmatched: int
    """Number of collectives on all ranks without a partner."""

    def __len__(self) -> int:
        return len(self.kinds)


class RankClock(Struct, frozen=True):
    """Conversion of one rank's times to the first rank's clock."""

    rank: int
    offset: int
    """Addend to its Unix times, in ns."""
    spread: float
    """Remaining spread of ends, in ns: half of the 5th to 95th percentile range."""
    bound: float
    """Maximum error of the offset, in ns. Beyond it, some rank would have finished a collective
    before the last had started.
    """
    samples: int
    """Collective ends used."""


def match_collectives(ranks: Sequence[RankTrace]) -> MatchedCollectives:
    """Match the collectives of the steps common to all ``ranks`` (at least one) by order.

    If the kinds of a step differ in sequence, each kind with equal counts is matched separately.
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
        kinds_by_rank = [
            get_collective_kinds(rank.trace, of_step)
            for rank, of_step in zip(ranks, rows_by_rank, strict=True)
        ]
        pairs = _match_step(kinds_by_rank)
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
        start[:, number], end[:, number] = get_spans(rank.trace.gpu, table[:, number])
    return MatchedCollectives(
        kinds=tuple(kinds),
        step=np.array(step_of, dtype=np.int64),
        ordinal=np.array(ordinal_of, dtype=np.int64),
        row=table,
        start=start,
        end=end,
        unmatched=total - table.size,
    )


def _match_step(kinds_by_rank: list[list[Collective]]) -> list[tuple[Collective, tuple[int, ...]]]:
    """Return the kind of each matched collective, and its index in each rank's list."""
    first = kinds_by_rank[0]
    if all(other == first for other in kinds_by_rank[1:]):
        return [(kind, (index,) * len(kinds_by_rank)) for index, kind in enumerate(first)]
    pairs: list[tuple[Collective, tuple[int, ...]]] = []
    for kind in dict.fromkeys(first):
        positions = [
            [index for index, name in enumerate(names) if name is kind] for names in kinds_by_rank
        ]
        if len({len(indices) for indices in positions}) == 1:
            pairs += [(kind, members) for members in zip(*positions, strict=True)]
    return sorted(pairs, key=lambda pair: pair[1][0])


def align_clocks(
    ranks: Sequence[RankTrace], instances: MatchedCollectives
) -> tuple[RankClock, ...]:
    """Return the clock of each rank relative to the first.

    Empty if no collective ends on all ranks together: hosts' clocks may differ arbitrarily.
    """
    meets = np.array(
        [kind in SYNCHRONISING_COLLECTIVES for kind in instances.kinds], dtype=np.bool_
    )
    origin = np.array([rank.trace.info.origin_ns for rank in ranks], dtype=np.int64)
    # Subtract origins first, because the sums are Unix times, which float64 would round.
    origin_difference = origin - origin[0]
    if not meets.any():
        return ()
    clocks = [RankClock(ranks[0].rank, 0, 0.0, 0.0, int(meets.sum()))]
    for index in range(1, len(ranks)):
        start = instances.start[meets][:, (0, index)]
        end = instances.end[meets][:, (0, index)]
        end_difference = end[:, 1] - end[:, 0] + origin_difference[index]
        offset = -round(float(np.median(end_difference)))
        low, high = np.percentile(end_difference + offset, (5, 95))
        # Each rank ends after the other has started, regardless of the clocks.
        minimum = int((start[:, 0] - end[:, 1]).max() - origin_difference[index])
        maximum = int((end[:, 0] - start[:, 1]).min() - origin_difference[index])
        clocks.append(
            RankClock(
                rank=ranks[index].rank,
                offset=offset,
                spread=float(high - low) / 2,
                bound=float(max(offset - minimum, maximum - offset, 0)),
                samples=int(meets.sum()),
            )
        )
    return tuple(clocks)


def convert_to_first_clock(
    ranks: Sequence[RankTrace], clocks: Sequence[RankClock], times: Ints
) -> Ints:
    """Convert ``times``, shape (n, ranks), from ns since each trace's origin to the first one's."""
    origin = np.array([rank.trace.info.origin_ns for rank in ranks], dtype=np.int64)
    offset = np.array([clock.offset for clock in clocks], dtype=np.int64)
    return np.asarray(times + (origin - origin[0] + offset), dtype=np.int64)
