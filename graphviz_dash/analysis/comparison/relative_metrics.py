"""Metrics relative to a baseline: speedup, saving, break-even, throughput.

Throughput divides the operations that the workload states by the back-to-back interval of the clean
pass. The peak is the vendor's dense peak for the stated precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.absence import explain_missing, explain_other_program
from graphviz_dash.analysis.arrays import Floats
from graphviz_dash.analysis.memory.report import (
    RELATIVE_MEMORY_METRICS,
    compute_relative_memory_metrics,
)
from graphviz_dash.analysis.metrics.low_confidence import compute_communication_share
from graphviz_dash.analysis.metrics.registry import METRICS
from graphviz_dash.analysis.metrics.run_metrics import (
    MetricValue,
    compute_one_off_cost,
    get_step_times,
    make_missing_value,
    make_value,
)
from graphviz_dash.analysis.metrics.run_selection import has_other_program, has_same_mode
from graphviz_dash.analysis.metrics.thresholds import MUCH_COMMUNICATION
from graphviz_dash.analysis.sample_statistics import (
    Spread,
    SpreadKind,
    compute_interval,
    compute_percentiles,
    compute_resampled_process_medians,
)
from graphviz_dash.analysis.step_comparison.waterfall import Basis, Cause, Waterfall
from graphviz_dash.analysis.trace.steps import Step
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import Run
from graphviz_dash.model.timings import CleanTimings
from graphviz_dash.units import format_percent

_CLEAN_METRICS = (
    "speedup",
    "speedup_interval",
    "step_saving",
    "break_even",
    "peak_reserved_change",
)

RELATIVE_METRICS = (*_CLEAN_METRICS, *RELATIVE_MEMORY_METRICS)
"""Metrics of this module, which need a baseline."""

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
    """Compute the relative metrics; ``initial_cost`` is the run's one-off cost."""
    yield from compute_relative_memory_metrics(run, baseline)
    if isinstance(baseline, Missing):
        for metric in _CLEAN_METRICS:
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


def compute_traced_ratios(
    run: Run, metrics: Mapping[str, MetricValue], traced_steps: tuple[Step, ...]
) -> Iterator[MetricValue]:
    """Compute traced step and GPU busy time relative to the clean step time."""
    step = metrics["step_time"]
    share = compute_communication_share(run, traced_steps)
    for metric, source in (("observer_effect", "traced_step_time"), ("busy_of_clean", "gpu_busy")):
        figure = metrics[source]
        if source == "gpu_busy" and share > MUCH_COMMUNICATION:
            reason = (
                f"{format_percent(share)} of the traced GPU busy time is communication, which "
                "waits for other ranks, and waits less without the profiler"
            )
            yield make_missing_value(metric, Missing(Fact.GPU_WORK, reason))
        elif figure.value is None or not step.value:
            zero = Missing(Fact.STEP_TIMES, "the step time is 0")
            yield make_missing_value(metric, figure.missing or step.missing or zero)
        else:
            yield make_value(metric, figure.value / step.value)


def compute_one_off_metric(run: Run, step: MetricValue) -> MetricValue:
    """Compute the one-off cost of the run's graphs; ``step`` is its clean step time."""
    if run.clean is None or not run.clean.graphs:
        return make_missing_value("one_off_cost", explain_missing(run, Fact.GRAPH_COSTS))
    if step.value is None:
        return make_missing_value(
            "one_off_cost", step.missing or explain_missing(run, Fact.STEP_TIMES)
        )
    cost = compute_one_off_cost(run.mode, run.clean, step.value)
    if isinstance(cost, Missing):
        return make_missing_value("one_off_cost", cost)
    return make_value("one_off_cost", cost)


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


THROUGHPUT: Final = ("tokens_rate", "model_flops_rate", "mfu")


_UNSTATED: Final = Missing(Fact.WORKLOAD_FLOPS, "the workload does not state the FLOPs of a step")


class Peak(Struct, frozen=True):
    """The dense peak of a GPU for one precision."""

    gpu: str
    """Name reported by torch."""
    precision: str
    """Type of the matrix multiplications, such as ``bf16``."""
    flops: float
    """FLOP/s, without sparsity."""
    source: str


PEAKS: Final = (
    Peak("NVIDIA H200", "bf16", 989e12, "NVIDIA H200 data sheet: 1,979 TFLOPS with sparsity"),
    Peak(
        "NVIDIA H100 80GB HBM3", "bf16", 989e12, "NVIDIA H100 SXM data sheet: 1,979 with sparsity"
    ),
    Peak("NVIDIA H100 PCIe", "bf16", 756e12, "NVIDIA H100 PCIe data sheet: 1,513 with sparsity"),
    Peak("NVIDIA A100-SXM4-80GB", "bf16", 312e12, "NVIDIA A100 data sheet: 312 TFLOPS"),
    Peak("NVIDIA A100-SXM4-40GB", "bf16", 312e12, "NVIDIA A100 data sheet: 312 TFLOPS"),
    Peak("NVIDIA A100 80GB PCIe", "bf16", 312e12, "NVIDIA A100 data sheet: 312 TFLOPS"),
)
"""Full names reported by torch: an H200 NVL has a different peak than an H200."""


def get_peak(gpu: str, precision: str) -> Peak | None:
    """Return the peak of ``gpu``; None if unknown."""
    for peak in PEAKS:
        if (peak.gpu, peak.precision) == (gpu, precision):
            return peak
    return None


def compute_throughput(run: Run, interval: MetricValue) -> Iterator[MetricValue]:
    """Compute the throughput metrics from the workload and the back-to-back ``interval``."""
    work = run.manifest.workload.work
    if work is None:
        for metric in THROUGHPUT:
            yield make_missing_value(metric, _UNSTATED)
        return
    if not interval.value:
        for metric in THROUGHPUT:
            yield make_missing_value(
                metric,
                interval.missing or Missing(Fact.STEP_TIMES, "its back-to-back interval is 0"),
            )
        return
    if work.tokens is None:
        yield make_missing_value(
            "tokens_rate",
            Missing(Fact.WORKLOAD_FLOPS, "the workload does not state its tokens per step"),
        )
    else:
        yield _compute_rate("tokens_rate", work.tokens * 1e9, interval)
    yield _compute_rate("model_flops_rate", work.model_flops * 1e9, interval)
    gpu = run.manifest.environment.gpu_name
    peak = get_peak(gpu, work.precision)
    if peak is None:
        yield make_missing_value(
            "mfu", Missing(Fact.PEAK_FLOPS, f"the {work.precision} peak of {gpu} is unknown")
        )
    else:
        yield _compute_rate("mfu", work.model_flops * 1e9 / peak.flops, interval)


def _compute_rate(metric: str, per_step: float, interval: MetricValue) -> MetricValue:
    spread = interval.spread
    inverse_spread = None
    if spread is not None and spread.high is not None and spread.low > 0:
        inverse_spread = replace(spread, low=per_step / spread.high, high=per_step / spread.low)
    return make_value(metric, per_step / (interval.value or 1.0), inverse_spread)
