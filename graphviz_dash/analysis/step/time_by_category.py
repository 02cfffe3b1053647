"""Where the time of a clean step goes: GPU work by category, and the rest, in which it is idle.

The clean pass gives the whole, the traced pass only divides it. That is an estimate, and said so: a
profiler can slow kernels down. When the traced work is longer than the clean step there is no idle
time to show, and the excess is given instead of being cut off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphviz_dash.analysis.arrays import column, encode
from graphviz_dash.analysis.trace.kernel_categories import Category, categorise
from graphviz_dash.analysis.trace.steps import Step, exclusive_ns

if TYPE_CHECKING:
    from graphviz_dash.model.trace import Trace


@dataclass(frozen=True)
class CategoryTime:
    """GPU busy time of one category within a step, in ns."""

    category: Category
    ns: float


@dataclass(frozen=True)
class TimeByCategory:
    """One step of one run, in ns."""

    step_ns: float
    """The clean step time."""
    busy_ns: float
    """The median GPU busy time of the traced steps."""
    parts: tuple[CategoryTime, ...]
    """Add up to ``busy_ns``, in the order of Category, without those of no time; work on several
    streams at once counts for what began first."""
    idle_ns: float | None
    """The rest of the clean step; None when ``excess_ns`` is not None."""
    excess_ns: float | None
    """By how much the traced work is longer than the clean step; None when it is not."""

    @property
    def idle_fraction(self) -> float | None:
        """The idle part of the clean step, 0 to 1; None with ``idle_ns``."""
        return None if self.idle_ns is None else self.idle_ns / self.step_ns


def time_by_category(
    step_ns: float, trace: Trace, traced_steps: tuple[Step, ...]
) -> TimeByCategory:
    """Divides a clean step of ``step_ns`` by the GPU work of ``traced_steps`` (one or more). The
    median busy time is divided as all traced steps together are."""
    busy_ns = float(np.median([step.busy_ns for step in traced_steps]))
    sums = _busy_by_category(trace, traced_steps)
    whole = sum(sums.values())
    parts = tuple(
        CategoryTime(category, busy_ns * sums[category] / whole)
        for category in Category
        if sums[category]
    )
    rest = step_ns - busy_ns
    return TimeByCategory(
        step_ns,
        busy_ns,
        parts,
        idle_ns=rest if rest >= 0 else None,
        excess_ns=-rest if rest < 0 else None,
    )


def _busy_by_category(trace: Trace, traced_steps: tuple[Step, ...]) -> dict[Category, int]:
    start = column(trace.gpu, "ts")
    end = start + np.maximum(column(trace.gpu, "dur"), 0)
    kinds, kind_names = encode(trace.gpu["kind"])
    names, name_names = encode(trace.gpu["name"])
    categories = list(Category)
    category_index = np.array(
        [[categories.index(categorise(kind, name)) for name in name_names] for kind in kind_names],
        dtype=np.int64,
    )
    sums = np.zeros(len(categories), dtype=np.int64)
    for step in traced_steps:
        rows = step.gpu_rows
        if not len(rows):
            continue
        counted = exclusive_ns(
            np.clip(start[rows], step.span_start, step.span_end),
            np.clip(end[rows], step.span_start, step.span_end),
        )
        np.add.at(sums, category_index[kinds[rows], names[rows]], counted)
    return {category: int(total) for category, total in zip(categories, sums, strict=True)}
