"""Prediction of CUDA graph gains from an eager trace only."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.metrics.thresholds import SLIGHT_SPEEDUP
from graphviz_dash.analysis.prediction.capture_blockers import Blocker, find_capture_blockers
from graphviz_dash.analysis.prediction.eager_step import EagerStep, build_eager_step
from graphviz_dash.analysis.prediction.idle_time import IdleTime, analyse_idle_time
from graphviz_dash.analysis.prediction.module_prediction import (
    EagerSpan,
    ItemOrigins,
    ModulePredictions,
    find_item_origins,
    predict_modules,
)
from graphviz_dash.analysis.prediction.replay_model import ReplayTime, predict_replay
from graphviz_dash.analysis.prediction.uncertainty import Estimate, compute_half_widths
from graphviz_dash.analysis.sample_statistics import summarise
from graphviz_dash.analysis.trace.steps import Step, StepMethod
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.doctor import Severity

if TYPE_CHECKING:
    from graphviz_dash.analysis.metrics.recorded_step import RecordedStep
    from graphviz_dash.analysis.trace.integrity import TraceIntegrity
    from graphviz_dash.model.calibration import Calibration
    from graphviz_dash.model.timings import CleanTimings
    from graphviz_dash.model.trace import Trace

CAPTURE: Final = "capture"
"""Name of the capture among the one-off costs."""
_FEW_STEPS: Final = 3


class EagerSide(StrEnum):
    """Source of the eager step time."""

    CLEAN = "clean"
    """Steps timed without a profiler."""
    RECORDED_MEDIAN = "median in its own loop"
    """Steps of the program's loop, without a profiler."""
    RECORDED_MEAN = "mean in its own loop"
    """The same if the CPU runs ahead of the GPU, so single steps are unknown."""
    TRACED = "under the profiler"
    """Steps of the trace, which the profiler slows."""


class Recommendation(StrEnum):
    """The verdict."""

    YES = "yes"
    MARGINAL = "marginal"
    NO = "no"
    BLOCKED = "blocked"
    NO_STEPS = "no steps"


class PredictionWarning(StrEnum):
    """Reason for low confidence in a prediction, in display order."""

    UNKNOWN_GPU = "unknown GPU"
    OTHER_GPU = "other GPU"
    """The trace comes from a different GPU than the calibration."""
    UNMARKED_STEPS = "unmarked steps"
    """All of the trace counts as one step."""
    FEW_STEPS = "few steps"
    """Fewer than three traced steps ran the same work."""
    UNLIKE_STEPS = "unlike steps"
    """Most traced steps ran other work, so the program's loop has no typical step."""
    COLLECTIVES = "collectives"
    """Collective durations include waits for other ranks."""
    INCOMPLETE_TRACE = "incomplete trace"
    LOST_RECORDS = "lost records"
    """Some launches have no GPU work, or some steps no event or too few launches."""
    LOST_LAUNCHES = "lost launches"
    """Some kernels have no launch."""
    CLOCKS = "clocks"
    """CPU and GPU clocks differ by a large part of a step."""
    GRAPHED_SHARE = "graphed share"
    """Some work comes from graph launches and stays as it is."""
    PROFILED_EAGER_STEP = "profiled eager step"


class NotChecked(StrEnum):
    """Capture hazard that the trace cannot show, in display order."""

    CALLS = "calls"
    """The trace has no or not all API calls."""
    STEPS_DIFFER = "steps differ"
    """A single step does not show differences between steps."""
    SOURCE_LINES = "source lines"
    """The trace has no Python stacks."""
    OPERATORS = "operators"
    """The trace was recorded without CPU activities."""
    MOVED_INPUTS = "moved inputs"


class Prediction(Struct, frozen=True):
    """Prediction for the step of a trace, in ns."""

    source: str
    calibration: Calibration
    step: EagerStep
    origins: ItemOrigins
    replay: ReplayTime
    """Predicted replay as one graph, by part."""
    step_ns: Estimate
    """Graphed step from call to completion."""
    interval_ns: Estimate
    """Graphed step back to back."""
    eager_ns: float
    """Eager step, from the source ``eager_side``."""
    eager_side: EagerSide
    idle: IdleTime
    """Causes of GPU idle time in traced steps close to the median length; for a mean step in all
    traced steps.
    """
    remaining_idle_ns: float
    """Idle time of the eager step that a graph does not remove, by its traced share; 0 with clean
    timings.
    """
    graphed: Estimate
    """Graphed step with the remaining idle time, back to back if the eager side is a loop."""
    speedup: Estimate | Missing
    """Eager step divided by the graphed step with the remaining idle time.

    Without an interval for a profiled eager step; missing if no steps are marked.
    """
    saving_ns: Estimate | Missing
    """Time saved by a replay, with the same interval rules as ``speedup``."""
    one_off: tuple[tuple[str, int], ...]
    """One-off costs of a graph, by name; without the capture if the trace shows no launches."""
    break_even: Estimate | Missing
    """Number of replays; missing if there is none."""
    recommendation: Recommendation
    blockers: tuple[Blocker, ...]
    not_checked: tuple[NotChecked, ...]
    modules: ModulePredictions | Missing
    """Largest saving first; missing if the trace names no modules."""
    warnings: tuple[PredictionWarning, ...]
    gpu: str | None
    """Name of the trace's GPU; None if unknown."""
    incomplete: str | None
    """First missing part of the trace; None if complete."""

    @property
    def covers_whole_trace(self) -> bool:
        """True if the trace marks no steps, so there is no speedup."""
        return self.step.method is StepMethod.WHOLE

    @property
    def one_off_ns(self) -> int:
        """Total one-off cost of the graph."""
        return sum(ns for _, ns in self.one_off)

    @property
    def idle_ns(self) -> float:
        """Time of the eager step with an idle GPU."""
        return max(self.eager_ns - self.step.busy_ns, 0.0)


def predict(
    trace: Trace,
    calibration: Calibration,
    clean: CleanTimings | None = None,
    gpu: str | None = None,
    traced_steps: tuple[Step, ...] | None = None,
    loop: RecordedStep | None = None,
    integrity: TraceIntegrity | None = None,
) -> Prediction | Missing:
    """Predict the typical step of an eager ``trace``, or explain why this is impossible.

    The eager step time comes from ``clean`` (timings without a profiler), else from ``loop`` (the
    step of the program's loop without one), else from the trace. ``gpu`` names the GPU if the trace
    does not. ``traced_steps`` and ``integrity`` are computed if None.
    """
    step = build_eager_step(trace, traced_steps, integrity)
    if isinstance(step, Missing):
        return step
    return predict_step(trace, step, calibration, clean, gpu, loop)


def predict_step(
    trace: Trace,
    step: EagerStep,
    calibration: Calibration,
    clean: CleanTimings | None,
    gpu: str | None,
    loop: RecordedStep | None = None,
) -> Prediction:
    """Predict as :func:`predict` does, for a known typical step."""
    terms, multiprocessors = calibration.terms, calibration.gpu.multiprocessors
    replay = predict_replay(step, terms, multiprocessors)
    names = trace.info.device_names
    gpu = gpu or (names[0] if names else None)
    has_marks = step.method is not StepMethod.WHOLE
    relative_half_width, interval_half = compute_half_widths(
        step, replay.total_ns, calibration.errors, other_gpu=gpu != calibration.gpu.name
    )
    # The GPU's clock, which may be slow, measured the work of the replay.
    allowance = 1 + step.integrity.clock_drift
    step_ns = _make_estimate(
        allowance * replay.total_ns, relative_half_width if has_marks else None
    )
    interval_ns = _make_estimate(
        allowance * compute_back_to_back_ns(replay, calibration, len(step)),
        interval_half if has_marks else None,
    )
    eager, side = _select_eager_side(step, clean, loop)
    # The mean step of a loop includes occasional other work.
    idle = analyse_idle_time(trace, step, mean=side is EagerSide.RECORDED_MEAN)
    # Clean timings call the step as a function, and a graph of it runs none of its Python code.
    remaining_share = 0.0 if side is EagerSide.CLEAN else idle.remaining_share
    remaining_ns = remaining_share * max(eager.value - step.busy_ns, 0.0)
    graphed = _shift_estimate(interval_ns if _is_looped(side, step) else step_ns, remaining_ns)
    speedup, saving = _compute_ratio(eager, graphed), _compute_saving(eager, graphed)
    blockers = find_capture_blockers(trace, step)
    origins = find_item_origins(trace, step)
    span = EagerSpan(eager.value - remaining_ns, idle.launching)
    modules = predict_modules(trace, step, span, calibration, blockers)
    initial_cost = _estimate_one_off_costs(step, calibration, clean)
    no_steps = Missing(Fact.TRACED_STEPS, "the trace marks no steps, so there is no step time")
    return Prediction(
        source=trace.info.source,
        calibration=calibration,
        step=step,
        origins=origins,
        replay=replay,
        step_ns=step_ns,
        interval_ns=interval_ns,
        eager_ns=eager.value,
        eager_side=side,
        idle=idle,
        remaining_idle_ns=remaining_ns,
        graphed=graphed,
        speedup=speedup if has_marks else no_steps,
        saving_ns=saving if has_marks else no_steps,
        one_off=initial_cost,
        break_even=_compute_break_even(initial_cost, saving) if has_marks else no_steps,
        recommendation=(
            _make_recommendation(eager.value, graphed, blockers)
            if has_marks
            else Recommendation.NO_STEPS
        ),
        blockers=blockers,
        not_checked=_find_unchecked_hazards(trace, step),
        modules=modules,
        warnings=_find_warnings(trace, step, calibration, gpu, side),
        gpu=gpu,
        incomplete=trace.info.completeness_problems[0].text
        if trace.info.completeness_problems
        else None,
    )


def compute_back_to_back_ns(replay: ReplayTime, calibration: Calibration, nodes: int) -> float:
    """Return the graphed step back to back: launches overlap the work unless they are longer."""
    device = replay.total_ns - replay.fixed_ns - replay.random_ns + calibration.interval_fixed_ns
    fixed_ns, per_node = calibration.replay_cpu_ns
    return max(device + replay.random_ns, fixed_ns + per_node * nodes)


def _make_estimate(value: float, half: float | None) -> Estimate:
    if half is None:
        return Estimate(round(value))
    return Estimate(round(value), round(value * (1 - half)), round(value * (1 + half)))


def _shift_estimate(estimate: Estimate, offset_ns: float) -> Estimate:
    low, high = estimate.low, estimate.high
    return Estimate(
        estimate.value + offset_ns,
        None if low is None else low + offset_ns,
        None if high is None else high + offset_ns,
    )


def _is_looped(side: EagerSide, step: EagerStep) -> bool:
    synchronized_methods = (StepMethod.MARKED, StepMethod.WHOLE)
    return side in (EagerSide.RECORDED_MEDIAN, EagerSide.RECORDED_MEAN) or (
        side is EagerSide.TRACED and step.method not in synchronized_methods
    )


def _select_eager_side(
    step: EagerStep, clean: CleanTimings | None, loop: RecordedStep | None
) -> tuple[Estimate, EagerSide]:
    """Return the eager step and its source, never a mixture.

    Clean timings have quartiles, and so has the median step of a loop; a mean step has its
    interval, if known. A loop counts only if most of its traced steps run the same work. A profiled
    step has no interval because the profiler overhead is unknown.
    """
    if clean is not None and clean.steps:
        summary = summarise([timing.wall_ns for timing in clean.steps])
        assert summary is not None
        low, high = summary.spread.low, summary.spread.high or summary.median
        return Estimate(summary.median, low, high), EagerSide.CLEAN
    if loop is not None and not step.has_unlike_steps:
        ns, spread = loop.main.ns, loop.main.spread
        low, high = (ns, ns) if spread is None else (spread.low, spread.high or ns)
        side = EagerSide.RECORDED_MEDIAN if loop.is_median else EagerSide.RECORDED_MEAN
        return Estimate(ns, low, high), side
    traced_durations = [step.steps[index].duration_ns for index in step.matching]
    return Estimate(float(np.median(traced_durations))), EagerSide.TRACED


def _compute_saving(eager: Estimate, graphed: Estimate) -> Estimate:
    value = eager.value - graphed.value
    bounds = (eager.low, eager.high, graphed.low, graphed.high)
    if None in bounds:
        return Estimate(value)
    eager_low, eager_high, low, high = (bound or 0.0 for bound in bounds)
    return Estimate(value, eager_low - high, eager_high - low)


def _compute_ratio(eager: Estimate, graphed: Estimate) -> Estimate:
    """Return a ratio; relative uncertainties are added in quadrature."""
    value = eager.value / graphed.value
    bounds = (eager.low, eager.high, graphed.low, graphed.high)
    if None in bounds:
        return Estimate(value)
    eager_low, eager_high, low, high = (bound or 0.0 for bound in bounds)
    error_above = math.hypot(eager_high / eager.value - 1, 1 - low / graphed.value)
    error_below = math.hypot(1 - eager_low / eager.value, high / graphed.value - 1)
    return Estimate(value, value * max(1 - error_below, 0.0), value * (1 + error_above))


def _estimate_one_off_costs(
    step: EagerStep, calibration: Calibration, clean: CleanTimings | None
) -> tuple[tuple[str, int], ...]:
    """Estimate the one-off costs. A capture runs the step's Python code once without GPU work; its
    cost is omitted if the trace does not show the launches."""
    cpu = (
        float(np.median([timing.launch_cpu_ns for timing in clean.steps]))
        if clean is not None and clean.steps
        else step.launch_cpu_ns
    )
    nodes = len(step)

    def line(fit: tuple[float, float], count: float) -> int:
        return round(fit[0] + fit[1] * count)

    return (
        *([] if cpu is None else [(CAPTURE, line(calibration.capture, cpu))]),
        ("instantiation", line(calibration.instantiate_ns, nodes)),
        ("first launch beyond a step", line(calibration.first_launch_ns, nodes)),
    )


def _compute_break_even(costs: tuple[tuple[str, int], ...], saving: Estimate) -> Estimate | Missing:
    if all(name != CAPTURE for name, _ in costs):
        return Missing(
            Fact.PREDICTED_BREAK_EVEN,
            "the trace shows no launches, so the cost of the capture is unknown",
        )
    cost = sum(ns for _, ns in costs)
    if saving.value <= 0:
        return Missing(Fact.PREDICTED_BREAK_EVEN, "a replay would save no time")
    replays = max(math.ceil(cost / saving.value), 1)
    if saving.low is None:
        return Estimate(replays)
    maximum = max(math.ceil(cost / saving.low), 1) if saving.low > 0 else None
    return Estimate(replays, max(math.ceil(cost / (saving.high or saving.value)), 1), maximum)


def _make_recommendation(
    eager_ns: float, graphed: Estimate, blockers: tuple[Blocker, ...]
) -> Recommendation:
    if eager_ns < graphed.value:
        return Recommendation.NO
    if eager_ns < SLIGHT_SPEEDUP * graphed.value or eager_ns < (graphed.high or graphed.value):
        return Recommendation.MARGINAL
    stops = any(
        blocker.certain and blocker.rule.severity is Severity.ILLEGAL for blocker in blockers
    )
    return Recommendation.BLOCKED if stops else Recommendation.YES


def _find_unchecked_hazards(trace: Trace, step: EagerStep) -> tuple[NotChecked, ...]:
    checks = {
        NotChecked.CALLS: step.integrity.lost_launches > 0,
        NotChecked.STEPS_DIFFER: len(step.steps) < 2,
        NotChecked.SOURCE_LINES: not len(trace.python),
        NotChecked.OPERATORS: not len(trace.ops),
        NotChecked.MOVED_INPUTS: True,
    }
    return tuple(check for check, applies in checks.items() if applies)


def _find_warnings(
    trace: Trace, step: EagerStep, calibration: Calibration, gpu: str | None, side: EagerSide
) -> tuple[PredictionWarning, ...]:
    has_marks = step.method is not StepMethod.WHOLE
    warnings = {
        PredictionWarning.UNKNOWN_GPU: gpu is None,
        PredictionWarning.OTHER_GPU: gpu is not None and gpu != calibration.gpu.name,
        PredictionWarning.UNMARKED_STEPS: not has_marks,
        PredictionWarning.FEW_STEPS: has_marks and len(step.matching) < _FEW_STEPS,
        PredictionWarning.UNLIKE_STEPS: has_marks and step.has_unlike_steps,
        PredictionWarning.COLLECTIVES: step.waits_for_ranks,
        PredictionWarning.INCOMPLETE_TRACE: bool(trace.info.completeness_problems),
        PredictionWarning.LOST_RECORDS: step.integrity.has_lost_records,
        PredictionWarning.LOST_LAUNCHES: step.integrity.lost_launches > 0,
        PredictionWarning.CLOCKS: step.integrity.clock_drift > 0
        or step.integrity.explain_clock_error() is not None,
        PredictionWarning.GRAPHED_SHARE: step.graphed > 0,
        PredictionWarning.PROFILED_EAGER_STEP: has_marks and side is EagerSide.TRACED,
    }
    return tuple(warning for warning, applies in warnings.items() if applies)
