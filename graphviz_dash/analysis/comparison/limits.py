"""Limits of the gain from graphs: work outside graphs, and a GPU that is already busy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graphviz_dash.analysis.metrics.graph_coverage import Reason
from graphviz_dash.model.absence import Missing

if TYPE_CHECKING:
    from graphviz_dash.analysis.comparison.result import RunComparison

MIN_OUTSIDE_SHARE: Final = 0.05
"""Share of work outside graphs from which it limits the gain."""
BUSY_SHARE: Final = 0.9
"""Share of busy GPU time from which a graph has little idle time to remove."""


class OutsideGraphs(Struct, frozen=True):
    """Work that no graph launches."""

    work_share: float
    """Share of kernels, memcpys and memsets, 0 to 1."""
    reason: Reason | None
    """Reason with most of that work; None if unknown."""
    operator: str | None
    """Operator with most of that work; None if unknown, and for work that serves a replay."""


class BusyGpu(Struct, frozen=True):
    """A GPU that is busy almost throughout the step."""

    busy_share: float
    """Share of the step, 0 to 1."""


def find_limit(run: RunComparison) -> OutsideGraphs | BusyGpu | None:
    """Find the main limit of the gain of ``run``; None if unknown."""
    breakdown = run.time_by_category
    if not isinstance(breakdown, Missing) and breakdown.idle_fraction is not None:
        busy = 1 - breakdown.idle_fraction
        if busy >= BUSY_SHARE:
            return BusyGpu(busy)
    if isinstance(run.coverage, Missing) or not run.coverage.work_share:
        return None
    outside = 1 - run.coverage.work_share
    if outside < MIN_OUTSIDE_SHARE:
        return None
    counts: dict[tuple[Reason, str | None], float] = {}
    for group in run.coverage.eager:
        serves_replay = group.reason in (Reason.INPUT, Reason.GENERATOR)
        key = (group.reason, None if serves_replay else group.operator)
        counts[key] = counts.get(key, 0.0) + group.count
    reason, operator = max(counts, key=counts.__getitem__, default=(None, None))
    return OutsideGraphs(outside, reason, operator)
