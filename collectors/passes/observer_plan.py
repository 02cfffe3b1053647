"""Which observers a step is timed under, and in which order; imports no torch."""

from __future__ import annotations

import importlib.util
from typing import Final

from graphviz_dash.model.absence import Fact, manifest_name
from graphviz_dash.model.observers import Observer
from graphviz_dash.model.run import Absent, ExecutionMode

ABOUT: Final = {
    Observer.NONE: "nothing attached",
    Observer.EVENTS: "CUDA events",
    Observer.PROFILER: "torch.profiler",
    Observer.GRAPH_LEVEL: "CUPTI, by graph",
    Observer.NODE_LEVEL: "CUPTI, by node",
}
"""The observers that have a process of their own, in words."""


def observers_of(mode: ExecutionMode) -> tuple[tuple[Observer, ...], tuple[Absent, ...]]:
    """The observers of the processes for one mode in their order, and which there are none of.

    The first and the last process have nothing attached: how far these two differ is how far two
    processes differ by themselves.
    """
    absent = []
    wanted = [Observer.NONE, Observer.EVENTS, Observer.PROFILER]
    if not mode.captures_graphs:
        fact = manifest_name(Fact.OBSERVER, Observer.GRAPH_LEVEL.value)
        absent.append(Absent(fact, f"mode {mode.value} launches no graph"))
    else:
        wanted.append(Observer.GRAPH_LEVEL)
    if importlib.util.find_spec("cupti") is None:
        fact = manifest_name(Fact.OBSERVER, Observer.NODE_LEVEL.value)
        absent.append(Absent(fact, "cupti-python was not installed"))
    else:
        wanted.append(Observer.NODE_LEVEL)
    return (*wanted, Observer.NONE), tuple(absent)
