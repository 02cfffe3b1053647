"""Steps of several ranks on one clock."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from graphviz_dash.analysis.ranks.clocks import RankTrace, align_clocks, match_collectives
from graphviz_dash.analysis.ranks.ranks import build_rank_trace, group_rank_families
from graphviz_dash.model.run import Experiment


class SharedSteps(Struct, frozen=True):
    """One rank's steps on the clock of its mode's first rank."""

    first_run: str
    delta: int
    """Offset in ns from this rank's trace times to the first rank's."""
    starts: Mapping[int, int]
    """Earliest start among the ranks by step index, in ns of this rank's trace."""
    typical: int
    """Median step by length on its slowest rank."""


def find_shared_steps(experiment: Experiment) -> dict[str, SharedSteps]:
    """Return the shared steps by run name.

    Only for modes with traces of all ranks and common collectives, which clock alignment needs.
    """
    by_run: dict[str, SharedSteps] = {}
    for runs in group_rank_families(experiment).values():
        traces = [trace for run in runs if isinstance(trace := build_rank_trace(run), RankTrace)]
        if len(traces) < max(len(runs), 2):
            continue
        instances = match_collectives(traces)
        clocks = align_clocks(traces, instances)
        if not clocks:
            continue
        origin = traces[0].trace.info.origin_ns
        deltas = [
            trace.trace.info.origin_ns - origin + clock.offset
            for trace, clock in zip(traces, clocks, strict=True)
        ]
        begins, typical = _find_common_steps(traces, deltas)
        for run, delta in zip(runs, deltas, strict=True):
            local_begins = {index: begin - delta for index, begin in begins.items()}
            by_run[run.name] = SharedSteps(runs[0].name, delta, local_begins, typical)
    return by_run


def _find_common_steps(traces: list[RankTrace], deltas: list[int]) -> tuple[dict[int, int], int]:
    """Return each common step's start on the first rank's clock, and the median step's index."""
    steps = [{step.index: step for step in trace.steps} for trace in traces]
    common = sorted(set.intersection(*(set(rank_steps) for rank_steps in steps)))
    begins = {
        index: min(
            rank_steps[index].start + delta for rank_steps, delta in zip(steps, deltas, strict=True)
        )
        for index in common
    }
    ordered_steps = sorted(
        common,
        key=lambda index: (max(rank_steps[index].duration_ns for rank_steps in steps), index),
    )
    return begins, ordered_steps[(len(ordered_steps) - 1) // 2]
