"""Metrics relative to a baseline: speedup, saving, break-even."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.absence import explain_missing, explain_other_program
from graphviz_dash.analysis.arrays import Floats
from graphviz_dash.analysis.metrics.registry import METRICS
from graphviz_dash.analysis.metrics.run_metrics import (
    MetricValue,
    get_step_times,
    make_missing_value,
    make_value,
)
from graphviz_dash.analysis.metrics.run_selection import has_other_program, has_same_mode
from graphviz_dash.analysis.sample_statistics import (
    Spread,
    SpreadKind,
    compute_interval,
    compute_percentiles,
    compute_resampled_process_medians,
)
from graphviz_dash.analysis.step_comparison.waterfall import Basis, Cause, Waterfall
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import Run
from graphviz_dash.model.timings import CleanTimings

RELATIVE_METRICS = (
    "speedup",
    "speedup_interval",
    "step_saving",
    "break_even",
    "peak_reserved_change",
)

"""Metrics that compare clean timings and allocators with a baseline."""

COMPILE_METRICS = ("compile_saving", "graph_saving")
"""Savings of a compiled run with graphs, in parts; they also need a run without graphs."""

PREDICTED_METRICS = ("predicted_step_time", "prediction_error")
"""Metrics of a run with graphs that are predicted from an eager run."""


class _SeriesPair(Struct, frozen=True):
    """A series in the baseline and in the run; times in ns."""

    baseline_ns: float
    run_ns: float
    baseline_medians: Floats
    run_medians: Floats
    """Resampled medians of the run, equally many."""
    samples: int
    """Length of the shorter series."""
    processes: int
    """The smaller number of the two runs."""

    def compute_interval(self, values: Floats) -> Spread:
        """Compute the interval of values derived from both runs' resampled medians."""
        return compute_interval(values, self.samples, self.processes)


def compute_relative_metrics(
    run: Run, baseline: Run | Missing, initial_cost: MetricValue
) -> Iterator[MetricValue]:
    """Compute ``RELATIVE_METRICS``; ``initial_cost`` is the run's one-off cost."""
    if isinstance(baseline, Missing):
        for metric in RELATIVE_METRICS:
            yield make_missing_value(metric, baseline)
        return
    walls = _build_pair(run, baseline, get_step_times)
    intervals = _build_pair(run, baseline, lambda clean: clean.process_back_to_back_ns)
    yield _compute_speedup("speedup", walls)
    yield _compute_speedup("speedup_interval", intervals)
    if isinstance(walls, Missing):
        captured_graphs = run.clean is not None and run.clean.graphs
        yield make_missing_value("step_saving", walls)
        yield make_missing_value(
            "break_even", walls if captured_graphs else explain_missing(run, Fact.GRAPH_COSTS)
        )
    else:
        saving = walls.compute_interval(walls.baseline_medians - walls.run_medians)
        yield make_value("step_saving", walls.baseline_ns - walls.run_ns, saving)
        if other_program := _explain_other_costs(run, baseline):
            yield make_missing_value("break_even", other_program)
        else:
            difference_ns = walls.baseline_ns - walls.run_ns
            yield _compute_break_even(initial_cost, difference_ns, saving, baseline.name)
    yield _compute_memory_change(run, baseline)


def _explain_other_costs(run: Run, baseline: Run) -> Missing | None:
    """Explain why the run's one-off cost does not buy its saving; None if it does."""
    if has_other_program(run, baseline):
        return explain_other_program(baseline)
    if has_same_mode(run, baseline):
        return Missing(Fact.SAVING, f"{baseline.name} is another version of the same mode")
    return None


def compute_compile_metrics(
    run: Run, baseline: Run | Missing, compiled: Run | Missing
) -> Iterator[MetricValue]:
    """Compute ``COMPILE_METRICS``: savings of ``compiled`` over ``baseline`` and of ``run`` over
    it.
    """
    pairs: tuple[_SeriesPair | Missing, _SeriesPair | Missing]
    if isinstance(baseline, Missing):
        pairs = (baseline, baseline)
    elif isinstance(compiled, Missing):
        pairs = (compiled, compiled)
    else:
        pairs = (
            _build_pair(compiled, baseline, get_step_times),
            _build_pair(run, compiled, get_step_times),
        )
    for metric, pair in zip(COMPILE_METRICS, pairs, strict=True):
        if isinstance(pair, Missing):
            yield make_missing_value(metric, pair)
        else:
            saving = pair.compute_interval(pair.baseline_medians - pair.run_medians)
            yield make_value(metric, pair.baseline_ns - pair.run_ns, saving)


def _build_pair(
    run: Run, baseline: Run, read: Callable[[CleanTimings], Sequence[Sequence[int]]]
) -> _SeriesPair | Missing:
    before, after = (read(side.clean) if side.clean else () for side in (baseline, run))
    if not any(before):
        return explain_missing(baseline, Fact.STEP_TIMES).add_owner(f"the baseline {baseline.name}")
    if not any(after):
        return explain_missing(run, Fact.STEP_TIMES)
    baseline_medians = compute_resampled_process_medians(before, 0)
    run_medians = compute_resampled_process_medians(after, 1)
    # A long series has fewer resamples than a short one.
    draws = min(len(baseline_medians), len(run_medians))
    series = [np.asarray([*chain(*side)], np.float64) for side in (before, after)]
    return _SeriesPair(
        compute_percentiles(series[0], (50,))[0],
        compute_percentiles(series[1], (50,))[0],
        baseline_medians[:draws],
        run_medians[:draws],
        min(map(len, series)),
        min(len(before), len(after)),
    )


def _compute_speedup(metric: str, pair: _SeriesPair | Missing) -> MetricValue:
    if isinstance(pair, Missing):
        return make_missing_value(metric, pair)
    if pair.run_ns <= 0 or bool(np.any(pair.run_medians <= 0)):
        reason = "half of the iterations lasted 0 ns"
        return make_missing_value(metric, Missing(Fact.STEP_TIMES, reason))
    return make_value(
        metric,
        pair.baseline_ns / pair.run_ns,
        pair.compute_interval(pair.baseline_medians / pair.run_medians),
    )


def _compute_break_even(
    initial_cost: MetricValue, saving: float, spread: Spread, baseline: str
) -> MetricValue:
    if initial_cost.value is None:
        return MetricValue(METRICS["break_even"], None, missing=initial_cost.missing)
    if saving <= 0:
        reason = f"a replay is not faster than a step of {baseline}"
        return make_missing_value("break_even", Missing(Fact.SAVING, reason))
    high = spread.high or 0.0
    return make_value(
        "break_even",
        _count_replays(initial_cost.value, saving),
        Spread(
            _count_replays(initial_cost.value, max(high, saving)),
            _count_replays(initial_cost.value, spread.low) if spread.low > 0 else None,
            SpreadKind.INTERVAL,
            spread.samples,
            spread.processes,
        ),
    )


def _count_replays(cost: float, saving: float) -> int:
    return max(1, math.ceil(cost / saving))


def _compute_memory_change(run: Run, baseline: Run) -> MetricValue:
    metric = "peak_reserved_change"
    if has_other_program(run, baseline):
        return make_missing_value(metric, explain_other_program(baseline))
    if run.memory is None:
        return make_missing_value(metric, explain_missing(run, Fact.MEMORY))
    if baseline.memory is None:
        missing = explain_missing(baseline, Fact.MEMORY)
        return make_missing_value(metric, missing.add_owner(f"the baseline {baseline.name}"))
    after, before = run.memory.peak_reserved_bytes, baseline.memory.peak_reserved_bytes
    if after is None or before is None:
        return make_missing_value(
            metric, Missing(Fact.PEAK_MEMORY, "a memory snapshot has no history")
        )
    return make_value(metric, after - before)


WATERFALL_METRICS = (
    "gaps_removed",
    "kernel_change",
    "copy_change",
    "overlap_change",
    "synchronisation_removed",
    "rank_wait_removed",
    "remainder",
)
"""Waterfall metrics, in the order of waterfall.Cause; they need a baseline."""


def compute_waterfall_metrics(run: Run, waterfall: Waterfall | Missing) -> Iterator[MetricValue]:
    """Compute ``WATERFALL_METRICS``, which refer to clean steps."""
    if not isinstance(waterfall, Missing) and waterfall.basis is not Basis.CLEAN:
        waterfall = explain_missing(run, Fact.STEP_TIMES)
    parts = {} if isinstance(waterfall, Missing) else dict(waterfall.saved.list_items())
    for metric, cause in zip(WATERFALL_METRICS, Cause, strict=True):
        if isinstance(waterfall, Missing):
            yield make_missing_value(metric, waterfall)
        elif cause is Cause.RANKS and run.manifest.job_rank is None:
            reason = "the run used one process, so it has no other rank to wait for"
            yield make_missing_value(metric, Missing(Fact.OTHER_RANKS, reason))
        else:
            yield make_value(metric, parts[cause])
