"""The figures of a run that need another run, its baseline: speedup, saving, break-even."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphviz_dash.analysis.absence import why_missing
from graphviz_dash.analysis.arrays import Floats
from graphviz_dash.analysis.memory.report import MEMORY_RELATIVE, memory_relative_figures
from graphviz_dash.analysis.metrics.run_metrics import Figure, absent, present
from graphviz_dash.analysis.sample_statistics import (
    Spread,
    SpreadKind,
    interval,
    percentiles,
    resampled_medians,
)
from graphviz_dash.model.absence import Fact, Missing

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run
    from graphviz_dash.model.timings import CleanTimings

_OF_CLEAN = ("speedup", "speedup_interval", "step_saving", "break_even", "peak_reserved_change")

RELATIVE = (*_OF_CLEAN, *MEMORY_RELATIVE)
"""The metrics of this module, which need a baseline."""

EQUATION = (
    "gaps_removed",
    "kernel_change",
    "copy_change",
    "synchronisation_removed",
    "rank_wait_removed",
    "remainder",
)
"""Those of the equation, which need one too, in the order of waterfall.Cause."""

PREDICTED = ("predicted_step_time", "prediction_error")
"""Those that an eager run tells of a run with graphs."""


@dataclass(frozen=True)
class _Pair:
    """Medians of a series in the baseline and in the run, with resampled medians of both, ns."""

    before: float
    after: float
    befores: Floats
    afters: Floats
    samples: int


def relative_figures(run: Run, against: Run | Missing, one_off: Figure) -> Iterator[Figure]:
    """The figures of RELATIVE. ``against`` is the baseline, or the reason why there is none;
    ``one_off`` is the run's own one-off cost."""
    yield from memory_relative_figures(run, against)
    if isinstance(against, Missing):
        for metric in _OF_CLEAN:
            yield absent(metric, against.reason)
        return
    walls = _pair(run, against, lambda clean: [step.wall_ns for step in clean.steps])
    intervals = _pair(run, against, lambda clean: clean.back_to_back_ns)
    yield _speedup("speedup", walls)
    yield _speedup("speedup_interval", intervals)
    if isinstance(walls, str):
        yield absent("step_saving", walls)
        captured = run.clean is not None and run.clean.graphs
        yield absent("break_even", walls if captured else why_missing(run, Fact.GRAPH_COSTS).reason)
    else:
        saving = interval(walls.befores - walls.afters, walls.samples)
        yield present("step_saving", walls.before - walls.after, saving)
        yield _break_even(one_off, walls.before - walls.after, saving, against.name)
    yield _memory_change(run, against)


def _pair(run: Run, against: Run, read: Callable[[CleanTimings], Sequence[int]]) -> _Pair | str:
    series = []
    for one in (against, run):
        values = read(one.clean) if one.clean is not None else ()
        if not values:
            reason = why_missing(one, Fact.STEP_TIMES).reason
            return reason if one is run else f"the baseline {one.name}: {reason}"
        series.append(values)
    before, after = series
    befores, afters = resampled_medians(before, 0), resampled_medians(after, 1)
    # A long series is resampled less often than a short one.
    draws = min(len(befores), len(afters))
    return _Pair(
        percentiles(np.asarray(before, np.float64), (50,))[0],
        percentiles(np.asarray(after, np.float64), (50,))[0],
        befores[:draws],
        afters[:draws],
        min(len(before), len(after)),
    )


def _speedup(metric: str, pair: _Pair | str) -> Figure:
    if isinstance(pair, str):
        return absent(metric, pair)
    if pair.after <= 0 or bool(np.any(pair.afters <= 0)):
        return absent(metric, "half of its iterations took 0 ns by the clock")
    return present(
        metric, pair.before / pair.after, interval(pair.befores / pair.afters, pair.samples)
    )


def _break_even(one_off: Figure, saving: float, spread: Spread, baseline: str) -> Figure:
    if one_off.value is None:
        return absent("break_even", one_off.reason or "no one-off cost")
    if saving <= 0:
        return absent("break_even", f"a replay saves nothing over a step of {baseline}")
    high = spread.high or 0.0
    return present(
        "break_even",
        _replays(one_off.value, saving),
        Spread(
            _replays(one_off.value, max(high, saving)),
            _replays(one_off.value, spread.low) if spread.low > 0 else None,
            SpreadKind.INTERVAL,
            spread.samples,
        ),
    )


def _replays(cost: float, saving: float) -> int:
    return max(1, math.ceil(cost / saving))


def _memory_change(run: Run, against: Run) -> Figure:
    metric = "peak_reserved_change"
    if run.memory is not None and against.memory is not None:
        own, before = run.memory.peak_reserved_bytes, against.memory.peak_reserved_bytes
        if own is None or before is None:
            return absent(metric, "a memory snapshot holds no history")
        return present(metric, own - before)
    lacking = run if run.memory is None else against
    reason = why_missing(lacking, Fact.MEMORY).reason
    return absent(metric, reason if lacking is run else f"the baseline {lacking.name}: {reason}")
