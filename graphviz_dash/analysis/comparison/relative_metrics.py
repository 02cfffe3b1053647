"""Metrics relative to a baseline: speedup, saving, break-even."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.absence import why_missing
from graphviz_dash.analysis.arrays import Floats
from graphviz_dash.analysis.memory.report import MEMORY_RELATIVE, memory_relative_figures
from graphviz_dash.analysis.metrics.registry import METRICS
from graphviz_dash.analysis.metrics.run_metrics import Figure, absent, present, step_times
from graphviz_dash.analysis.sample_statistics import (
    Spread,
    SpreadKind,
    interval,
    percentiles,
    resampled_process_medians,
)
from graphviz_dash.model.absence import Fact, Missing

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run
    from graphviz_dash.model.timings import CleanTimings

_OF_CLEAN = ("speedup", "speedup_interval", "step_saving", "break_even", "peak_reserved_change")

RELATIVE = (*_OF_CLEAN, *MEMORY_RELATIVE)
"""Metrics of this module, which need a baseline."""

COMPILED = ("compile_saving", "graph_saving")
"""Savings of a compiled run with graphs, in parts; they also need a run without graphs."""

PREDICTED = ("predicted_step_time", "prediction_error")
"""Metrics of a run with graphs that are predicted from an eager run."""


class _Pair(Struct, frozen=True):
    """A series in the baseline and in the run; times in ns."""

    before: float
    """Median in the baseline."""
    after: float
    """Median in the run."""
    befores: Floats
    """Resampled medians of the baseline."""
    afters: Floats
    """Resampled medians of the run, equally many."""
    samples: int
    """Length of the shorter series."""
    processes: int
    """Number of processes that timed the series; the smaller of the two runs."""

    def interval(self, values: Floats) -> Spread:
        """Compute the interval of values derived from both runs' resampled medians."""
        return interval(values, self.samples, self.processes)


def relative_figures(run: Run, against: Run | Missing, one_off: Figure) -> Iterator[Figure]:
    """Compute the RELATIVE metrics; ``one_off`` is the run's one-off cost."""
    yield from memory_relative_figures(run, against)
    if isinstance(against, Missing):
        for metric in _OF_CLEAN:
            yield absent(metric, against)
        return
    walls = _pair(run, against, step_times)
    intervals = _pair(run, against, lambda clean: clean.process_back_to_back_ns)
    yield _speedup("speedup", walls)
    yield _speedup("speedup_interval", intervals)
    if isinstance(walls, Missing):
        captured = run.clean is not None and run.clean.graphs
        yield absent("step_saving", walls)
        yield absent("break_even", walls if captured else why_missing(run, Fact.GRAPH_COSTS))
    else:
        saving = walls.interval(walls.befores - walls.afters)
        yield present("step_saving", walls.before - walls.after, saving)
        yield _break_even(one_off, walls.before - walls.after, saving, against.name)
    yield _memory_change(run, against)


def compile_figures(run: Run, against: Run | Missing, compiled: Run | Missing) -> Iterator[Figure]:
    """Compute the COMPILED metrics: savings of ``compiled`` over ``against`` and of ``run`` over
    it."""
    pairs: tuple[_Pair | Missing, _Pair | Missing]
    if isinstance(against, Missing):
        pairs = (against, against)
    elif isinstance(compiled, Missing):
        pairs = (compiled, compiled)
    else:
        pairs = (_pair(compiled, against, step_times), _pair(run, compiled, step_times))
    for metric, pair in zip(COMPILED, pairs, strict=True):
        if isinstance(pair, Missing):
            yield absent(metric, pair)
        else:
            saving = pair.interval(pair.befores - pair.afters)
            yield present(metric, pair.before - pair.after, saving)


def _pair(
    run: Run, against: Run, read: Callable[[CleanTimings], Sequence[Sequence[int]]]
) -> _Pair | Missing:
    """Pair the series that ``read`` extracts from the run and from its baseline."""
    before, after = (read(side.clean) if side.clean else () for side in (against, run))
    if not any(before):
        return why_missing(against, Fact.STEP_TIMES).of(f"the baseline {against.name}")
    if not any(after):
        return why_missing(run, Fact.STEP_TIMES)
    baseline_medians = resampled_process_medians(before, 0)
    run_medians = resampled_process_medians(after, 1)
    # A long series has fewer resamples than a short one.
    draws = min(len(baseline_medians), len(run_medians))
    series = [np.asarray([*chain(*side)], np.float64) for side in (before, after)]
    return _Pair(
        percentiles(series[0], (50,))[0],
        percentiles(series[1], (50,))[0],
        baseline_medians[:draws],
        run_medians[:draws],
        min(map(len, series)),
        min(len(before), len(after)),
    )


def _speedup(metric: str, pair: _Pair | Missing) -> Figure:
    if isinstance(pair, Missing):
        return absent(metric, pair)
    if pair.after <= 0 or bool(np.any(pair.afters <= 0)):
        reason = "half of the iterations lasted 0 ns"
        return absent(metric, Missing(Fact.STEP_TIMES, reason))
    return present(metric, pair.before / pair.after, pair.interval(pair.befores / pair.afters))


def _break_even(one_off: Figure, saving: float, spread: Spread, baseline: str) -> Figure:
    if one_off.value is None:
        return Figure(METRICS["break_even"], None, missing=one_off.missing)
    if saving <= 0:
        reason = f"a replay is not faster than a step of {baseline}"
        return absent("break_even", Missing(Fact.SAVING, reason))
    high = spread.high or 0.0
    return present(
        "break_even",
        _replays(one_off.value, saving),
        Spread(
            _replays(one_off.value, max(high, saving)),
            _replays(one_off.value, spread.low) if spread.low > 0 else None,
            SpreadKind.INTERVAL,
            spread.samples,
            spread.processes,
        ),
    )


def _replays(cost: float, saving: float) -> int:
    return max(1, math.ceil(cost / saving))


def _memory_change(run: Run, against: Run) -> Figure:
    metric = "peak_reserved_change"
    if run.memory is None:
        return absent(metric, why_missing(run, Fact.MEMORY))
    if against.memory is None:
        missing = why_missing(against, Fact.MEMORY)
        return absent(metric, missing.of(f"the baseline {against.name}"))
    after, before = run.memory.peak_reserved_bytes, against.memory.peak_reserved_bytes
    if after is None or before is None:
        return absent(metric, Missing(Fact.PEAK_MEMORY, "a memory snapshot has no history"))
    return present(metric, after - before)
