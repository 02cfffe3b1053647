"""Profiler overhead per step, in words."""

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

OBSERVER_MEANINGS: Final = {
    Observer.NONE: "two processes, the first and the last",
    Observer.EVENTS: "an event recorded before and after each step",
    Observer.PROFILER: "CPU and CUDA activities, as the traced pass has them",
    Observer.STOPPED: "the same process after its profiler was stopped: CUPTI stays attached",
    Observer.GRAPH_LEVEL: "CUPTI_ACTIVITY_KIND_GRAPH_TRACE: start and end of each graph launch",
    Observer.NODE_LEVEL: "CUPTI's records of kernels, memcpys and memsets, also within graphs",
}
"""Attached tool or method of each observer."""

MEASURE_TITLES: Final = {
    StepMeasure.LAUNCH: (
        "Launch, CPU",
        "from the step's call to its return; for a graph, its launch",
    ),
    StepMeasure.STEP: ("Step", "from the step's call to completion, with an idle GPU before"),
    StepMeasure.INTERVAL: ("Step, back to back", "a step among many without a wait between them"),
    StepMeasure.DEVICE: (
        "On the GPU",
        "the step's work queued behind a spinning kernel, without launches",
    ),
    StepMeasure.REPORTED: ("Reported by the tool", "GPU time per step as the tool reports it"),
}
"""Title and definition, in display order."""


def describe_observer_effect(effect: ObserverEffect) -> str:
    """Describe the unobserved time and the slowdown under each observer."""
    unobserved = effect.get_row(Observer.NONE)
    if unobserved is None or StepMeasure.STEP not in unobserved.effects:
        return f"{effect.run} was not timed with nothing attached."
    action = "launch" if effect.launches_graphs else "issue"
    slowdowns = [
        f"under {OBSERVER_TITLES[row.observer]}, it takes "
        f"{_format_slowdown(row.effects[StepMeasure.LAUNCH])} to {action} and "
        f"{_format_slowdown(row.effects[StepMeasure.STEP])} in total"
        for row in effect.rows
        if row.observer not in (Observer.NONE, Observer.STOPPED)
    ]
    summary = (
        f"With nothing attached, a step of {effect.run} takes "
        f"{format_ns(unobserved.effects[StepMeasure.STEP].value)}, "
        f"{format_ns(unobserved.effects[StepMeasure.LAUNCH].value)} of them to {action} it."
    )
    if not slowdowns:
        return summary
    return f"{summary} In comparison, {'; '.join(slowdowns)}."


def _format_slowdown(effect: MeasureEffect) -> str:
    if effect.is_significant is False:
        return "as long"
    return f"{format_ratio(effect.ratio)} as long"


def list_missing_observers(effect: ObserverEffect) -> tuple[str, ...]:
    """List reasons: "CUDA events: the driver has none"."""
    return tuple(
        f"{OBSERVER_TITLES[observer]}: {reason}" for observer, reason in effect.untested.items()
    )
