"""Choose the observers for timing a step, and their order. Imports no torch."""

from __future__ import annotations

import importlib.util
from typing import Final

from graphviz_dash.model.absence import Fact, format_manifest_name
from graphviz_dash.model.observers import Observer
from graphviz_dash.model.run import Absent, ExecutionMode

OBSERVER_LABELS: Final = {
    Observer.NONE: "nothing attached",
    Observer.EVENTS: "CUDA events",
    Observer.PROFILER: "torch.profiler",
    Observer.GRAPH_LEVEL: "CUPTI, by graph",
    Observer.NODE_LEVEL: "CUPTI, by node",
}


def plan_observers(mode: ExecutionMode) -> tuple[tuple[Observer, ...], tuple[Absent, ...]]:
    """Return the observers for a mode in order, and the absent ones.

    The first and last process have no observer, to show the variation between processes.
    """
    absent = []
    planned = [Observer.NONE, Observer.EVENTS, Observer.PROFILER]
    if not mode.captures_graphs:
        fact = format_manifest_name(Fact.OBSERVER, Observer.GRAPH_LEVEL.value)
        absent.append(Absent(fact, f"mode {mode.value} launches no graph"))
    else:
        planned.append(Observer.GRAPH_LEVEL)
    if importlib.util.find_spec("cupti") is None:
        fact = format_manifest_name(Fact.OBSERVER, Observer.NODE_LEVEL.value)
        absent.append(Absent(fact, "cupti-python was not installed"))
    else:
        planned.append(Observer.NODE_LEVEL)
    return (*planned, Observer.NONE), tuple(absent)
