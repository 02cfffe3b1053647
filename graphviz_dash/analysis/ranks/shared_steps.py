"""The steps of several ranks on one clock, for whatever shows ranks one above the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from graphviz_dash.analysis.ranks.clocks import RankTrace, align_clocks, match_instances
from graphviz_dash.analysis.ranks.ranks import families, rank_trace

if TYPE_CHECKING:
    from graphviz_dash.model.run import Experiment


class SharedSteps(Struct, frozen=True):
    """One rank's steps on the clock of its mode's first rank."""

    first: str
    """Name of that rank's run."""
    delta: int
    """What is added to the times of this rank's trace (ns since its origin) to bring them to those
    of the first rank's trace, in ns."""
    begins: Mapping[int, int]
    """When the first of the ranks begins each step that all have, by its index, in ns of this
    rank's own trace."""
    typical: int
    """Index of the step of median length, a step being as long as on the rank that takes longest.
    """


def shared_steps(experiment: Experiment) -> dict[str, SharedSteps]:
    """By the run's name; only of modes whose ranks are all traced and have collectives in common:
    without these their clocks cannot be aligned."""
    by_run: dict[str, SharedSteps] = {}
    for runs in families(experiment).values():
        traces = [trace for run in runs if isinstance(trace := rank_trace(run), RankTrace)]
        if len(traces) < max(len(runs), 2):
            continue
        instances = match_instances(traces)
        clocks = align_clocks(traces, instances)
        if not clocks:
            continue
        origin = traces[0].trace.info.origin_ns
        deltas = [
            trace.trace.info.origin_ns - origin + clock.offset
            for trace, clock in zip(traces, clocks, strict=True)
        ]
        begins, typical = _common(traces, deltas)
        for run, delta in zip(runs, deltas, strict=True):
            own = {index: begin - delta for index, begin in begins.items()}
            by_run[run.name] = SharedSteps(runs[0].name, delta, own, typical)
    return by_run


def _common(traces: list[RankTrace], deltas: list[int]) -> tuple[dict[int, int], int]:
    """When each common step begins on the first rank's clock, and which is of median length."""
    steps = [{step.index: step for step in trace.steps} for trace in traces]
    common = sorted(set.intersection(*(set(own) for own in steps)))
    begins = {
        index: min(own[index].start + delta for own, delta in zip(steps, deltas, strict=True))
        for index in common
    }
    ordered = sorted(
        common, key=lambda index: (max(own[index].duration_ns for own in steps), index)
    )
    return begins, ordered[(len(ordered) - 1) // 2]
