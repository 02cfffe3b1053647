"""What a ladder is chosen by, of a family as it was recorded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.loop.family_report import FamilyReport, LoopReport, MemberReport
from graphviz_dash.analysis.loop.loop_columns import CAPTURE, FALLBACK, LoopColumns
from graphviz_dash.analysis.loop.size_times import median, size_times, times_at
from graphviz_dash.features.ladder.analysis.ladder_data import LadderData, SizeCosts
from graphviz_dash.model.absence import Fact, Missing

_FAR_MORE: Final = 2
"""From so many times the bytes that are usual for its size on a graph keeps something else:
allocations are rounded up, by less."""


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
    executables: what later captures keep lies where earlier ones had temporary memory, and what
    captures keep beyond what their sizes explain is no size's: workspaces of libraries."""
    added = sum(member.pool_added_bytes or 0 for member in members)
    explained = _explained_bytes(members)
    kept = sum(explained.values())
    once = min(sum(member.own_bytes or 0 for member in members) - kept, added)
    own_share = min(1.0, (added - once) / kept) if kept else 0.0
    needs = _pool_needs(members)
    seen = np.array([0, *(size for size, _ in needs)])
    shares = np.array([0.0, *(need for _, need in needs)])
    shares /= shares[-1] or 1.0
    by_size: dict[int, list[MemberReport]] = {}
    for member in sized:
        by_size.setdefault(member.size or 0, []).append(member)
    return tuple(
        SizeCosts(
            size,
            sum(explained[m.index] * own_share + (m.executable_bytes or 0) for m in own),
            once + float(np.interp(size, seen, shares)) * max(added - once - kept, 0),
            sum(member.startup_ns for member in own),
        )
        for size, own in sorted(by_size.items())
    )


def _explained_bytes(members: Sequence[MemberReport]) -> dict[int, float]:
    """By the index of each member, the bytes of the pool that it keeps for its size: all, unless
    they are far more than those that were captured later keep, scaled up to its size. A library
    takes its workspace in the first captures that call it on a stream, and later ones find it."""
    explained: dict[int, float] = {}
    most = each = math.inf
    for member in sorted(members, key=lambda member: member.index, reverse=True):
        own = float(member.own_bytes or 0)
        if member.size:
            usual = max(most, each * member.size)
            own = usual if own > _FAR_MORE * usual else own
            if math.isinf(most):
                most = each = 0.0
            most, each = max(most, own), max(each, own / member.size)
        explained[member.index] = own
    return explained


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
