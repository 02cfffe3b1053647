"""Inputs for choosing a ladder, from a recorded family."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.loop.family_report import FamilyReport, LoopReport, MemberReport
from graphviz_dash.analysis.loop.size_times import fit_median_times, interpolate_times
from graphviz_dash.analysis.loop.step_modes import estimate_total_ns
from graphviz_dash.analysis.metrics.loop_columns import CAPTURE, FALLBACK, LoopColumns
from graphviz_dash.features.ladder.analysis.ladder_data import LadderData, SizeCosts
from graphviz_dash.features.ladder.analysis.outside_time import fit_outside_time
from graphviz_dash.model.absence import Fact, Missing

_EXCESS_RATIO: Final = 2
"""Ratio to the usual bytes above which a graph keeps other memory; rounding stays below it."""


def build_ladder_data(
    report: LoopReport, family: FamilyReport, requests: Ints | None = None
) -> LadderData | Missing:
    """Build the ladder inputs for the steps of ``family``, or for ``requests``, shape
    (requests,)."""
    sized = [member for member in family.members if member.size]
    if not sized:
        return Missing(Fact.LADDER, "the sizes of the family's graphs are unknown")
    if not family.samples:
        return Missing(Fact.LADDER, "no replay was timed on the GPU")
    columns = report.columns
    rows = np.flatnonzero((columns.family == family.index) & (columns.real > 0))
    rows = rows[columns.kind[rows] != CAPTURE]
    timed = columns.select_settled(rows)
    fallback_rows = timed[columns.kind[timed] == FALLBACK]
    requested = columns.real[rows] if requests is None else requests
    if requests is None and 0 < len(rows) < family.replays + family.fallbacks:
        # Unknown sizes may be anything up to the largest current size.
        requested = np.append(requested, max(member.size or 0 for member in sized))
    if not len(requested):
        return Missing(
            Fact.LADDER,
            "the real sizes of its steps are unknown: set them with collectors.label, or pass "
            "sizes with --traffic",
        )
    sampled = [samples.size for samples in family.samples]
    unsampled = requested[~np.isin(requested, sampled)]
    if len(unsampled) and bool((unsampled < min(sampled)).all()):
        # Times are flat below the first timed size, so sizes there would seem to have no gain.
        return Missing(
            Fact.LADDER,
            f"no replay of a size below {min(sampled):,} was timed before the traced window, but "
            "requests have such sizes: record more steps without a window (--steps 0)",
        )
    return LadderData(
        captured=_compute_costs(
            family.kept_members, [m for m in family.kept_members if m.size] or sized
        ),
        samples=family.samples,
        eager_times=family.eager_times,
        requests=requested,
        fallback_sizes=columns.real[fallback_rows],
        fallback_ns=np.maximum(columns.period_ns[fallback_rows] - (family.step_ns or 0.0), 0.0),
        step_ns=_compute_step_ns(report.columns, family, timed),
        fallback_base_ns=family.step_ns or 0.0,
        outside=fit_outside_time(report, family),
        all_steps_ns=None if requests is not None else estimate_total_ns(columns),
        pool=family.pool,
    )


def _compute_step_ns(columns: LoopColumns, family: FamilyReport, rows: Ints) -> float | None:
    """Compute the mean time of the steps outside their replays, in ns, including waits."""
    if family.step_ns is None or not len(rows):
        return None
    sizes, times = fit_median_times(family.samples)
    period = columns.period_ns[rows].astype(np.float64)
    is_fallback = columns.kind[rows] == FALLBACK
    replays = interpolate_times(np.maximum(columns.padded[rows], 0), sizes, times)
    cost = np.where(is_fallback, np.maximum(period - family.step_ns, 0.0), replays)
    return max(float((period - cost).mean()), 0.0)


def _compute_costs(
    members: Sequence[MemberReport], sized: Sequence[MemberReport]
) -> tuple[SizeCosts, ...]:
    """Compute the cost of each size, so that the sum equals pool growth plus executables.

    Later captures reuse temporary memory of earlier ones. Unexplained memory belongs to library
    workspaces.
    """
    added = sum(member.pool_growth_bytes or 0 for member in members)
    explained = _estimate_explained_bytes(members)
    explained_bytes_total = sum(explained.values())
    one_time_bytes = min(
        sum(member.exclusive_bytes or 0 for member in members) - explained_bytes_total, added
    )
    scale = (
        min(1.0, (added - one_time_bytes) / explained_bytes_total) if explained_bytes_total else 0.0
    )
    needs = _list_pool_needs(members)
    sizes = np.array([0, *(size for size, _ in needs)])
    shares = np.array([0.0, *(need for _, need in needs)])
    shares /= shares[-1] or 1.0
    by_size: dict[int, list[MemberReport]] = {}
    for member in sized:
        by_size.setdefault(member.size or 0, []).append(member)
    return tuple(
        SizeCosts(
            size,
            sum(
                explained[member.index] * scale + (member.executable_bytes or 0)
                for member in size_members
            ),
            one_time_bytes
            + float(np.interp(size, sizes, shares))
            * max(added - one_time_bytes - explained_bytes_total, 0),
            sum(member.startup_ns for member in size_members),
            sum(member.executable_bytes or 0 for member in size_members),
        )
        for size, size_members in sorted(by_size.items())
    )


def _estimate_explained_bytes(members: Sequence[MemberReport]) -> dict[int, float]:
    """Estimate the pool bytes that each member keeps for its size.

    Excess over later captures is a library workspace.
    """
    explained: dict[int, float] = {}
    max_bytes = bytes_per_size = math.inf
    for member in sorted(members, key=lambda member: member.index, reverse=True):
        member_bytes = float(member.exclusive_bytes or 0)
        if member.size:
            typical_bytes = max(max_bytes, bytes_per_size * member.size)
            member_bytes = (
                typical_bytes if member_bytes > _EXCESS_RATIO * typical_bytes else member_bytes
            )
            if math.isinf(max_bytes):
                max_bytes = bytes_per_size = 0.0
            max_bytes, bytes_per_size = (
                max(max_bytes, member_bytes),
                max(bytes_per_size, member_bytes / member.size),
            )
        explained[member.index] = member_bytes
    return explained


def _list_pool_needs(members: Sequence[MemberReport]) -> list[tuple[int, int]]:
    reserved = largest = 0
    needs: dict[int, int] = {}
    for member in sorted(members, key=lambda member: member.index):
        reserved += member.pool_growth_bytes or 0
        if member.pool_growth_bytes and member.size:
            needs[member.size] = reserved
    rising = []
    for size in sorted(needs):
        largest = max(largest, needs[size])
        rising.append((size, largest))
    return rising
