"""When a graph has paid for itself: what it costs once, in parts, and what N replays have saved,
with the uncertainty of the saving.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from graphviz_dash.model.run import ExecutionMode
from graphviz_dash.units import counted, format_count, format_ns

if TYPE_CHECKING:
    from graphviz_dash.analysis.metrics.run_metrics import Figure
    from graphviz_dash.model.run import Run
    from graphviz_dash.model.timings import CleanTimings

FIRST_LAUNCH: Final = "first launch beyond a step"
"""What the whole step's graph costs at its first launch; the upload is in it."""


@dataclass(frozen=True)
class BreakEven:
    """One run against its baseline; times in ns.

    ``parts`` add up to ``one_off_ns``. ``warm_up_ns`` is not among them, for warm-up iterations do
    the step's work in any mode; ``discarded`` is the break-even where they are thrown away.
    ``low_ns`` and ``high_ns`` are the 95% interval of ``saving_ns`` per replay, ``fewest`` and
    ``most`` that of ``replays``; None for replays that may never come. The one-off cost was
    measured once, and its own variation is in none of this.
    """

    run: str
    baseline: str
    parts: tuple[tuple[str, float], ...]
    one_off_ns: float
    warm_up_ns: int
    warm_ups: int
    step_ns: float
    saving_ns: float
    low_ns: float
    high_ns: float
    replays: int
    fewest: int
    most: int | None
    discarded: int

    def saved(self, replays: float) -> tuple[float, float, float]:
        """What so many replays have saved, the one-off cost paid: low, middle and high, ns."""
        cost = self.one_off_ns
        each = (self.low_ns, self.saving_ns, self.high_ns)
        low, middle, high = (replays * one - cost for one in each)
        return low, middle, high

    def powers(self) -> tuple[int, ...]:
        """1, 10, 100 and so on replays, to the first power at which all is paid ten times over."""
        last = max(1, math.ceil(math.log10(10 * (self.most or self.replays))))
        return tuple(10**power for power in range(last + 1))


def break_even(run: Run, against: Run, figures: Mapping[str, Figure]) -> BreakEven | str:
    """The break-even of ``run``, or why there is none; ``figures`` are the run's own, by metric."""
    step, cost, saving = (figures[one] for one in ("step_time", "one_off_cost", "step_saving"))
    replays = figures["break_even"]
    spread = replays.spread
    if (
        run.clean is None
        or spread is None
        or saving.spread is None
        or None in (step.value, cost.value, saving.value, replays.value)
    ):
        return replays.reason or saving.reason or cost.reason or "no clean pass"
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
    """The one-off cost (figures.one_off_cost) divided, in ns; for a run that has one."""
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


def pays_text(found: BreakEven) -> str:
    """The break-even in words: the cost in parts, when it is paid back, and the warm-up."""
    parts = ", ".join(f"{name} {format_ns(ns)}" for name, ns in found.parts)
    most = "never" if found.most is None else format_count(found.most)
    warm = counted(found.warm_ups, "warm-up iteration")
    return (
        f"{format_ns(found.one_off_ns)} once: {parts}. {format_ns(found.saving_ns)} saved per "
        f"replay (95%: {format_ns(found.low_ns)} to {format_ns(found.high_ns)}), so that it is "
        f"paid back after {counted(found.replays, 'replay')} (95%: {format_count(found.fewest)} to "
        f"{most}). The {warm} took {format_ns(found.warm_up_ns)} and are not counted, for they do "
        f"the step's work; thrown away, they make it {counted(found.discarded, 'replay')}."
    )
