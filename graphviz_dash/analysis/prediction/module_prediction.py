"""Which parts of an eager step are worth a graph of their own: for each module its share of the
eager step, its work, and what a graph of it alone would take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats
from graphviz_dash.analysis.prediction.capture_blockers import Blocker
from graphviz_dash.analysis.prediction.eager_step import EagerStep, exclusive_busy_ns
from graphviz_dash.analysis.prediction.replay_model import ReplayTerm, item_features
from graphviz_dash.analysis.prediction.step_modules import item_modules
from graphviz_dash.model.absence import Missing

if TYPE_CHECKING:
    from graphviz_dash.model.calibration import Calibration
    from graphviz_dash.model.trace import Trace


class ModulePrediction(Struct, frozen=True):
    """What a graph of one module alone would take; times in ns for each step."""

    name: str
    """Name of the module; "" for the work that lies in none."""
    items: int
    """Pieces of work."""
    kernels: int
    """How many of these are kernels."""
    eager_ns: float
    """Its share of the eager step: its work, and the launching before each piece of it in which the
    GPU is idle. The shares add up to the step, without the idle time that a graph does not
    remove."""
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


class ModulePredictions(Struct, frozen=True):
    """The modules of a step, and ``by``, what the trace names them by."""

    by: str
    modules: tuple[ModulePrediction, ...]


class EagerSpan(Struct, frozen=True):
    """What of the eager step the modules divide: ``ns``, and how it is spread, ``launching`` before
    each item, shape (items,), in ns."""

    ns: float
    launching: Floats


def predict_modules(
    trace: Trace,
    step: EagerStep,
    eager: EagerSpan,
    calibration: Calibration,
    blockers: tuple[Blocker, ...],
) -> ModulePredictions | Missing:
    """The parts of ``step``, the largest saving first, or why there are none; what lies in none
    comes last.

    The launching is scaled so that all adds up to the eager step: where that is a clean one, the
    profiler's share of it goes.
    """
    parts = item_modules(trace, step)
    if isinstance(parts, Missing):
        return parts
    exclusive = exclusive_busy_ns(step).astype(np.float64)
    terms, multiprocessors = calibration.terms, calibration.gpu.multiprocessors
    left = max(eager.ns - float(exclusive.sum()), 0.0)
    launching = eager.launching.sum()
    idle = eager.launching * (left / launching if launching else 0.0)
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
