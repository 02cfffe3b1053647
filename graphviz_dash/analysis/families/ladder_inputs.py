"""What a ladder is chosen by, of a family as it was recorded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.families.family_report import FamilyReport, LoopReport, MemberReport
from graphviz_dash.analysis.families.ladder_data import LadderData, ReplaySamples, SizeCosts
from graphviz_dash.analysis.families.loop_columns import CAPTURE, FALLBACK, NONE
from graphviz_dash.model.absence import Fact, Missing


def ladder_data(
    report: LoopReport, family: FamilyReport, requests: Ints | None = None
) -> LadderData | Missing:
    """What a ladder of ``family`` is chosen by, for its own steps or for ``requests`` of sizes from
    elsewhere, shape (requests,)."""
    sized = [member for member in family.members if member.size]
    if not sized:
        return Missing(Fact.LADDER, "the sizes of the family's graphs are not known")
    samples = tuple(
        ReplaySamples(member.size or 0, member.rest, member.gpu_ns)
        for member in sized
        if len(member.gpu_ns)
    )
    if not samples:
        return Missing(Fact.LADDER, "no replay was timed on the GPU")
    columns = report.columns
    own = np.flatnonzero((columns.family == family.index) & (columns.real > 0))
    own = own[columns.kind[own] != CAPTURE]
    fell = own[(columns.kind[own] == FALLBACK) & (columns.period_ns[own] != NONE)]
    asked = columns.real[own] if requests is None else requests
    if not len(asked):
        return Missing(
            Fact.LADDER,
            "the real sizes of its steps are not known: name them with collectors.label, or give "
            "sizes with --traffic",
        )
    return LadderData(
        captured=_costs(family.members, sized),
        samples=samples,
        requests=asked,
        fallback_sizes=columns.real[fell],
        fallback_ns=np.maximum(columns.period_ns[fell] - (family.step_ns or 0.0), 0.0),
        step_ns=family.step_ns,
    )


def _costs(members: Sequence[MemberReport], sized: Sequence[MemberReport]) -> tuple[SizeCosts, ...]:
    """What each size takes, such that all of them together take what the pool grew by, and their
    executables: what later captures keep lies where earlier ones had temporary memory."""
    added = sum(member.pool_added_bytes or 0 for member in members)
    kept = sum(member.own_bytes or 0 for member in members)
    own_share = min(1.0, added / kept) if kept else 0.0
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
            sum((m.own_bytes or 0) * own_share + (m.executable_bytes or 0) for m in own),
            float(np.interp(size, seen, shares)) * max(added - kept, 0),
            sum(member.startup_ns for member in own),
        )
        for size, own in sorted(by_size.items())
    )


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
