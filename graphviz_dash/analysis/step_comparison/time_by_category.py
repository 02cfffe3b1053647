"""Time of a clean step by GPU work category, with idle time.

The clean pass provides the total, which is divided according to the traced pass. This is an
estimate because a profiler can slow kernels. If the traced work is longer than the clean step, the
excess is reported instead of idle time. Without clean timings, the traced step is the total and is
labelled as such. A collective's wait for other ranks is not work.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, encode, get_spans
from graphviz_dash.analysis.trace.kernel_categories import Category, categorise
from graphviz_dash.analysis.trace.steps import Step, compute_exclusive_ns
from graphviz_dash.model.trace import Trace

_COMMUNICATION: Final = list(Category).index(Category.COMMUNICATION)
WAITING_FOR_RANKS: Final = "waiting for ranks"


class CategoryTime(Struct, frozen=True):
    """GPU busy time of one category within a step, in ns."""

    category: Category
    ns: float


class TimeByCategory(Struct, frozen=True):
    """One step of one run, in ns."""

    step_ns: float
    """Step time without a profiler, unless ``profiled``."""
    busy_ns: float
    """Median GPU busy time of the traced steps, without waits for other ranks."""
    parts: tuple[CategoryTime, ...]
    """Nonzero parts of ``busy_ns``, in Category order.

    Concurrent work counts for the item that started first; communication counts only if exposed.
    """
    idle_ns: float | None
    """Remaining time of the step; None if ``excess_ns`` is set, or if loops run unseen work."""
    excess_ns: float | None
    """Excess of the traced work over the step."""
    waiting_ns: float = 0.0
    """Time in which collectives only wait for other ranks; 0 for a single process."""
    profiled: bool = False
    """True if no clean timings exist."""

    @property
    def scaled_parts(self) -> tuple[CategoryTime, ...]:
        """Parts scaled to the clean step.

        If the traced work is longer, all parts shrink proportionally so that bars match step times.
        """
        if self.excess_ns is None:
            return self.parts
        share = self.step_ns / self.busy_ns
        return tuple(CategoryTime(part.category, part.ns * share) for part in self.parts)

    @property
    def idle_fraction(self) -> float | None:
        """Idle fraction of the step, 0 to 1; None if ``idle_ns`` is None."""
        return None if self.idle_ns is None else self.idle_ns / self.step_ns


class RankWaitTime(Struct, frozen=True):
    """Waits of a run for other ranks."""

    wait_ns: Ints
    """Wait of each row of the GPU table, shape (rows,)."""
    step_ns: float
    """Time in the step in which collectives only wait."""


def compute_time_by_category(
    step_ns: float,
    trace: Trace,
    traced_steps: tuple[Step, ...],
    waiting: RankWaitTime | None = None,
    *,
    profiled: bool = False,
    has_loops: bool = False,
) -> TimeByCategory:
    """Divide a step of ``step_ns`` according to the GPU work of ``traced_steps`` (at least one).

    The median busy time is divided in the proportions of all traced steps. ``waiting`` is None for
    a single process. With ``has_loops``, graphs have While nodes, of which the trace shows one
    iteration.
    """
    wait_ns = None if waiting is None else waiting.wait_ns
    busy_by_category = _compute_busy_by_category(trace, traced_steps, wait_ns)
    busy_ns = float(np.median(busy_by_category.sum(axis=1)))
    sums = dict(zip(Category, busy_by_category.sum(axis=0).tolist(), strict=True))
    total = sum(sums.values())
    parts = tuple(
        CategoryTime(category, busy_ns * sums[category] / total)
        for category in Category
        if sums[category]
    )
    remaining = step_ns - busy_ns
    waiting_ns = 0.0 if waiting is None else min(waiting.step_ns, max(remaining, 0.0))
    idle = remaining - waiting_ns
    return TimeByCategory(
        step_ns,
        busy_ns,
        parts,
        idle_ns=idle if idle >= 0 and not has_loops else None,
        excess_ns=-idle if idle < 0 else None,
        waiting_ns=waiting_ns,
        profiled=profiled,
    )


def compute_traced_wait_ns(trace: Trace, traced_steps: tuple[Step, ...], wait_ns: Ints) -> float:
    """Return the median time per step in which collectives only waited for other ranks.

    ``wait_ns`` is that of :class:`RankWaitTime`.
    """
    working = _compute_busy_by_category(trace, traced_steps, wait_ns).sum(axis=1)
    return float(np.median([step.busy_ns for step in traced_steps] - working))


def _compute_busy_by_category(
    trace: Trace, traced_steps: tuple[Step, ...], waited: Ints | None
) -> Ints:
    """Return shape (steps, categories), in ns."""
    start, end = get_spans(trace.gpu)
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
        # Hidden communication costs no step time. The remainder is the exposed communication.
        others = category != _COMMUNICATION
        np.add.at(
            sums[number], category[others], compute_exclusive_ns(begins[others], ends[others])
        )
        sums[number, _COMMUNICATION] = compute_exclusive_ns(begins, ends).sum() - sums[number].sum()
    return sums
