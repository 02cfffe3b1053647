"""The kernels of the runs side by side: how often each runs in a step, and how long.

Kernels are joined by name, sets by being sets. What a run does not have is None there, not 0: a
graph can hold another kernel for the same work, and only the names are known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.absence import UNMARKED
from graphviz_dash.analysis.arrays import Floats, Ints, column, encode
from graphviz_dash.analysis.metrics.run_selection import measured, partner
from graphviz_dash.analysis.trace.gpu_records import missing_gpu_work
from graphviz_dash.analysis.trace.kernel_categories import Category, categorise
from graphviz_dash.analysis.trace.lanes import distinct_values
from graphviz_dash.analysis.trace.steps import Step, StepMethod, steps

if TYPE_CHECKING:
    from graphviz_dash.model.run import Experiment, Run
    from graphviz_dash.model.trace import Trace


class KernelUse(Struct, frozen=True):
    """One kernel in one run's traced steps.

    ``count`` and ``total_ns`` are medians over the steps (a step without it counts as 0);
    ``mean_ns`` is over all its instances; ``share`` is its part of the durations of all GPU work,
    0 to 1; ``instances`` over all steps.
    """

    count: float
    total_ns: float
    mean_ns: float
    share: float
    instances: int


class KernelRow(Struct, frozen=True):
    """One kernel (or copy or set, by ``kind``) over the runs of a table.

    ``uses`` are in the order of the table's runs, None where the run has no such kernel.
    ``changes`` are its ``total_ns`` less the baseline's, in ns, one for each run: None where either
    run has no traced steps (and for all runs where there is no baseline); a kernel that only one of
    the two has counts as 0 in the other. ``impact`` is the largest of them by size, in ns.
    """

    name: str
    kind: str
    category: Category
    uses: tuple[KernelUse | None, ...]
    changes: tuple[float | None, ...]
    impact: float


class KernelTable(Struct, frozen=True):
    """All kernels of an experiment's traced passes, those that changed most first."""

    runs: tuple[str, ...]
    """Names of the runs, one for each column."""
    baseline: int | None
    """The column of the comparison's baseline; None if it has none."""
    against: tuple[int | None, ...]
    """The column that each run's ``changes`` refer to: the baseline, with several ranks its run of
    the same rank. None where the kernels of one of the two have no times of their own."""
    rows: tuple[KernelRow, ...]
    """A row for each kernel."""
    without: dict[str, str]
    """Why a run has no values, by its name."""

    @property
    def has_seldom(self) -> bool:
        """Whether a kernel ran in fewer than half of a run's steps, so that its medians are 0 and
        the rows of that run add up to less than its work."""
        uses = (use for row in self.rows for use in row.uses if use is not None)
        return any(use.instances and not use.count for use in uses)

    @property
    def usual_rows(self) -> tuple[KernelRow, ...]:
        """The rows whose medians are not all 0: in some run at least half of the steps have the
        kernel."""
        return tuple(row for row in self.rows if any(use and use.count for use in row.uses))

    def changes(self, column: int) -> bool:
        """Whether the run of ``column`` has changes: it is compared with another one."""
        return self.against[column] not in (None, column)


def kernel_table(
    experiment: Experiment,
    baseline: str | None = None,
    traced_steps: Mapping[str, tuple[Step, ...]] = MappingProxyType({}),
) -> KernelTable:
    """The kernels of every run of ``experiment``; ``baseline`` is the name of a run, and
    ``traced_steps`` are those of runs by name, where they were computed before."""
    experiment = measured(experiment)
    names = tuple(run.name for run in experiment.runs)
    uses_of_runs: list[dict[tuple[str, str], KernelUse] | None] = []
    without: dict[str, str] = {}
    for run in experiment.runs:
        trace = run.replay_trace
        run_steps = traced_steps.get(run.name) or (steps(trace) if trace is not None else ())
        missing = None if trace is None else missing_gpu_work(trace)
        if trace is None or missing or not run_steps or run_steps[0].method is StepMethod.WHOLE:
            reason = (missing or UNMARKED).reason
            without[run.name] = "no traced pass" if trace is None else reason
            uses_of_runs.append(None)
            continue
        uses_of_runs.append(kernel_uses(trace, run_steps))
    column_index = names.index(baseline) if baseline in names else None
    keys = dict.fromkeys(key for uses in uses_of_runs if uses for key in uses)
    against = _against(experiment, column_index)
    rows = [_row(key, uses_of_runs, against) for key in keys]
    rows.sort(key=lambda row: (-row.impact, -_longest(row), row.name))
    return KernelTable(names, column_index, against, tuple(rows), without)


def _against(experiment: Experiment, baseline: int | None) -> tuple[int | None, ...]:
    if baseline is None:
        return (None,) * len(experiment.runs)
    indices = {run.name: index for index, run in enumerate(experiment.runs)}
    chosen = experiment.runs[baseline]
    partners = [partner(run, chosen, experiment) for run in experiment.runs]
    return tuple(
        None if other is None or _stitched(run) != _stitched(other) else indices[other.name]
        for run, other in zip(experiment.runs, partners, strict=True)
    )


def _stitched(run: Run) -> bool:
    return run.replay_trace is not None and run.replay_trace.info.stitched


def kernel_uses(trace: Trace, traced_steps: tuple[Step, ...]) -> dict[tuple[str, str], KernelUse]:
    """Each (kind, name) of the steps' GPU work with its use; near-linear in the rows."""
    rows = np.concatenate([step.gpu_rows for step in traced_steps])
    if not len(rows):
        return {}
    step = np.repeat(np.arange(len(traced_steps)), [len(each.gpu_rows) for each in traced_steps])
    kinds, kind_names = encode(trace.gpu["kind"])
    names, name_names = encode(trace.gpu["name"])
    duration = np.maximum(column(trace.gpu, "dur"), 0)[rows]
    keys, code_of = _keys(kind_names, name_names)
    used, code = distinct_values(code_of[kinds, names][rows])
    counts, totals = _per_step(step, code, duration, len(traced_steps), len(used))
    instances = np.bincount(code, minlength=len(used))
    sums = np.bincount(code, weights=duration, minlength=len(used))
    whole = float(sums.sum())
    return {
        keys[key]: KernelUse(
            count=float(counts[index]),
            total_ns=float(totals[index]),
            mean_ns=float(sums[index] / instances[index]),
            share=float(sums[index] / whole) if whole else 0.0,
            instances=int(instances[index]),
        )
        for index, key in enumerate(used.tolist())
    }


def _keys(kinds: list[str], names: list[str]) -> tuple[list[tuple[str, str]], Ints]:
    """The distinct (kind, joined name), and the index of each kind and name among them."""
    indices: dict[tuple[str, str], int] = {}
    code = np.zeros((len(kinds), len(names)), dtype=np.int64)
    for row, kind in enumerate(kinds):
        for number, name in enumerate(names):
            key = (kind, _joined_name(kind, name))
            code[row, number] = indices.setdefault(key, len(indices))
    return list(indices), code


def _joined_name(kind: str, name: str) -> str:
    # The profiler knows the memory of a set in eager mode ("Memset (Device)") and not in a replay
    # ("Memset (Unknown)"): the same work must not look like two.
    return "Memset" if kind == "memset" else name


def _per_step(
    step: Ints, code: Ints, duration: Ints, steps_count: int, names_count: int
) -> tuple[Floats, Floats]:
    """Median count and median total time over the steps, each of shape (names,).

    A kernel that runs in fewer than half of the steps has a median of 0, as it should.
    """
    # Sorted by (name, step), the values of one name lie together: no dense steps x names table,
    # which a long trace with many names would make large.
    cell = code.astype(np.int64) * steps_count + step
    used, cell_index = distinct_values(cell)
    count = np.bincount(cell_index, minlength=len(used))
    total = np.bincount(cell_index, weights=duration, minlength=len(used))
    bounds = np.searchsorted(used, np.arange(names_count + 1) * steps_count)
    counts, totals = np.zeros(names_count), np.zeros(names_count)
    for name in range(names_count):
        inside = slice(bounds[name], bounds[name + 1])
        absent = np.zeros(steps_count - (bounds[name + 1] - bounds[name]))
        counts[name] = np.median(np.concatenate((count[inside], absent)))
        totals[name] = np.median(np.concatenate((total[inside], absent)))
    return counts, totals


def _row(
    key: tuple[str, str],
    uses_of_runs: list[dict[tuple[str, str], KernelUse] | None],
    against: tuple[int | None, ...],
) -> KernelRow:
    kind, name = key
    uses = tuple(run.get(key) if run else None for run in uses_of_runs)
    totals = [use.total_ns if use else 0.0 for use in uses]
    changes = tuple(
        totals[index] - totals[base]
        if base is not None and uses_of_runs[index] is not None and uses_of_runs[base] is not None
        else None
        for index, base in enumerate(against)
    )
    impact = max((abs(change) for change in changes if change is not None), default=0.0)
    return KernelRow(name, kind, categorise(kind, name), uses, changes, impact)


def _longest(row: KernelRow) -> float:
    return max((use.total_ns for use in row.uses if use), default=0.0)
