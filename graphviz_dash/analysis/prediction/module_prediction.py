"""Predicted gain from a separate graph for each module of an eager step.

It covers the module's share of the eager step, its work, and the time of a graph of it alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats
from graphviz_dash.analysis.prediction.capture_blockers import Blocker
from graphviz_dash.analysis.prediction.eager_step import EagerStep, compute_exclusive_busy_ns
from graphviz_dash.analysis.prediction.replay_model import ReplayTerm, compute_item_features
from graphviz_dash.analysis.prediction.step_modules import find_item_modules
from graphviz_dash.model.absence import Missing

if TYPE_CHECKING:
    from graphviz_dash.model.calibration import Calibration
    from graphviz_dash.model.trace import Trace


class ModulePrediction(Struct, frozen=True):
    """Prediction for a graph of one module alone, in ns per step."""

    name: str
    """Module name; "" for work outside all modules."""
    items: int
    """Number of pieces of work."""
    kernels: int
    """Number of kernels among them."""
    eager_ns: float
    """Share of the eager step: its work, and the launching before each piece of it with an idle
    GPU.

    The shares add up to the step without the idle time that a graph does not remove.
    """
    busy_ns: float
    """Time of its work alone."""
    graphs: int
    """Number of graphs: one each for forward and backward."""
    graphed_ns: float
    """Predicted time of these graphs, including launches."""
    blockers: int
    """Number of certain capture blockers inside it."""

    @property
    def saving_ns(self) -> float:
        """Time saved per step by a graph of this part alone; negative if it costs more."""
        return self.eager_ns - self.graphed_ns


class ModulePredictions(Struct, frozen=True):
    """The modules of a step; ``source`` is the source of the module names."""

    source: str
    modules: tuple[ModulePrediction, ...]


class EagerSpan(Struct, frozen=True):
    """The part of the eager step that is divided among modules.

    ``ns`` is its length; ``launching`` is the launch time before each item in ns, shape
    (items,).
    """

    ns: float
    launching: Floats


def predict_modules(
    trace: Trace,
    step: EagerStep,
    eager: EagerSpan,
    calibration: Calibration,
    blockers: tuple[Blocker, ...],
) -> ModulePredictions | Missing:
    """Return predictions for the parts of ``step``, largest saving first, or why there are none.

    Work outside all parts comes last. Launch times are scaled so that the parts add up to the
    eager step. If that step is clean, this removes the profiler overhead.
    """
    parts = find_item_modules(trace, step)
    if isinstance(parts, Missing):
        return parts
    exclusive = compute_exclusive_busy_ns(step).astype(np.float64)
    terms, multiprocessors = calibration.terms, calibration.gpu.multiprocessors
    idle_total = max(eager.ns - float(exclusive.sum()), 0.0)
    launching = eager.launching.sum()
    idle = eager.launching * (idle_total / launching if launching else 0.0)
    cost = np.zeros(len(step))
    for term, counts in compute_item_features(step, multiprocessors).items():
        cost += counts * terms[term]
    predictions = []
    names = np.array(parts.names, dtype=object)
    for name in dict.fromkeys(parts.names):
        indices = np.flatnonzero(names == name)
        segments = int(np.count_nonzero(np.diff(indices) > 1)) + 1
        launches = segments * terms[ReplayTerm.FIXED]
        predictions.append(
            ModulePrediction(
                name=name,
                items=len(indices),
                kernels=sum(step.kind[item] == "kernel" for item in indices.tolist()),
                eager_ns=float(exclusive[indices].sum() + idle[indices].sum()),
                busy_ns=float(exclusive[indices].sum()),
                graphs=segments,
                graphed_ns=float(exclusive[indices].sum() + cost[indices].sum() + launches),
                blockers=sum(
                    blocker.certain
                    and blocker.module is not None
                    and _is_inside(blocker.module, name)
                    for blocker in blockers
                ),
            )
        )
    predictions.sort(key=lambda prediction: (not prediction.name, -prediction.saving_ns))
    return ModulePredictions(parts.source, tuple(predictions))


def _is_inside(module: str, part: str) -> bool:
    return bool(part) and (module == part or module.startswith(f"{part}."))
