"""The difference lane: where the first run of a view loses time against another, in bins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.step.time_lost import TimeLost, TracedStep, time_lost
from graphviz_dash.analysis.step.typical_step import TypicalStep
from graphviz_dash.analysis.step.work_pairs import WorkPairs
from graphviz_dash.analysis.trace.steps import Step
from graphviz_dash.charts.timeline.lanes import Frame, bin_edges
from graphviz_dash.charts.timeline.model import Difference
from graphviz_dash.charts.timeline.run import ChosenRun
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import Run
from graphviz_dash.units import format_count

MOST_BINS: Final = 1_200
"""Bins of all difference lanes of a view together; one is never finer than two pixels."""

_BIN_PX: Final = 2


@dataclass(frozen=True)
class RunLead:
    """What a view's first run loses against ``run``, or why that is not known. ``begin`` is when
    the first run's step begins, in ns since its origin: 0 but for ranks that begin later."""

    run: str
    mode: str
    lead: TimeLost | Missing
    begin: int = 0

    def lost_before(self, instants: Ints) -> tuple[Ints, Ints]:
        """Idle and busy loss up to each of ``instants``, in ns since the first run's origin."""
        if isinstance(self.lead, Missing):
            return np.zeros_like(instants), np.zeros_like(instants)
        return self.lead.lost_before(instants - self.begin)


def chosen_lead(
    pairs: WorkPairs, first: tuple[Run, ChosenRun], second: tuple[Run, ChosenRun]
) -> TimeLost | Missing:
    """The lead of the chosen steps of two runs whose work is paired in ``pairs``, or why there is
    none."""
    sides = [_side(work, *one) for work, one in ((pairs.before, first), (pairs.after, second))]
    for one in sides:
        if isinstance(one, Missing):
            return one
    before, after = (one for one in sides if isinstance(one, TracedStep))
    return time_lost(pairs, before, after)


def _side(work: TypicalStep, run: Run, chosen: ChosenRun) -> TracedStep | Missing:
    step: Step | None = chosen.step
    if run.replay_trace is None or step is None:
        return Missing(Fact.TYPICAL_STEP, f"{run.name} marks no step")
    rows = work.rows.get(step.index)
    if rows is None:
        reason = f"step {step.index} of {run.name} ran other work than its typical step"
        return Missing(Fact.TYPICAL_STEP, reason)
    return TracedStep(run.replay_trace, step, rows)


def difference(one: RunLead, frame: Frame, lanes: int) -> Difference:
    """The lane of one run in a view's frame, which has ``lanes`` such lanes."""
    lead = one.lead
    if isinstance(lead, Missing):
        return Difference(one.run, one.mode, problem=lead.reason)
    loaded = (frame.loaded[1] - frame.loaded[0]) / max(1.0, frame.ns_per_pixel)
    bins = max(1, min(round(loaded / _BIN_PX), MOST_BINS // max(1, lanes)))
    idle, busy = one.lost_before(bin_edges(frame.loaded, bins))
    return Difference(
        run=one.run,
        mode=one.mode,
        before=(int(idle[0]), int(busy[0])),
        idle=np.diff(idle).tolist(),
        busy=np.diff(busy).tolist(),
        total=(int(lead.idle[-1]), int(lead.busy[-1])),
        most=int(np.abs(lead.at - lead.other).max()),
        text=_told(lead),
    )


def _told(lead: TimeLost) -> str:
    """How the work was paired, in words."""
    pairs = sum(lead.methods.values())
    how = ", ".join(f"{format_count(many)} by {what}" for what, many in lead.methods.items())
    alone = [
        f"{format_count(many)} only in the {which} run"
        for many, which in zip(lead.alone, ("first", "other"), strict=True)
        if many
    ]
    return "; ".join([f"{format_count(pairs)} pieces of work paired ({how})", *alone])
