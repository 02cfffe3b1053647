"""Which parts of an eager step are worth a graph of their own: for each module its share of the
eager step, its work, and what a graph of it alone would take.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphviz_dash.analysis.arrays import Floats
from graphviz_dash.analysis.prediction.capture_blockers import Blocker
from graphviz_dash.analysis.prediction.eager_step import EagerStep
from graphviz_dash.analysis.prediction.replay_model import ReplayTerm, item_features
from graphviz_dash.analysis.prediction.step_modules import ItemModules


@dataclass(frozen=True)
class ModulePrediction:
    """What a graph of one module alone would take; times in ns for each step."""

    name: str
    """Name of the module; "" for the work that lies in none."""
    items: int
    """Pieces of work."""
    kernels: int
    """How many of these are kernels."""
    eager_ns: float
    """Its share of the eager step: its work, and the idle time of the GPU before each piece of it.
    The shares add up to the step."""
    busy_ns: float
    """Its work alone."""
    graphs: int
    """How many graphs it would be: forward and backward one each."""
    graphed_ns: float
    """What these take, launches included."""
    blockers: int
    """Certain findings inside it that keep it from being captured."""

    @property
    def saving_ns(self) -> float:
        """What a graph of this part alone saves in each step; negative where it costs more."""
        return self.eager_ns - self.graphed_ns


@dataclass(frozen=True)
class ModulePredictions:
    """The modules of a step, and ``by``, what the trace names them by."""

    by: str
    modules: tuple[ModulePrediction, ...]


def predict_modules(
    step: EagerStep,
    parts: ItemModules,
    exclusive: Floats,
    eager_ns: float,
    terms: dict[str, float],
    multiprocessors: int,
    blockers: tuple[Blocker, ...],
) -> ModulePredictions:
    """The parts of ``step``, the largest saving first; what lies in none comes last.

    ``exclusive`` (items,) is what each item adds to the busy time. Idle time is scaled so that all
    adds up to ``eager_ns``: where that is a clean step, the profiler's share of it goes.
    """
    order = np.argsort(step.begin, kind="stable")
    reach = np.concatenate(([0], np.maximum.accumulate((step.begin + step.duration)[order])[:-1]))
    idle = np.zeros(len(step))
    idle[order] = np.maximum(step.begin[order] - np.maximum(reach, 0), 0)
    left = max(eager_ns - float(exclusive.sum()), 0.0)
    idle *= left / idle.sum() if idle.sum() else 0.0
    cost = np.zeros(len(step))
    for term, counts in item_features(step, multiprocessors).items():
        cost += counts * terms[term]
    predictions = []
    names = np.array(parts.names, dtype=object)
    for name in dict.fromkeys(parts.names):
        mine = np.flatnonzero(names == name)
        runs = int(np.count_nonzero(np.diff(mine) > 1)) + 1
        launches = runs * terms[ReplayTerm.FIXED]
        predictions.append(
            ModulePrediction(
                name=name,
                items=len(mine),
                kernels=sum(step.kind[item] == "kernel" for item in mine.tolist()),
                eager_ns=float(exclusive[mine].sum() + idle[mine].sum()),
                busy_ns=float(exclusive[mine].sum()),
                graphs=runs,
                graphed_ns=float(exclusive[mine].sum() + cost[mine].sum() + launches),
                blockers=sum(
                    blocker.certain and blocker.module is not None and _inside(blocker.module, name)
                    for blocker in blockers
                ),
            )
        )
    predictions.sort(key=lambda prediction: (not prediction.name, -prediction.saving_ns))
    return ModulePredictions(parts.by, tuple(predictions))


def _inside(module: str, part: str) -> bool:
    return bool(part) and (module == part or module.startswith(f"{part}."))
