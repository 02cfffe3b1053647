"""What each tool's number is worth: the same step timed with nothing attached and under each tool.

Nothing is attached to two processes, the first and the last. Their steps together are what the
others are divided by, and how far their medians differ is how far two processes differ by
themselves: only beyond that a tool is said to slow a step down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.absence import recorded_reason, why_missing
from graphviz_dash.analysis.sample_statistics import (
    Spread,
    Summary,
    interval,
    resampled_medians,
    summarise,
)
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.observers import Observed, Observer, ObserverPass
from graphviz_dash.model.run import Run


class StepMeasure(StrEnum):
    """What is timed of a step under each observer."""

    LAUNCH = "launch"
    STEP = "step"
    INTERVAL = "interval"
    DEVICE = "device"
    REPORTED = "reported"


class MeasureEffect(Struct, frozen=True):
    """One measure under one observer, and how many times it is that without one."""

    value: float
    """The median, or the only value, in ns."""
    summary: Summary | None
    """Median and quartiles in ns; None for a single total."""
    ratio: float | None
    """The median over that without the observer; None where there is nothing to divide by."""
    interval: Spread | None
    """95% interval of the ratio; None for a single total."""
    beyond: bool | None
    """Whether it differs by more than two processes do by themselves; None for what the others are
    divided by, and without a ratio."""


class ObserverRow(Struct, frozen=True):
    """The step under one observer."""

    observer: Observer
    """Who watched."""
    source: str | None
    """The tool and its version; None where nothing was attached."""
    steps: int
    """Steps that were timed, in all of its processes."""
    effects: dict[StepMeasure, MeasureEffect]
    """What was timed."""
    absent: dict[StepMeasure, str]
    """Why each other measure was not."""
    records: float | None
    """Records of work on the GPU for each step; None for an observer that makes none."""


class ObserverEffect(Struct, frozen=True):
    """Profiler overhead on one run's step."""

    run: str
    """Name of the run."""
    launches_graphs: bool
    """Whether its step launches captured graphs."""
    rows: tuple[ObserverRow, ...]
    """A row for each observer that was tried."""
    noise: dict[StepMeasure, float]
    """The larger over the smaller median of the two processes to which nothing was attached, by
    measure; 1 where there was one."""
    without: dict[Observer, str]
    """Why each other observer was not tried, as far as the bundle says."""

    def row(self, observer: Observer) -> ObserverRow | None:
        """The row of an observer; None where it was not tried."""
        return next((row for row in self.rows if row.observer is observer), None)


_READ: Final[dict[StepMeasure, Callable[[Observed], Sequence[int]]]] = {
    StepMeasure.LAUNCH: lambda process: [step.launch_cpu_ns for step in process.steps],
    StepMeasure.STEP: lambda process: [step.wall_ns for step in process.steps],
    StepMeasure.INTERVAL: lambda process: (process.interval_ns,),
    StepMeasure.DEVICE: lambda process: process.device_ns,
    StepMeasure.REPORTED: lambda process: process.reported_ns,
}
# The GPU has no clock that could be read with nothing attached: events are the least that can be.
_BASE: Final = {StepMeasure.DEVICE: Observer.EVENTS, StepMeasure.REPORTED: Observer.EVENTS}
_DIVIDED_BY: Final = {StepMeasure.REPORTED: StepMeasure.DEVICE}
_SILENT: Final = {
    (Observer.NONE, StepMeasure.DEVICE): "nothing is attached that could time the GPU",
    (Observer.NONE, StepMeasure.REPORTED): "no profiler is attached to report it",
    (Observer.STOPPED, StepMeasure.REPORTED): "a stopped profiler records nothing",
}
_UNREAD: Final = {
    StepMeasure.DEVICE: "every step took longer to launch than the kernel before it spun",
    StepMeasure.REPORTED: "it reported no times for these steps",
}
"""Why a measure has no value: of an observer that cannot have it, else of one that could."""


def observer_effect(run: Run) -> ObserverEffect | Missing:
    """What each observer does to the step of ``run``."""
    observers = run.observers
    if observers is None:
        return why_missing(run, Fact.OBSERVERS_PASS)
    noise = {measure: _noise(observers, measure) for measure in StepMeasure}
    # Of the GPU there is nothing to read without an observer; it differs as the whole step does.
    noise |= dict.fromkeys(_BASE, noise[StepMeasure.STEP])
    by_observer: dict[Observer, list[Observed]] = {}
    for process in observers.observed:
        by_observer.setdefault(process.observer, []).append(process)
    rows = tuple(
        _row(observer, by_observer[observer], observers, noise)
        for observer in Observer
        if observer in by_observer
    )
    without = {
        observer: reason
        for observer in Observer
        if (reason := recorded_reason(run, Fact.OBSERVER, observer.value)) is not None
    }
    return ObserverEffect(run.name, bool(run.graphs), rows, noise, without)


def _row(
    observer: Observer,
    series: Sequence[Observed],
    observers: ObserverPass,
    noise: dict[StepMeasure, float],
) -> ObserverRow:
    effects = {
        measure: effect
        for measure in StepMeasure
        if (effect := _effect(observer, measure, series, observers, noise[measure])) is not None
    }
    steps = sum(len(process.steps) for process in series)
    records = series[0].records
    return ObserverRow(
        observer,
        series[0].source,
        steps,
        effects,
        {
            measure: _SILENT.get((observer, measure), _UNREAD.get(measure, "no step was timed"))
            for measure in StepMeasure
            if measure not in effects
        },
        None if records is None else records / len(series[0].steps),
    )


def _effect(
    observer: Observer,
    measure: StepMeasure,
    series: Sequence[Observed],
    observers: ObserverPass,
    noise: float,
) -> MeasureEffect | None:
    values = _values(series, measure)
    summary = summarise(values)
    if summary is None:
        return None
    base_of = _BASE.get(measure, Observer.NONE)
    against = _values(
        [process for process in observers.observed if process.observer is base_of],
        _DIVIDED_BY.get(measure, measure),
    )
    base = summarise(against)
    if base is None or not base.median:
        return MeasureEffect(summary.median, summary, None, None, None)
    ratio = summary.median / base.median
    itself = observer is base_of and measure not in _DIVIDED_BY
    if min(len(values), len(against)) < 2:
        beyond = None if itself else _apart(ratio, ratio, noise)
        return MeasureEffect(summary.median, None, ratio, None, beyond)
    spread = interval(
        resampled_medians(values, 1) / resampled_medians(against, 0), min(len(values), len(against))
    )
    beyond = None if itself else _apart(spread.low, spread.high or spread.low, noise)
    return MeasureEffect(summary.median, summary, ratio, spread, beyond)


def _apart(low: float, high: float, noise: float) -> bool:
    return low > noise or high < 1 / noise


def _values(series: Iterable[Observed], measure: StepMeasure) -> list[int]:
    return [value for process in series for value in _READ[measure](process)]


def _noise(observers: ObserverPass, measure: StepMeasure) -> float:
    medians = [
        float(np.median(values))
        for process in observers.observed
        if process.observer is Observer.NONE and (values := _READ[measure](process))
    ]
    if not medians or not min(medians):
        return 1.0
    return max(medians) / min(medians)
