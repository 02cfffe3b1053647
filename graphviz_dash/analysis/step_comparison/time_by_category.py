"""Where the time of a clean step goes: GPU work by category, and the rest, in which it is idle.

The clean pass gives the whole, the traced pass only divides it. That is an estimate, and said so: a
profiler can slow kernels down. When the traced work is longer than the clean step there is no idle
time to show, and the excess is given instead of being cut off. Where nothing was timed without a
profiler, the traced step is the whole, and is called so. A collective's wait for other ranks is no
work; how long it is in the step that is divided, is given to :func:`time_by_category`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, column, encode
from graphviz_dash.analysis.trace.kernel_categories import Category, categorise
from graphviz_dash.analysis.trace.steps import Step, exclusive_ns

if TYPE_CHECKING:
    from graphviz_dash.model.trace import Trace


_COMMUNICATION: Final = list(Category).index(Category.COMMUNICATION)
WAITING_FOR_RANKS: Final = "waiting for ranks"
"""What the time is called in which collectives only wait."""


class CategoryTime(Struct, frozen=True):
    """GPU busy time of one category within a step, in ns."""

    category: Category
    ns: float


class TimeByCategory(Struct, frozen=True):
    """One step of one run, in ns."""

    step_ns: float
    """The step time without a profiler, unless ``profiled``."""
    busy_ns: float
    """The median GPU busy time of the traced steps, without waiting for other ranks."""
    parts: tuple[CategoryTime, ...]
    """Add up to ``busy_ns``, in the order of Category, without those of no time; work on several
    streams at once counts for what began first, communication only where nothing else ran."""
    idle_ns: float | None
    """The rest of the step; None when ``excess_ns`` is not None."""
    excess_ns: float | None
    """By how much the traced work is longer than the step; None when it is not."""
    waiting_ns: float = 0.0
    """Time in which collectives only wait for other ranks; 0 for a run of one process."""
    profiled: bool = False
    """Whether the step is one under the profiler, as nothing was timed without it."""

    @property
    def shown_parts(self) -> tuple[CategoryTime, ...]:
        """The parts as they divide the clean step: where the traced work is longer than it, all are
        shortened alike, so that bars of several runs are as long as their steps."""
        if self.excess_ns is None:
            return self.parts
        share = self.step_ns / self.busy_ns
        return tuple(CategoryTime(part.category, part.ns * share) for part in self.parts)

    @property
    def idle_fraction(self) -> float | None:
        """The idle part of the step, 0 to 1; None with ``idle_ns``."""
        return None if self.idle_ns is None else self.idle_ns / self.step_ns


class Waiting(Struct, frozen=True):
    """A run's waiting for other ranks."""

    waited: Ints
    """How long each row of the trace's GPU table waited, in ns, shape (rows,)."""
    step_ns: float
    """How long collectives only wait in the step that is divided, in ns."""


def time_by_category(
    step_ns: float,
    trace: Trace,
    traced_steps: tuple[Step, ...],
    waiting: Waiting | None = None,
    *,
    profiled: bool = False,
) -> TimeByCategory:
    """Divides a step of ``step_ns`` by the GPU work of ``traced_steps`` (one or more). The median
    busy time is divided as all traced steps together are. ``waiting`` is None for a run of one
    process; ``profiled`` says that ``step_ns`` is of a step under the profiler."""
    waited = None if waiting is None else waiting.waited
    each = _busy_by_category(trace, traced_steps, waited)
    busy_ns = float(np.median(each.sum(axis=1)))
    sums = dict(zip(Category, each.sum(axis=0).tolist(), strict=True))
    whole = sum(sums.values())
    parts = tuple(
        CategoryTime(category, busy_ns * sums[category] / whole)
        for category in Category
        if sums[category]
    )
    left = step_ns - busy_ns
    waiting_ns = 0.0 if waiting is None else min(waiting.step_ns, max(left, 0.0))
    rest = left - waiting_ns
    return TimeByCategory(
        step_ns,
        busy_ns,
        parts,
        idle_ns=rest if rest >= 0 else None,
        excess_ns=-rest if rest < 0 else None,
        waiting_ns=waiting_ns,
        profiled=profiled,
    )


def traced_wait_ns(trace: Trace, traced_steps: tuple[Step, ...], waited: Ints) -> float:
    """The median time of ``traced_steps`` (one or more) in which collectives only waited for other
    ranks, in ns; ``waited`` as in :class:`Waiting`."""
    working = _busy_by_category(trace, traced_steps, waited).sum(axis=1)
    return float(np.median([step.busy_ns for step in traced_steps] - working))


def _busy_by_category(trace: Trace, traced_steps: tuple[Step, ...], waited: Ints | None) -> Ints:
    """GPU busy time of each step by category, shape (steps, categories), in ns."""
    start = column(trace.gpu, "ts")
    end = start + np.maximum(column(trace.gpu, "dur"), 0)
    if waited is not None:
        start = start + waited
    kinds, kind_names = encode(trace.gpu["kind"])
    names, name_names = encode(trace.gpu["name"])
    categories = list(Category)
    category_index = np.array(
        [[categories.index(categorise(kind, name)) for name in name_names] for kind in kind_names],
        dtype=np.int64,
    )
    sums = np.zeros((len(traced_steps), len(categories)), dtype=np.int64)
    for number, step in enumerate(traced_steps):
        rows = step.gpu_rows
        if not len(rows):
            continue
        if waited is not None:
            rows = rows[np.argsort(start[rows], kind="stable")]
        begins = np.clip(start[rows], step.span_start, step.span_end)
        ends = np.clip(end[rows], step.span_start, step.span_end)
        category = category_index[kinds[rows], names[rows]]
        # What hides behind other work takes no time of the step: the rest is what Ranks calls
        # exposed.
        others = category != _COMMUNICATION
        np.add.at(sums[number], category[others], exclusive_ns(begins[others], ends[others]))
        sums[number, _COMMUNICATION] = exclusive_ns(begins, ends).sum() - sums[number].sum()
    return sums
