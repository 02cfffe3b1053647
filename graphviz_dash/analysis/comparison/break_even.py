"""Break-even of a graph: what it costs once, in parts, and what N replays have saved,
with the uncertainty of the saving.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graphviz_dash.analysis.absence import why_missing
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import ExecutionMode

if TYPE_CHECKING:
    from graphviz_dash.analysis.metrics.run_metrics import Figure
    from graphviz_dash.model.run import Run
    from graphviz_dash.model.timings import CleanTimings

FIRST_LAUNCH: Final = "first launch beyond a step"
"""What the whole step's graph costs at its first launch; the upload is in it."""


class BreakEven(Struct, frozen=True):
    """One run against its baseline. The one-off cost was measured once, and its own variation is in
    none of this."""

    run: str
    """Name of the run."""
    baseline: str
    """Name of its baseline."""
    parts: tuple[tuple[str, float], ...]
    """Parts of the one-off cost and their ns; they add up to ``one_off_ns``."""
    one_off_ns: float
    """What the run costs before it can save anything."""
    warm_up_ns: int
    """What its warm-up took: no part of the cost, for it does the step's work in any mode."""
    warm_ups: int
    """Warm-up iterations."""
    step_ns: float
    """Step time of the run."""
    saving_ns: float
    """What each replay saves."""
    low_ns: float
    """Lower end of the 95% interval of ``saving_ns``."""
    high_ns: float
    """Upper end of that interval."""
    replays: int
    """After so many the cost is paid back."""
    fewest: int
    """Lower end of the interval of ``replays``."""
    most: int | None
    """Upper end of it; None for replays that may never come."""
    discarded: int
    """``replays`` where the warm-up is thrown away."""

    def saved(self, replays: float) -> tuple[float, float, float]:
        """What so many replays have saved, the one-off cost paid: low, middle and high, ns."""
        cost = self.one_off_ns
        each = (self.low_ns, self.saving_ns, self.high_ns)
        low, middle, high = (replays * saving - cost for saving in each)
        return low, middle, high

    def powers(self) -> tuple[int, ...]:
        """1, 10, 100 and so on replays, to the first power at which all is paid ten times over."""
        last = max(1, math.ceil(math.log10(10 * (self.most or self.replays))))
        return tuple(10**power for power in range(last + 1))


def break_even(run: Run, against: Run, figures: Mapping[str, Figure]) -> BreakEven | Missing:
    """The break-even of ``run``; ``figures`` are the run's own, by metric."""
    step, cost, saving, replays = (
        figures[metric] for metric in ("step_time", "one_off_cost", "step_saving", "break_even")
    )
    for figure in (replays, saving, cost, step):
        if figure.missing is not None:
            return figure.missing
    spread = replays.spread
    if run.clean is None or spread is None or saving.spread is None:
        return why_missing(run, Fact.CLEAN_PASS)
    once, each = cost.value or 0.0, saving.value or 0.0
    return BreakEven(
        run=run.name,
        baseline=against.name,
        parts=cost_parts(run.mode, run.clean, step.value or 0.0),
        one_off_ns=once,
        warm_up_ns=run.clean.warmup_ns,
        warm_ups=run.manifest.workload.warmup,
        step_ns=step.value or 0.0,
        saving_ns=each,
        low_ns=saving.spread.low,
        high_ns=each if saving.spread.high is None else saving.spread.high,
        replays=int(replays.value or 0),
        fewest=int(spread.low),
        most=None if spread.high is None else int(spread.high),
        discarded=max(1, math.ceil((once + run.clean.warmup_ns) / each)),
    )


def cost_parts(
    mode: ExecutionMode, clean: CleanTimings, step_ns: float
) -> tuple[tuple[str, float], ...]:
    """The one-off cost (run_metrics.one_off_cost) divided, in ns; for a run that has one."""
    lives = clean.graphs
    if mode.captures_whole_step:
        last = (FIRST_LAUNCH, sum(life.first_launch_ns for life in lives) - step_ns)
    else:
        last = ("upload", float(sum(life.upload_ns or 0 for life in lives)))
    return (
        ("capture", float(sum(life.capture_ns for life in lives))),
        ("instantiation", float(sum(life.instantiate_ns for life in lives))),
        last,
    )
