"""What a ladder is chosen by, of a family as it was recorded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.families.family_report import FamilyReport, LoopReport, MemberReport
from graphviz_dash.analysis.families.ladder_data import LadderData, SizeCosts
from graphviz_dash.analysis.families.loop_columns import CAPTURE, FALLBACK, LoopColumns
from graphviz_dash.analysis.families.size_times import median, size_times, times_at
from graphviz_dash.model.absence import Fact, Missing


def ladder_data(
    report: LoopReport, family: FamilyReport, requests: Ints | None = None
) -> LadderData | Missing:
    """What a ladder of ``family`` is chosen by, for its own steps or for ``requests`` of sizes from
    elsewhere, shape (requests,)."""
    sized = [member for member in family.members if member.size]
    if not sized:
        return Missing(Fact.LADDER, "the sizes of the family's graphs are not known")
    if not family.samples:
        return Missing(Fact.LADDER, "no replay was timed on the GPU")
    columns = report.columns
    own = np.flatnonzero((columns.family == family.index) & (columns.real > 0))
    own = own[columns.kind[own] != CAPTURE]
    timed = columns.settled(own)
    fell = timed[columns.kind[timed] == FALLBACK]
    asked = columns.real[own] if requests is None else requests
    if requests is None and 0 < len(own) < family.replays + family.fallbacks:
        # Not all sizes are known: among the others may be any that today's largest serves.
        asked = np.append(asked, max(member.size or 0 for member in sized))
    if not len(asked):
        return Missing(
            Fact.LADDER,
            "the real sizes of its steps are not known: name them with collectors.label, or give "
            "sizes with --traffic",
        )
    sampled = [each.size for each in family.samples]
    between = asked[~np.isin(asked, sampled)]
    if len(between) and bool((between < min(sampled)).all()):
        # Times are flat below the first timed size: sizes there would seem to gain nothing.
        return Missing(
            Fact.LADDER,
            f"no replay of a size below {min(sampled):,} was timed before the traced window, where "
            "the other requests are: record more steps without a window, by --steps 0",
        )
    return LadderData(
        captured=_costs(family.members, sized),
        samples=family.samples,
        requests=asked,
        fallback_sizes=columns.real[fell],
        fallback_ns=np.maximum(columns.period_ns[fell] - (family.step_ns or 0.0), 0.0),
        step_ns=_besides(report.columns, family, timed),
    )


def _besides(columns: LoopColumns, family: FamilyReport, own: Ints) -> float | None:
    """What the steps at ``own`` take on average besides their replays, waiting and all: the mean
    time to the next step less that of the replays by their sizes. So the ladder that was captured
    comes to the throughput that was measured."""
    if family.step_ns is None or not len(own):
        return None
    seen, times = size_times(
        family.samples, np.array([median(each.replay_ns) for each in family.samples])
    )
    period = columns.period_ns[own].astype(np.float64)
    fell = columns.kind[own] == FALLBACK
    replays = times_at(np.maximum(columns.padded[own], 0), seen, times)
    cost = np.where(fell, np.maximum(period - family.step_ns, 0.0), replays)
    return max(float((period - cost).mean()), 0.0)


def _costs(members: Sequence[MemberReport], sized: Sequence[MemberReport]) -> tuple[SizeCosts, ...]:
    """What each size takes, such that all of them together take what the pool grew by, and their
    executables: what later captures keep lies where earlier ones had temporary memory, and what the
    first capture keeps beyond the others is no size's: workspaces of libraries."""
    added = sum(member.pool_added_bytes or 0 for member in members)
    once = _once(members)
    kept = max(sum(member.own_bytes or 0 for member in members) - once, 0)
    once = min(once, added)
    own_share = min(1.0, (added - once) / kept) if kept else 0.0
    needs = _pool_needs(members)
    seen = np.array([0, *(size for size, _ in needs)])
    shares = np.array([0.0, *(need for _, need in needs)])
    shares /= shares[-1] or 1.0
    by_size: dict[int, list[MemberReport]] = {}
    for member in sized:
        by_size.setdefault(member.size or 0, []).append(member)
    first = _first(members)
    return tuple(
        SizeCosts(
            size,
            sum(
                ((m.own_bytes or 0) - (_once(members) if m is first else 0)) * own_share
                + (m.executable_bytes or 0)
                for m in own
            ),
            once + float(np.interp(size, seen, shares)) * max(added - once - kept, 0),
            sum(member.startup_ns for member in own),
        )
        for size, own in sorted(by_size.items())
    )


def _first(members: Sequence[MemberReport]) -> MemberReport:
    """The one that was captured first."""
    return min(members, key=lambda member: member.index)


def _once(members: Sequence[MemberReport]) -> int:
    """Bytes that the first capture keeps over what its size explains, which is what the next size
    keeps, scaled; all that it keeps is its own where there is no other."""
    first = _first(members)
    others = [member for member in members if member is not first and member.size]
    if not first.size or not others:
        return 0
    size = first.size
    near = min(others, key=lambda member: abs((member.size or 0) - size))
    scaled = (near.own_bytes or 0) * max(size / (near.size or 1), 1.0)
    return max((first.own_bytes or 0) - round(scaled), 0)


def _pool_needs(members: Sequence[MemberReport]) -> list[tuple[int, int]]:
    """Sizes whose captures made the pool larger, ascending, with how large it was then; not
    falling."""
    reserved = largest = 0
    needs: dict[int, int] = {}
    for member in sorted(members, key=lambda each: each.index):
        reserved += member.pool_added_bytes or 0
        if member.pool_added_bytes and member.size:
            needs[member.size] = reserved
    rising = []
    for size in sorted(needs):
        largest = max(largest, needs[size])
        rising.append((size, largest))
    return rising
