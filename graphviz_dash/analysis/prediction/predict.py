"""A verdict on CUDA graphs from an eager trace alone: how long the step would take as one graph,
what that gains, when it is paid back, what is in the way, and which parts are worth it by
themselves.

Page, command line and the comparison with a measured graph all take the result of :func:`predict`.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.metrics.thresholds import SLIGHT_SPEEDUP
from graphviz_dash.analysis.prediction.capture_blockers import Blocker, capture_blockers
from graphviz_dash.analysis.prediction.eager_step import EagerStep, eager_step
from graphviz_dash.analysis.prediction.idle_time import IdleTime, idle_time
from graphviz_dash.analysis.prediction.item_origins import ItemOrigins, item_origins
from graphviz_dash.analysis.prediction.module_prediction import (
    EagerSpan,
    ModulePredictions,
    predict_modules,
)
from graphviz_dash.analysis.prediction.replay_model import ReplayTime, replay_time
from graphviz_dash.analysis.prediction.uncertainty import Estimate, half_widths
from graphviz_dash.analysis.sample_statistics import summarise
from graphviz_dash.analysis.trace.steps import Step, StepMethod
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.doctor import Severity

if TYPE_CHECKING:
    from graphviz_dash.model.calibration import Calibration
    from graphviz_dash.model.timings import CleanTimings
    from graphviz_dash.model.trace import Trace

_FEW: Final = 3


class EagerSide(StrEnum):
    """What a prediction is held against."""

    CLEAN = "clean"
    """Steps timed with no profiler attached."""
    RECORDED = "in its own loop"
    """Steps of the program's own loop as it was recorded, with no profiler attached."""
    TRACED = "under the profiler"
    """The steps of the trace itself, which the profiler lengthens."""


class Recommendation(StrEnum):
    """The verdict in a word."""

    YES = "yes"
    HARDLY = "hardly"
    NO = "no"
    BLOCKED = "not as it is"
    NO_STEPS = "no steps"
    """The trace marks no steps, so that there is none to judge."""


class PredictionWarning(StrEnum):
    """What makes a prediction weak, in the order in which it is shown."""

    UNKNOWN_GPU = "unknown GPU"
    """The trace does not name its GPU."""
    OTHER_GPU = "other GPU"
    """The trace is of another GPU than the calibration."""
    UNMARKED_STEPS = "unmarked steps"
    """The trace marks no steps: all of it is counted together."""
    FEW_STEPS = "few steps"
    """Less than three traced steps ran the same work."""
    COLLECTIVES = "collectives"
    """Collectives hold the time in which they wait for other ranks."""
    INCOMPLETE_TRACE = "incomplete trace"
    PROFILED_EAGER_STEP = "profiled eager step"
    """The eager side is the step under the profiler."""


class NotChecked(StrEnum):
    """What a trace cannot tell about a capture, in the order in which it is shown."""

    STEPS_DIFFER = "steps differ"
    """One step alone does not show whether steps differ."""
    SOURCE_LINES = "source lines"
    """The trace has no Python stacks."""
    OPERATORS = "operators"
    """The trace was recorded without the CPU's activities."""
    MOVED_INPUTS = "moved inputs"
    """Whether inputs move between steps."""


class Prediction(Struct, frozen=True):
    """What is predicted for the step of a trace; times in ns."""

    source: str
    """Name of the trace's file."""
    calibration: Calibration
    """What the prediction is calibrated by."""
    step: EagerStep
    """The typical eager step."""
    origins: ItemOrigins
    """For each of its items what launched it; None where the trace does not tell."""
    replay: ReplayTime
    """Its replay as one graph, part by part."""
    step_ns: Estimate
    """The graphed step from call to completion."""
    interval_ns: Estimate
    """The graphed step back to back."""
    eager_ns: float
    """The eager step, as ``eager_side`` says."""
    eager_side: EagerSide
    """What the eager step is measured by."""
    idle: IdleTime
    """What the CPU did while the GPU was idle in the traced steps of about median length, or in all
    of them where the eager side is a loop that was timed as a whole."""
    kept_ns: float
    """Idle time of the eager step that a graph does not remove: its share of the traced steps' idle
    time, of the eager step's."""
    speedup: Estimate | Missing
    """Eager step over graphed step and what remains of the idle time; without an interval against a
    step under the profiler, missing where no steps are marked."""
    saving_ns: Estimate | Missing
    """What a replay saves, as ``speedup``."""
    one_off: tuple[tuple[str, int], ...]
    """What a graph costs once, by name."""
    break_even: Estimate | Missing
    """The replays that pay that back; missing where none do."""
    recommendation: Recommendation
    """Whether a graph of the step is worth it."""
    blockers: tuple[Blocker, ...]
    """What would stop a capture."""
    not_checked: tuple[NotChecked, ...]
    """What this trace cannot tell about a capture."""
    modules: ModulePredictions | Missing
    """The modules alone, the largest saving first; missing where the trace names none."""
    warnings: tuple[PredictionWarning, ...]
    """What makes the prediction weak."""
    gpu: str | None
    """Name of the trace's GPU; None where nothing names it."""
    incomplete: str | None
    """What the trace lacks at first; None for a whole one."""

    @property
    def graphed(self) -> Estimate:
        """The graphed step that the speedup is of, with what remains of the idle time: back to back
        where the eager side is a loop."""
        return _later(self.interval_ns if self.looped else self.step_ns, self.kept_ns)

    @property
    def looped(self) -> bool:
        """Whether the eager side are steps of a loop that need not wait between them."""
        return _looped(self.eager_side, self.step)

    @property
    def is_of_whole_trace(self) -> bool:
        """Whether the trace marks no steps: what is counted is all of it, and has no speedup."""
        return self.step.method is StepMethod.WHOLE

    @property
    def waits_for_ranks(self) -> bool:
        """Whether the step has collectives, whose traced time depends on other ranks."""
        return self.step.waits_for_ranks

    @property
    def one_off_ns(self) -> int:
        """What the graph costs once."""
        return sum(ns for _, ns in self.one_off)

    @property
    def idle_ns(self) -> float:
        """The time of the eager step in which the GPU does nothing."""
        return max(self.eager_ns - self.step.busy_ns, 0.0)


def predict(
    trace: Trace,
    calibration: Calibration,
    clean: CleanTimings | None = None,
    gpu: str | None = None,
    traced_steps: tuple[Step, ...] | None = None,
    loop_ns: float | None = None,
) -> Prediction | Missing:
    """The prediction for the typical step of an eager ``trace``, or why there is none.

    ``clean`` are timings of the same eager step with no profiler attached: the eager side is theirs
    then, else ``loop_ns``, a step of the program's own loop without one, else that of the trace.
    ``gpu`` is the name of the trace's GPU where its own does not say.
    ``traced_steps`` are the steps of the trace, where they are known already.
    """
    step = eager_step(trace, traced_steps)
    if isinstance(step, Missing):
        return step
    return predict_step(trace, step, calibration, clean, gpu, loop_ns)


def predict_step(
    trace: Trace,
    step: EagerStep,
    calibration: Calibration,
    clean: CleanTimings | None,
    gpu: str | None,
    loop_ns: float | None = None,
) -> Prediction:
    """As :func:`predict`, for a typical step that is known already."""
    terms, multiprocessors = calibration.terms, calibration.gpu.multiprocessors
    replay = replay_time(step, terms, multiprocessors)
    names = trace.info.device_names
    gpu = gpu or (names[0] if names else None)
    marked = step.method is not StepMethod.WHOLE
    half, interval_half = half_widths(
        step, replay.total_ns, calibration.errors, other_gpu=gpu != calibration.gpu.name
    )
    step_ns = _around(replay.total_ns, half if marked else None)
    interval_ns = _around(
        back_to_back_ns(replay, calibration, len(step)), interval_half if marked else None
    )
    eager, side = _eager_side(step, clean, loop_ns)
    # A loop was timed as a whole: what now and then comes between is in its mean.
    idle = idle_time(trace, step, mean=side is EagerSide.RECORDED)
    kept = idle.kept_share * max(eager.value - step.busy_ns, 0.0)
    graphed = _later(interval_ns if _looped(side, step) else step_ns, kept)
    speedup, saving = _ratio(eager, graphed), _saving(eager, graphed)
    blockers = capture_blockers(trace, step)
    one_off = _one_off(step, calibration, clean)
    no_steps = Missing(Fact.TRACED_STEPS, "the trace marks no steps: it has no time of a step")
    return Prediction(
        source=trace.info.source,
        calibration=calibration,
        step=step,
        origins=item_origins(trace, step),
        replay=replay,
        step_ns=step_ns,
        interval_ns=interval_ns,
        eager_ns=eager.value,
        eager_side=side,
        idle=idle,
        kept_ns=kept,
        speedup=speedup if marked else no_steps,
        saving_ns=saving if marked else no_steps,
        one_off=one_off,
        break_even=_break_even(sum(ns for _, ns in one_off), saving) if marked else no_steps,
        recommendation=(
            _recommendation(eager.value, graphed, blockers) if marked else Recommendation.NO_STEPS
        ),
        blockers=blockers,
        not_checked=_not_checked(trace, step),
        modules=predict_modules(
            trace, step, EagerSpan(eager.value - kept, idle.launching), calibration, blockers
        ),
        warnings=_warnings(trace, step, calibration, gpu, side),
        gpu=gpu,
        incomplete=trace.info.incomplete[0].text if trace.info.incomplete else None,
    )


def back_to_back_ns(replay: ReplayTime, calibration: Calibration, nodes: int) -> float:
    """The graphed step back to back: launches lie beside the work, unless they take longer."""
    device = replay.total_ns - replay.fixed_ns - replay.random_ns + calibration.interval_fixed_ns
    fixed, each = calibration.replay_cpu_ns
    return max(device + replay.random_ns, fixed + each * nodes)


def _around(value: float, half: float | None) -> Estimate:
    if half is None:
        return Estimate(round(value))
    return Estimate(round(value), round(value * (1 - half)), round(value * (1 + half)))


def _later(estimate: Estimate, by: float) -> Estimate:
    low, high = estimate.low, estimate.high
    return Estimate(
        estimate.value + by,
        None if low is None else low + by,
        None if high is None else high + by,
    )


def _looped(side: EagerSide, step: EagerStep) -> bool:
    synchronised = (StepMethod.MARKED, StepMethod.WHOLE)
    return side is EagerSide.RECORDED or (
        side is EagerSide.TRACED and step.method not in synchronised
    )


def _eager_side(
    step: EagerStep, clean: CleanTimings | None, loop_ns: float | None
) -> tuple[Estimate, EagerSide]:
    """The eager step: clean with its quartiles where there are clean timings, never a mixture. A
    loop was timed as a whole, and has none. One under the profiler has no interval: what the
    profiler adds is in it, and is not known."""
    if clean is not None and clean.steps:
        summary = summarise([timing.wall_ns for timing in clean.steps])
        assert summary is not None
        low, high = summary.spread.low, summary.spread.high or summary.median
        return Estimate(summary.median, low, high), EagerSide.CLEAN
    if loop_ns is not None:
        return Estimate(loop_ns, loop_ns, loop_ns), EagerSide.RECORDED
    traced = [step.steps[index].duration_ns for index in step.matching]
    return Estimate(float(np.median(traced))), EagerSide.TRACED


def _saving(eager: Estimate, graphed: Estimate) -> Estimate:
    value = eager.value - graphed.value
    bounds = (eager.low, eager.high, graphed.low, graphed.high)
    if None in bounds:
        return Estimate(value)
    eager_low, eager_high, low, high = (bound or 0.0 for bound in bounds)
    return Estimate(value, eager_low - high, eager_high - low)


def _ratio(eager: Estimate, graphed: Estimate) -> Estimate:
    """A ratio with its interval: relative uncertainties of both sides, added in quadrature."""
    value = eager.value / graphed.value
    bounds = (eager.low, eager.high, graphed.low, graphed.high)
    if None in bounds:
        return Estimate(value)
    eager_low, eager_high, low, high = (bound or 0.0 for bound in bounds)
    above = math.hypot(eager_high / eager.value - 1, 1 - low / graphed.value)
    below = math.hypot(1 - eager_low / eager.value, high / graphed.value - 1)
    return Estimate(value, value * max(1 - below, 0.0), value * (1 + above))


def _one_off(
    step: EagerStep, calibration: Calibration, clean: CleanTimings | None
) -> tuple[tuple[str, int], ...]:
    """What the graph costs once. A capture runs the step's Python once without its work."""
    cpu = (
        float(np.median([timing.launch_cpu_ns for timing in clean.steps]))
        if clean is not None and clean.steps
        else step.launch_cpu_ns
    )
    nodes = len(step)

    def line(fit: tuple[float, float], count: float) -> int:
        return round(fit[0] + fit[1] * count)

    return (
        ("capture", line(calibration.capture, cpu)),
        ("instantiation", line(calibration.instantiate_ns, nodes)),
        ("first launch beyond a step", line(calibration.first_launch_ns, nodes)),
    )


def _break_even(cost: float, saving: Estimate) -> Estimate | Missing:
    if saving.value <= 0:
        return Missing(Fact.PREDICTED_BREAK_EVEN, "a replay would save nothing")
    replays = max(math.ceil(cost / saving.value), 1)
    if saving.low is None:
        return Estimate(replays)
    most = max(math.ceil(cost / saving.low), 1) if saving.low > 0 else None
    return Estimate(replays, max(math.ceil(cost / (saving.high or saving.value)), 1), most)


def _recommendation(
    eager_ns: float, graphed: Estimate, blockers: tuple[Blocker, ...]
) -> Recommendation:
    """By the eager step against the interval of the graphed one."""
    if eager_ns < graphed.value:
        return Recommendation.NO
    if eager_ns < SLIGHT_SPEEDUP * graphed.value or eager_ns < (graphed.high or graphed.value):
        return Recommendation.HARDLY
    stops = any(
        blocker.certain and blocker.rule.severity is Severity.ILLEGAL for blocker in blockers
    )
    return Recommendation.BLOCKED if stops else Recommendation.YES


def _not_checked(trace: Trace, step: EagerStep) -> tuple[NotChecked, ...]:
    checks = {
        NotChecked.STEPS_DIFFER: len(step.steps) < 2,
        NotChecked.SOURCE_LINES: not len(trace.python),
        NotChecked.OPERATORS: not len(trace.ops),
        NotChecked.MOVED_INPUTS: True,
    }
    return tuple(check for check, applies in checks.items() if applies)


def _warnings(
    trace: Trace, step: EagerStep, calibration: Calibration, gpu: str | None, side: EagerSide
) -> tuple[PredictionWarning, ...]:
    marked = step.method is not StepMethod.WHOLE
    warnings = {
        PredictionWarning.UNKNOWN_GPU: gpu is None,
        PredictionWarning.OTHER_GPU: gpu is not None and gpu != calibration.gpu.name,
        PredictionWarning.UNMARKED_STEPS: not marked,
        PredictionWarning.FEW_STEPS: marked and len(step.matching) < _FEW,
        PredictionWarning.COLLECTIVES: step.waits_for_ranks,
        PredictionWarning.INCOMPLETE_TRACE: bool(trace.info.incomplete),
        PredictionWarning.PROFILED_EAGER_STEP: marked and side is EagerSide.TRACED,
    }
    return tuple(warning for warning, applies in warnings.items() if applies)
