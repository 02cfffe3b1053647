"""Profiler overhead on a step, in words."""

from __future__ import annotations

from typing import Final

from graphviz_dash.features.launch.analysis.observer_effect import (
    MeasureEffect,
    ObserverEffect,
    StepMeasure,
)
from graphviz_dash.model.observers import Observer
from graphviz_dash.units import format_ns, format_ratio

OBSERVER_TITLES: Final = {
    Observer.NONE: "nothing attached",
    Observer.EVENTS: "CUDA events",
    Observer.PROFILER: "torch.profiler",
    Observer.STOPPED: "torch.profiler, stopped",
    Observer.GRAPH_LEVEL: "CUPTI, a record per graph",
    Observer.NODE_LEVEL: "CUPTI, a record per node",
}
"""How each observer is called."""

OBSERVER_MEANINGS: Final = {
    Observer.NONE: "two processes, the first and the last",
    Observer.EVENTS: "an event recorded before and after each step",
    Observer.PROFILER: "CPU and CUDA activities, as the traced pass has them",
    Observer.STOPPED: "the same process after its profiler was stopped: CUPTI stays attached",
    Observer.GRAPH_LEVEL: "CUPTI_ACTIVITY_KIND_GRAPH_TRACE: begin and end of each graph launch",
    Observer.NODE_LEVEL: "CUPTI's records of kernels, memcpys and memsets, also within graphs",
}
"""What was attached."""

MEASURE_TITLES: Final = {
    StepMeasure.LAUNCH: (
        "Launch, CPU",
        "from the step's call to its return; of a graph, its launch",
    ),
    StepMeasure.STEP: ("Step", "from the step's call to its completed work, the GPU idle before"),
    StepMeasure.INTERVAL: ("Step, back to back", "a step among many without a wait between them"),
    StepMeasure.DEVICE: (
        "On the GPU",
        "the step's work behind a kernel that spins: no launch is in it",
    ),
    StepMeasure.REPORTED: ("The tool says", "GPU time of a step as the tool itself reports it"),
}
"""The measures, in their order: title and what is timed."""


def effect_sentence(effect: ObserverEffect) -> str:
    """How long a step takes with nothing attached, and how many times that under each observer."""
    alone = effect.row(Observer.NONE)
    if alone is None or StepMeasure.STEP not in alone.effects:
        return f"{effect.run} was not timed with nothing attached."
    what = "launch" if effect.launches_graphs else "issue"
    slowdowns = [
        f"under {OBSERVER_TITLES[row.observer]} it takes {_times(row.effects[StepMeasure.LAUNCH])} "
        f"to {what} and {_times(row.effects[StepMeasure.STEP])} in all"
        for row in effect.rows
        if row.observer not in (Observer.NONE, Observer.STOPPED)
    ]
    begin = (
        f"With nothing attached a step of {effect.run} takes "
        f"{format_ns(alone.effects[StepMeasure.STEP].value)}, "
        f"{format_ns(alone.effects[StepMeasure.LAUNCH].value)} of them to {what} it."
    )
    if not slowdowns:
        return begin
    return f"{begin} Beside that, {'; '.join(slowdowns)}."


def _times(effect: MeasureEffect) -> str:
    if effect.beyond is False:
        return "as long"
    return f"{format_ratio(effect.ratio)} as long"


def missing_observers(effect: ObserverEffect) -> tuple[str, ...]:
    """Each observer that was not tried, and why: "CUDA events: the driver has none"."""
    return tuple(
        f"{OBSERVER_TITLES[observer]}: {reason}" for observer, reason in effect.without.items()
    )
