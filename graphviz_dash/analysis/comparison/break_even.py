"""Break-even of a graph: one-off cost and the number of replays that pays it back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graphviz_dash.analysis.absence import explain_missing
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import ExecutionMode

if TYPE_CHECKING:
    from graphviz_dash.analysis.metrics.run_metrics import MetricValue
    from graphviz_dash.model.run import Run
    from graphviz_dash.model.timings import CleanTimings

FIRST_LAUNCH_PART: Final = "first launch beyond a step"
"""Excess of the first launch of a whole-step graph over a step; includes the upload."""


class BreakEven(Struct, frozen=True):
    """Break-even of one run against its baseline.

    The one-off cost is a single measurement, so the intervals exclude its variation.
    """

    run: str
    baseline: str
    parts: tuple[tuple[str, float], ...]
    """Parts of the one-off cost and their ns; they add up to ``one_off_ns``."""
    one_off_ns: float
    warm_up_ns: int
    """Excluded from the cost, because every mode needs a warm-up."""
    warm_ups: int
    step_ns: float
    saving_ns: float
    """Saving per replay in ns."""
    low_ns: float
    """Lower end of the 95% interval of ``saving_ns``."""
    high_ns: float
    replays: int
    """Replays until the cost is paid back."""
    min_replays: int
    max_replays: int | None
    """Upper end of the interval; None if the cost may never be paid back."""
    replays_without_warmup: int
    """Replays until break-even if the warm-up is discarded."""

    def compute_net_saving(self, replays: float) -> tuple[float, float, float]:
        """Compute the net saving after ``replays``: low, estimate and high, in ns."""
        cost = self.one_off_ns
        savings = (self.low_ns, self.saving_ns, self.high_ns)
        low, middle, high = (replays * saving - cost for saving in savings)
        return low, middle, high

    def list_replay_powers(self) -> tuple[int, ...]:
        """List powers of ten up to ten times the break-even point."""
        last = max(1, math.ceil(math.log10(10 * (self.max_replays or self.replays))))
        return tuple(10**power for power in range(last + 1))


def compute_break_even(
    run: Run, baseline: Run, metrics: Mapping[str, MetricValue]
) -> BreakEven | Missing:
    """Compute the break-even of ``run`` from its ``metrics`` by id."""
    step, cost, saving, replays = (
        metrics[metric] for metric in ("step_time", "one_off_cost", "step_saving", "break_even")
    )
    for figure in (replays, saving, cost, step):
        if figure.missing is not None:
            return figure.missing
    spread = replays.spread
    if run.clean is None or spread is None or saving.spread is None:
        return explain_missing(run, Fact.CLEAN_PASS)
    initial_ns, saving_ns = cost.value or 0.0, saving.value or 0.0
    return BreakEven(
        run=run.name,
        baseline=baseline.name,
        parts=split_cost(run.mode, run.clean, step.value or 0.0),
        one_off_ns=initial_ns,
        warm_up_ns=run.clean.warmup_ns,
        warm_ups=run.manifest.workload.warmup,
        step_ns=step.value or 0.0,
        saving_ns=saving_ns,
        low_ns=saving.spread.low,
        high_ns=saving_ns if saving.spread.high is None else saving.spread.high,
        replays=int(replays.value or 0),
        min_replays=int(spread.low),
        max_replays=None if spread.high is None else int(spread.high),
        replays_without_warmup=max(1, math.ceil((initial_ns + run.clean.warmup_ns) / saving_ns)),
    )


def split_cost(
    mode: ExecutionMode, clean: CleanTimings, step_ns: float
) -> tuple[tuple[str, float], ...]:
    """Split the one-off cost (run_metrics.one_off_cost) of a run into parts, in ns."""
    lifecycles = clean.graphs
    if mode.captures_entire_step:
        launch_part = (
            FIRST_LAUNCH_PART,
            sum(lifecycle.first_launch_ns for lifecycle in lifecycles) - step_ns,
        )
    else:
        launch_part = ("upload", float(sum(lifecycle.upload_ns or 0 for lifecycle in lifecycles)))
    return (
        ("capture", float(sum(lifecycle.capture_ns for lifecycle in lifecycles))),
        ("instantiation", float(sum(lifecycle.instantiate_ns for lifecycle in lifecycles))),
        launch_part,
    )
