"""What each tool's number is worth: the same step timed with nothing attached and under each tool.

Nothing is attached to two processes, the first and the last. Their steps together are what the
others are divided by, and how far their medians differ is how far two processes differ by
themselves: only beyond that a tool is said to slow a step down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from graphviz_dash.analysis.sample_statistics import (
    Spread,
    Summary,
    interval,
    resampled_medians,
    summarise,
)
from graphviz_dash.model.observers import Observed, Observer, ObserverPass
from graphviz_dash.model.run import Run
from graphviz_dash.units import format_ns, format_ratio

TITLES: Final = {
    Observer.NONE: "nothing attached",
    Observer.EVENTS: "CUDA events",
    Observer.PROFILER: "torch.profiler",
    Observer.STOPPED: "torch.profiler, stopped",
    Observer.GRAPH_LEVEL: "CUPTI, a record a graph",
    Observer.NODE_LEVEL: "CUPTI, a record a node",
}
"""How each observer is called."""

MEANINGS: Final = {
    Observer.NONE: "two processes, the first and the last",
    Observer.EVENTS: "an event recorded before and after each step",
    Observer.PROFILER: "CPU and CUDA activities, as the traced pass has them",
    Observer.STOPPED: "the same process after its profiler was stopped: CUPTI stays attached",
    Observer.GRAPH_LEVEL: "CUPTI_ACTIVITY_KIND_GRAPH_TRACE: begin and end of each graph launch",
    Observer.NODE_LEVEL: "CUPTI's records of kernels, copies and sets, also within graphs",
}
"""What was attached."""

COLUMNS: Final = {
    "launch": (
        "Launch, CPU",
        "from the step's call to its return; of a graph, its launch",
    ),
    "step": ("Step", "from the step's call to its completed work, the GPU idle before"),
    "interval": ("Step, back to back", "a step among many without a wait between them"),
    "device": ("On the GPU", "the step's work behind a kernel that spins: no launch is in it"),
    "reported": ("The tool says", "GPU time of a step as the tool itself reports it"),
}
"""The measures, in their order: title and what is timed."""


@dataclass(frozen=True)
class Effect:
    """One measure under one observer in ns, and how many times it is that without one.

    ``ratio`` is None where there is nothing to divide by. ``interval`` is its 95% interval, None
    for a single total. ``beyond``: whether it is more than two processes differ by themselves.
    """

    value: float
    summary: Summary | None
    ratio: float | None
    interval: Spread | None
    beyond: bool | None


@dataclass(frozen=True)
class ObserverRow:
    """One observer. ``effects`` by the keys of COLUMNS; ``absent`` says of the others why they are
    not there. ``records`` counts records of work on the GPU for each step, None for an observer
    that makes none."""

    observer: Observer
    source: str | None
    steps: int
    effects: dict[str, Effect]
    absent: dict[str, str]
    records: float | None

    @property
    def title(self) -> str:
        """How the observer is called."""
        return TITLES[self.observer]


@dataclass(frozen=True)
class ObserverEffect:
    """What watching one run's step costs. ``noise``: by measure the larger over the smaller median
    of the two processes to which nothing was attached; 1 where there was one. ``without``: why an
    observer is missing, a line each."""

    run: str
    rows: tuple[ObserverRow, ...]
    noise: dict[str, float]
    without: tuple[str, ...]
    sentence: str

    def row(self, observer: Observer) -> ObserverRow | None:
        """The row of an observer; None where it was not tried."""
        return next((row for row in self.rows if row.observer is observer), None)


_READ: Final[dict[str, Callable[[Observed], Sequence[int]]]] = {
    "launch": lambda one: [step.launch_cpu_ns for step in one.steps],
    "step": lambda one: [step.wall_ns for step in one.steps],
    "interval": lambda one: (one.interval_ns,),
    "device": lambda one: one.device_ns,
    "reported": lambda one: one.reported_ns,
}
# The GPU has no clock that could be read with nothing attached: events are the least that can be.
_BASE: Final = {"device": Observer.EVENTS, "reported": Observer.EVENTS}
_DIVIDED_BY: Final = {"reported": "device"}
_SILENT: Final = {
    (Observer.NONE, "device"): "nothing is attached that could time the GPU",
    (Observer.NONE, "reported"): "nothing is attached that could tell",
    (Observer.STOPPED, "reported"): "a profiler that was stopped tells nothing",
}
_UNREAD: Final = {
    "device": "every step took longer to launch than the kernel before it spun",
    "reported": "it told no times of these steps",
}
"""Why a measure has no value: of an observer that cannot have it, else of one that could."""


def observer_effect(run: Run) -> ObserverEffect | str:
    """What each observer does to the step of ``run``, or why that is not known."""
    found = run.observers
    if found is None:
        return _why_absent(run)
    noise = {measure: _noise(found, measure) for measure in COLUMNS}
    # Of the GPU there is nothing to read without an observer; it differs as the whole step does.
    noise |= dict.fromkeys(_BASE, noise["step"])
    rows = tuple(
        _row(observer, [one for one in found.observed if one.observer is observer], found, noise)
        for observer in Observer
        if any(one.observer is observer for one in found.observed)
    )
    without = tuple(
        f"{TITLES[Observer(name)]}: {absent.reason}"
        for absent in run.manifest.absent
        if (name := absent.fact.removeprefix("observer ")) in {*Observer}
    )
    return ObserverEffect(run.name, rows, noise, without, _sentence(run, rows))


def _why_absent(run: Run) -> str:
    for absent in run.manifest.absent:
        if absent.fact == "observers pass":
            return absent.reason
    if run.manifest.sources:
        return "it was imported, and other programs do not time what they cost"
    if run.recording is not None:
        return "a program that is recorded as it is runs once"
    return "it was collected without --observers"


def _row(
    observer: Observer, series: Sequence[Observed], found: ObserverPass, noise: dict[str, float]
) -> ObserverRow:
    effects = {
        measure: effect
        for measure in COLUMNS
        if (effect := _effect(observer, measure, series, found, noise[measure])) is not None
    }
    steps = sum(len(one.steps) for one in series)
    records = series[0].records
    return ObserverRow(
        observer,
        series[0].source,
        steps,
        effects,
        {
            measure: _SILENT.get((observer, measure), _UNREAD.get(measure, "no step was timed"))
            for measure in COLUMNS
            if measure not in effects
        },
        None if records is None else records / len(series[0].steps),
    )


def _effect(
    observer: Observer,
    measure: str,
    series: Sequence[Observed],
    found: ObserverPass,
    noise: float,
) -> Effect | None:
    values = _values(series, measure)
    summary = summarise(values)
    if summary is None:
        return None
    base_of = _BASE.get(measure, Observer.NONE)
    against = _values(
        [one for one in found.observed if one.observer is base_of],
        _DIVIDED_BY.get(measure, measure),
    )
    base = summarise(against)
    if base is None or not base.median:
        return Effect(summary.median, summary, None, None, None)
    ratio = summary.median / base.median
    itself = observer is base_of and measure not in _DIVIDED_BY
    if min(len(values), len(against)) < 2:
        beyond = None if itself else _apart(ratio, ratio, noise)
        return Effect(summary.median, None, ratio, None, beyond)
    spread = interval(
        resampled_medians(values, 1) / resampled_medians(against, 0), min(len(values), len(against))
    )
    beyond = None if itself else _apart(spread.low, spread.high or spread.low, noise)
    return Effect(summary.median, summary, ratio, spread, beyond)


def _apart(low: float, high: float, noise: float) -> bool:
    return low > noise or high < 1 / noise


def _values(series: Iterable[Observed], measure: str) -> list[int]:
    return [value for one in series for value in _READ[measure](one)]


def _noise(found: ObserverPass, measure: str) -> float:
    medians = [
        float(np.median(values))
        for one in found.observed
        if one.observer is Observer.NONE and (values := _READ[measure](one))
    ]
    if not medians or not min(medians):
        return 1.0
    return max(medians) / min(medians)


def _sentence(run: Run, rows: Sequence[ObserverRow]) -> str:
    alone = next((row for row in rows if row.observer is Observer.NONE), None)
    if alone is None or "step" not in alone.effects:
        return f"{run.name} was not timed with nothing attached."
    what = "launch" if run.graphs else "issue"
    told = [
        f"{row.title} {_times(row.effects['launch'])} to {what} and {_times(row.effects['step'])} "
        "in all"
        for row in rows
        if row.observer not in (Observer.NONE, Observer.STOPPED)
    ]
    begin = (
        f"With nothing attached a step of {run.name} takes {format_ns(alone.effects['step'].value)}"
        f", {format_ns(alone.effects['launch'].value)} of them to {what} it."
    )
    if not told:
        return begin
    return f"{begin} It takes so many times as long under {'; '.join(told)}."


def _times(effect: Effect) -> str:
    if effect.beyond is False:
        return "no longer"
    return format_ratio(effect.ratio)
