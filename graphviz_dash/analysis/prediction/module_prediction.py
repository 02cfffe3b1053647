"""Predicted gain from a separate graph for each module of an eager step.

The first available source is used: the collector's ranges around each module, the module frames
recorded with Python stacks, or the program's record_function ranges. Backward work belongs to the
module of its forward operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints, get_column, get_threads
from graphviz_dash.analysis.attribution.origins import (
    Frames,
    NodeOrigin,
    Ops,
    OriginResolver,
    select_near,
)
from graphviz_dash.analysis.prediction.capture_blockers import Blocker
from graphviz_dash.analysis.prediction.eager_step import EagerStep
from graphviz_dash.analysis.prediction.replay_model import ReplayTerm, compute_item_features
from graphviz_dash.analysis.trace.intervals import NONE, Nesting, SelectedIntervals, get_values
from graphviz_dash.analysis.trace.lanes import link_launches
from graphviz_dash.analysis.trace.steps import compute_exclusive_ns
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.calibration import Calibration
from graphviz_dash.model.marks import MODULE
from graphviz_dash.model.trace import Trace

ItemOrigins: TypeAlias = tuple[NodeOrigin | None, ...]
"""Origin of each item's launch; None if unknown."""

MAX_ITEMS: Final = 5_000
"""Maximum number of items; planning more would need seconds."""

_METHOD: Final = "launching call"


def find_item_origins(trace: Trace, step: EagerStep) -> ItemOrigins:
    """Return the origin of each item's launch; near-linear in the step's operators.

    All are None in a step with more than MAX_ITEMS.
    """
    if len(step) > MAX_ITEMS or not len(trace.ops):
        return (None,) * len(step)
    typical = step.steps[step.matching[0]]
    is_launched = step.launches >= 0
    origins = OriginResolver(
        select_near(trace, typical.start, typical.end, margin=0), step.launches[is_launched]
    )
    numbers = (is_launched.cumsum() - 1).tolist()
    return tuple(
        origins.get_origin(number, _METHOD, 1.0) if is_known else None
        for number, is_known in zip(numbers, is_launched.tolist(), strict=True)
    )


class ModulePrediction(Struct, frozen=True):
    """Prediction for a graph of one module alone, in ns per step."""

    name: str
    """Empty for work outside all modules."""
    items: int
    """Pieces of work."""
    kernels: int
    eager_ns: float
    """Share of the eager step: its work, and the launching before each piece with an idle GPU.

    The shares add up to the step without the idle time that a graph does not remove.
    """
    busy_ns: float
    """Time of its work alone."""
    graphs: int
    """One each for forward and backward."""
    graphed_ns: float
    """Predicted time of these graphs, including launches."""
    blockers: int
    """Certain capture blockers inside it."""

    @property
    def saving_ns(self) -> float:
        """Time saved per step by this graph; negative if it costs more."""
        return self.eager_ns - self.graphed_ns


class ModulePredictions(Struct, frozen=True):
    """Modules of a step; ``source`` is the source of their names."""

    source: str
    modules: tuple[ModulePrediction, ...]


class EagerSpan(Struct, frozen=True):
    """The part of the eager step that is divided among modules.

    ``launching`` is the launch time before each item in ns, shape (items,).
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

    Work outside all parts comes last. Launch times are scaled so that the parts add up to the eager
    step, which removes the profiler overhead if that step is clean.
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


def compute_exclusive_busy_ns(step: EagerStep) -> Ints:
    """Return the contribution of each item to the busy time of the traced step."""
    order = np.argsort(step.begin, kind="stable")
    exclusive = np.zeros(len(step), dtype=np.int64)
    exclusive[order] = compute_exclusive_ns(
        step.begin[order], step.begin[order] + step.duration[order]
    )
    return exclusive


Path = tuple[str, ...]

BY_MARKS: Final = "the collector's module ranges"
BY_FRAMES: Final = "the module frames of the Python stacks"
BY_RANGES: Final = "the program's record_function ranges"

_EXCLUDED_PREFIXES: Final = (
    "graphviz_dash.",
    "ProfilerStep#",
    "Optimizer.zero_grad#",
    "PyTorch Profiler",
)
_WRAPPER_SHARE: Final = 0.9


class ItemModules(Struct, frozen=True):
    """The part of each item of a step: a name, or "" if outside all parts."""

    source: str
    names: tuple[str, ...]


def find_item_modules(trace: Trace, step: EagerStep) -> ItemModules | Missing:
    """Return the parts of the typical step, or why there are none."""
    first = step.steps[step.matching[0]]
    trace = select_near(trace, first.start, first.end)
    readers = (
        (BY_MARKS, _read_module_ranges),
        (BY_FRAMES, _read_module_frames),
        (BY_RANGES, _read_other_ranges),
    )
    for by, read in readers:
        paths = read(trace, step)
        names = _select_level(paths)
        if any(names):
            return ItemModules(by, names)
    return Missing(
        Fact.STEP_MODULES,
        "the trace records no modules: record it with_stack=True, or put record_function ranges "
        "around parts of the step",
    )


def _select_level(paths: list[Path]) -> tuple[str, ...]:
    """Return the names at the first level that divides the work into several parts.

    A level with nearly all work in one part is a wrapper.
    """
    for depth in range(1, max(map(len, paths), default=0) + 1):
        cut = [path[:depth] for path in paths]
        inside = Counter(path_head for path_head in cut if path_head)
        highest_count = inside.most_common(1)[0][1]
        if len(inside) > 1 and highest_count < _WRAPPER_SHARE * inside.total():
            return tuple(".".join(path_head) for path_head in cut)
    return tuple(".".join(path[:1]) for path in paths)


def _read_module_ranges(trace: Trace, step: EagerStep) -> list[Path]:
    names = _find_enclosing_ranges(trace, step, lambda name: name.startswith(MODULE))
    return [tuple(path[-1].removeprefix(MODULE).split(".")) if path else () for path in names]


def _read_other_ranges(trace: Trace, step: EagerStep) -> list[Path]:
    return _find_enclosing_ranges(trace, step, lambda name: not name.startswith(_EXCLUDED_PREFIXES))


def _find_enclosing_ranges(
    trace: Trace, step: EagerStep, requested: Callable[[str], bool]
) -> list[Path]:
    marks = trace.annotations
    names = [name or "" for name in marks["name"].to_list()]
    flags = np.array([requested(name) for name in names], dtype=np.bool_)
    if not flags.any():
        return [()] * len(step)
    nesting = Nesting.build(get_column(marks, "ts"), get_column(marks, "dur"), get_threads(marks))
    ranges = SelectedIntervals(nesting, flags)
    rows = _find_enclosing(trace, step, ranges)
    paths: list[Path] = []
    for innermost in rows.tolist():
        path: list[str] = []
        row = innermost
        while row != NONE:
            path.append(names[row])
            parent_row = int(nesting.parent[row])
            row = NONE if parent_row == NONE else int(ranges.nearest[parent_row])
        paths.append(tuple(reversed(path)))
    return paths


def _read_module_frames(trace: Trace, step: EagerStep) -> list[Path]:
    if not len(trace.python):
        return [()] * len(step)
    frames = Frames(trace.python)
    rows = _find_enclosing(trace, step, frames.module_frames)
    modules_at: dict[int, Path] = {NONE: ()}
    for row in set(rows.tolist()) - {NONE}:
        modules_at[row] = frames.list_modules(row)
    return [modules_at[row] for row in rows.tolist()]


def _find_enclosing(trace: Trace, step: EagerStep, requested: SelectedIntervals) -> Ints:
    """Return the innermost wanted interval around each item's launch or its forward operator."""
    runtime = trace.runtime
    linked_rows = step.launches >= 0
    calls = np.maximum(step.launches, 0)
    if not len(runtime):
        return np.full(len(step), NONE, dtype=np.int64)
    launch_times, threads = get_column(runtime, "ts")[calls], get_threads(runtime)[calls]
    at_launch = np.where(linked_rows, requested.find_around(launch_times, threads), NONE)
    if not len(trace.ops):
        return at_launch
    ops = Ops(trace.ops)
    external = get_column(runtime, "external_id")[calls]
    op = link_launches(np.where(linked_rows & (external > 0), external, NONE), ops.external).launch
    op = np.where(
        op != NONE, op, np.where(linked_rows, ops.nesting.find_around(launch_times, threads), NONE)
    )
    forward = get_values(ops.forward, op)
    at_forward = requested.find_around(
        get_values(ops.nesting.start, forward), get_values(ops.nesting.thread, forward)
    )
    at_forward = np.where(forward != NONE, at_forward, NONE)
    # In the backward engine, the forward module is more specific than a range around everything.
    return np.where(at_forward != NONE, at_forward, at_launch)
