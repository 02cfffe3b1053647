"""Difference lane: binned time that the first run of a view loses against another run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.ranks.ranks import RankWaits, compute_rank_waits
from graphviz_dash.analysis.step_comparison.time_lost import TimeLost, TracedStep, compute_time_lost
from graphviz_dash.analysis.step_comparison.typical_step import TypicalStep
from graphviz_dash.analysis.step_comparison.work_pairs import WorkPairs
from graphviz_dash.analysis.trace.steps import Step
from graphviz_dash.features.timeline.view.lanes import ViewFrame, compute_bin_edges
from graphviz_dash.features.timeline.view.model import Difference
from graphviz_dash.features.timeline.view.run import ChosenRun
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.units import format_count

MAX_BINS: Final = 1_200
"""Bins of all difference lanes of a view; a bin has at least two pixels."""

_BIN_PX: Final = 2


class RunDifference(Struct, frozen=True):
    """Time that a view's first run loses against another run."""

    run: str
    """Name of the other run."""
    lost: TimeLost | Missing
    cause: str = ""
    """Main cause of the unprofiled difference, as Compare names it; empty if unknown."""
    begin: int = 0
    """In ns since the first run's origin; 0 except for ranks that start later."""

    def lost_before(self, instants: Ints) -> tuple[Ints, Ints, Ints]:
        """Compute idle, busy and waiting loss up to ``instants``, in ns since the first run's
        origin."""
        if isinstance(self.lost, Missing):
            zeros = np.zeros_like(instants)
            return zeros, zeros, zeros
        return self.lost.interpolate_losses(instants - self.begin)


def measure_time_lost(
    pairs: WorkPairs,
    first: tuple[Run, ChosenRun],
    second: tuple[Run, ChosenRun],
    experiment: Experiment,
) -> TimeLost | Missing:
    """Compute the time that the first chosen step loses against the second.

    ``pairs`` is their matched work; ranks of ``experiment`` may wait for each other.
    """
    waits = compute_rank_waits(experiment)
    before = _build_traced_step(pairs.before, *first, waits)
    after = _build_traced_step(pairs.after, *second, waits)
    if isinstance(before, Missing):
        return before
    return after if isinstance(after, Missing) else compute_time_lost(pairs, before, after)


def _build_traced_step(
    work: TypicalStep, run: Run, choice: ChosenRun, waits: Mapping[str, RankWaits]
) -> TracedStep | Missing:
    step: Step | None = choice.step
    if run.replay_trace is None or step is None:
        return Missing(Fact.TYPICAL_STEP, f"{run.name} marks no step")
    rows = work.rows.get(step.index)
    if rows is None:
        reason = f"step {step.index} of {run.name} ran different work than its typical step"
        return Missing(Fact.TYPICAL_STEP, reason)
    waited = waits[run.name].wait_ns[rows] if run.name in waits else None
    return TracedStep(run.replay_trace, step, rows, waited)


def build_difference(run_difference: RunDifference, frame: ViewFrame, lanes: int) -> Difference:
    """Build the lane of one run among ``lanes`` difference lanes."""
    lost = run_difference.lost
    if isinstance(lost, Missing):
        return Difference(run_difference.run, problem=lost.reason)
    loaded = (frame.loaded[1] - frame.loaded[0]) / max(1.0, frame.ns_per_pixel)
    bins = max(1, min(round(loaded / _BIN_PX), MAX_BINS // max(1, lanes)))
    idle, busy, waiting = run_difference.lost_before(compute_bin_edges(frame.loaded, bins))
    return Difference(
        run=run_difference.run,
        before=(int(idle[0]), int(busy[0])),
        idle=np.diff(idle).tolist(),
        busy=np.diff(busy).tolist(),
        total=(int(lost.idle[-1]), int(lost.busy[-1])),
        waiting=np.diff(waiting).tolist() if lost.waiting.any() else [],
        waiting_before=int(waiting[0]),
        waiting_total=int(lost.waiting[-1]),
        most=int(np.abs(lost.times - lost.other_times).max()),
        text=_describe_matching(lost),
        cause=run_difference.cause,
        work=lost.work_ns,
    )


def _describe_matching(lost: TimeLost) -> str:
    pairs = sum(lost.methods.values())
    methods = ", ".join(
        f"{format_count(count)} by {method}" for method, count in lost.methods.items()
    )
    lone_items = [
        f"{format_count(count)} only in the {side} run"
        for count, side in zip(lost.unpaired_counts, ("first", "other"), strict=True)
        if count
    ]
    return "; ".join([f"{format_count(pairs)} operations matched ({methods})", *lone_items])
