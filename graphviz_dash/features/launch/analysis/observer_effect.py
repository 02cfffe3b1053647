"""Overhead of profiling tools: the same step timed without tools and with each tool.

The first and the last process are the baseline without tools; their difference is the noise level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.absence import explain_missing, find_recorded_reason
from graphviz_dash.analysis.sample_statistics import (
    Spread,
    Summary,
    compute_interval,
    compute_resampled_medians,
    summarise,
)
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.observers import ObservedSeries, Observer, ObserverPass
from graphviz_dash.model.run import Run


class StepMeasure(StrEnum):
    """Measures of a step for each observer."""

    LAUNCH = "launch"
    STEP = "step"
    INTERVAL = "interval"
    DEVICE = "device"
    REPORTED = "reported"


class MeasureEffect(Struct, frozen=True):
    """One measure with one observer, and its ratio to the measure without."""

    value: float
    """Median or single value, in ns."""
    summary: Summary | None
    """In ns; None for a single total."""
    ratio: float | None
    """To the median without the observer; None without a baseline."""
    interval: Spread | None
    """95% interval of the ratio; None for a single total."""
    is_significant: bool | None
    """The difference exceeds the noise between processes.

    None for the baseline itself and without a ratio.
    """


class ObserverRow(Struct, frozen=True):
    """The step with one observer."""

    observer: Observer
    source: str | None
    """Tool and version; None without a tool."""
    steps: int
    """Timed steps in all processes."""
    effects: dict[StepMeasure, MeasureEffect]
    absent: dict[StepMeasure, str]
    """Reason for each missing measure."""
    records: float | None
    """GPU work records per step; None for an observer without records."""


class ObserverEffect(Struct, frozen=True):
    """Profiler overhead on one run's step."""

    run: str
    launches_graphs: bool
    """True if the step launches captured graphs."""
    rows: tuple[ObserverRow, ...]
    """One row per tested observer."""
    noise: dict[StepMeasure, float]
    """Ratio of the larger to the smaller median of the two processes without tools.

    1 for a single process.
    """
    untested: dict[Observer, str]
    """Reason for each untested observer, if recorded."""

    def get_row(self, observer: Observer) -> ObserverRow | None:
        """Return a row; None if not tested."""
        return next((row for row in self.rows if row.observer is observer), None)


_READERS: Final[dict[StepMeasure, Callable[[ObservedSeries], Sequence[int]]]] = {
    StepMeasure.LAUNCH: lambda process: [step.launch_cpu_ns for step in process.steps],
    StepMeasure.STEP: lambda process: [step.wall_ns for step in process.steps],
    StepMeasure.INTERVAL: lambda process: (process.interval_ns,),
    StepMeasure.DEVICE: lambda process: process.device_ns,
    StepMeasure.REPORTED: lambda process: process.reported_ns,
}
# The GPU has no clock that can be read without a tool: events are the minimum.
_BASE_OBSERVERS: Final = {
    StepMeasure.DEVICE: Observer.EVENTS,
    StepMeasure.REPORTED: Observer.EVENTS,
}
_BASE_MEASURES: Final = {StepMeasure.REPORTED: StepMeasure.DEVICE}
_UNSUPPORTED: Final = {
    (Observer.NONE, StepMeasure.DEVICE): "no tool is attached that can time the GPU",
    (Observer.NONE, StepMeasure.REPORTED): "no profiler is attached",
    (Observer.STOPPED, StepMeasure.REPORTED): "a stopped profiler records nothing",
}
_NOT_MEASURED: Final = {
    StepMeasure.DEVICE: "launching each step took longer than the spin kernel before it",
    StepMeasure.REPORTED: "the tool reported no times for these steps",
}
"""The observer cannot measure the value, or did not."""


def compute_observer_effect(run: Run) -> ObserverEffect | Missing:
    """Measure the effect of each observer on the step of ``run``."""
    observers = run.observers
    if observers is None:
        return explain_missing(run, Fact.OBSERVERS_PASS)
    noise = {measure: _compute_noise(observers, measure) for measure in StepMeasure}
    # Without an observer the GPU time is unknown; its noise is that of the whole step.
    noise |= dict.fromkeys(_BASE_OBSERVERS, noise[StepMeasure.STEP])
    by_observer: dict[Observer, list[ObservedSeries]] = {}
    for process in observers.series:
        by_observer.setdefault(process.observer, []).append(process)
    rows = tuple(
        _build_row(observer, by_observer[observer], observers, noise)
        for observer in Observer
        if observer in by_observer
    )
    untested = {
        observer: reason
        for observer in Observer
        if (reason := find_recorded_reason(run, Fact.OBSERVER, observer.value)) is not None
    }
    return ObserverEffect(run.name, bool(run.graphs), rows, noise, untested)


def _build_row(
    observer: Observer,
    series: Sequence[ObservedSeries],
    observers: ObserverPass,
    noise: dict[StepMeasure, float],
) -> ObserverRow:
    effects = {
        measure: effect
        for measure in StepMeasure
        if (effect := _compute_effect(observer, measure, series, observers, noise[measure]))
        is not None
    }
    steps = sum(len(process.steps) for process in series)
    records = series[0].records
    return ObserverRow(
        observer,
        series[0].source,
        steps,
        effects,
        {
            measure: _UNSUPPORTED.get(
                (observer, measure), _NOT_MEASURED.get(measure, "no step was timed")
            )
            for measure in StepMeasure
            if measure not in effects
        },
        None if records is None else records / len(series[0].steps),
    )


def _compute_effect(
    observer: Observer,
    measure: StepMeasure,
    series: Sequence[ObservedSeries],
    observers: ObserverPass,
    noise: float,
) -> MeasureEffect | None:
    values = _collect_values(series, measure)
    summary = summarise(values)
    if summary is None:
        return None
    base_of = _BASE_OBSERVERS.get(measure, Observer.NONE)
    base_values = _collect_values(
        [process for process in observers.series if process.observer is base_of],
        _BASE_MEASURES.get(measure, measure),
    )
    base = summarise(base_values)
    if base is None or not base.median:
        return MeasureEffect(summary.median, summary, None, None, None)
    ratio = summary.median / base.median
    is_baseline = observer is base_of and measure not in _BASE_MEASURES
    if min(len(values), len(base_values)) < 2:
        beyond = None if is_baseline else _exceeds_noise(ratio, ratio, noise)
        return MeasureEffect(summary.median, None, ratio, None, beyond)
    spread = compute_interval(
        compute_resampled_medians(values, 1) / compute_resampled_medians(base_values, 0),
        min(len(values), len(base_values)),
    )
    beyond = None if is_baseline else _exceeds_noise(spread.low, spread.high or spread.low, noise)
    return MeasureEffect(summary.median, summary, ratio, spread, beyond)


def _exceeds_noise(low: float, high: float, noise: float) -> bool:
    return low > noise or high < 1 / noise


def _collect_values(series: Iterable[ObservedSeries], measure: StepMeasure) -> list[int]:
    return [value for process in series for value in _READERS[measure](process)]


def _compute_noise(observers: ObserverPass, measure: StepMeasure) -> float:
    medians = [
        float(np.median(values))
        for process in observers.series
        if process.observer is Observer.NONE and (values := _READERS[measure](process))
    ]
    if not medians or not min(medians):
        return 1.0
    return max(medians) / min(medians)
