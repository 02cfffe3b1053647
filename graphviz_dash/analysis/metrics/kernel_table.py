"""Kernels of several runs in one table: calls per step and duration.

Kernels are joined by name; all sets are one row. Absent kernels are None, not 0: a graph can use
a different kernel for the same work, and only names are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.absence import NO_STEP_MARKS
from graphviz_dash.analysis.arrays import Floats, Ints, encode, get_column
from graphviz_dash.analysis.metrics.run_selection import exclude_examinations, find_partner
from graphviz_dash.analysis.trace.gpu_records import find_missing_gpu_work
from graphviz_dash.analysis.trace.integrity import select_complete_steps
from graphviz_dash.analysis.trace.kernel_categories import Category, categorise
from graphviz_dash.analysis.trace.lanes import find_distinct_values
from graphviz_dash.analysis.trace.steps import Step, StepMethod, find_steps
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.model.trace import Trace


class KernelUse(Struct, frozen=True):
    """One kernel in the traced steps of one run.

    ``count`` and ``total_ns`` are medians over the steps (a step without it counts as 0);
    ``mean_ns`` covers all its instances; ``share`` is its fraction of the duration of all GPU
    work, 0 to 1; ``instances`` is the total over all steps.
    """

    count: float
    total_ns: float
    mean_ns: float
    share: float
    instances: int


class KernelRow(Struct, frozen=True):
    """One kernel (or copy or set, by ``kind``) across the runs of a table.

    ``uses`` follow the order of the table's runs, None if the run lacks the kernel. ``changes`` is
    ``total_ns`` minus the baseline's in ns, per run: None without traced steps in either run or
    without a baseline. A kernel that only one run has counts as 0 in the other. ``impact`` is the
    largest absolute change in ns.
    """

    name: str
    kind: str
    category: Category
    uses: tuple[KernelUse | None, ...]
    changes: tuple[float | None, ...]
    impact: float


class KernelTable(Struct, frozen=True):
    """All kernels in the traced passes of an experiment, largest changes first."""

    runs: tuple[str, ...]
    """Names, one per column."""
    baseline: int | None
    """Column of the comparison's baseline; None if there is none."""
    reference_columns: tuple[int | None, ...]
    """Column that each run's ``changes`` refer to: the baseline, or its run of the same rank.

    None if the kernels of either run have no separate times.
    """
    rows: tuple[KernelRow, ...]
    missing_reasons: dict[str, str]
    """Reason why a run has no values, by its name."""

    @property
    def has_rare_kernels(self) -> bool:
        """True if a kernel ran in fewer than half of a run's steps.

        Its median is then 0, and the rows of the run add up to less than its work.
        """
        uses = (use for row in self.rows for use in row.uses if use is not None)
        return any(use.instances and not use.count for use in uses)

    @property
    def usual_rows(self) -> tuple[KernelRow, ...]:
        """Rows with a nonzero median in some run."""
        return tuple(row for row in self.rows if any(use and use.count for use in row.uses))

    def has_changes(self, column: int) -> bool:
        """Return whether the run in ``column`` is compared with another run."""
        return self.reference_columns[column] not in (None, column)


def build_kernel_table(
    experiment: Experiment,
    baseline: str | None = None,
    traced_steps: Mapping[str, tuple[Step, ...]] = MappingProxyType({}),
) -> KernelTable:
    """Build the table of all kernels in ``experiment``.

    ``baseline`` is a run name; ``traced_steps`` holds steps already computed, by run name.
    """
    experiment = exclude_examinations(experiment)
    names = tuple(run.name for run in experiment.runs)
    uses_of_runs: list[dict[tuple[str, str], KernelUse] | None] = []
    without: dict[str, str] = {}
    for run in experiment.runs:
        trace = run.replay_trace
        run_steps = traced_steps.get(run.name) or (find_steps(trace) if trace is not None else ())
        missing = None if trace is None else find_missing_gpu_work(trace)
        if trace is not None and missing is None:
            complete = select_complete_steps(trace, run_steps)
            if isinstance(complete, Missing):
                missing = complete
            else:
                run_steps = complete
        if trace is None or missing or not run_steps or run_steps[0].method is StepMethod.WHOLE:
            reason = (missing or NO_STEP_MARKS).reason
            without[run.name] = "no traced pass" if trace is None else reason
            uses_of_runs.append(None)
            continue
        uses_of_runs.append(compute_kernel_uses(trace, run_steps))
    column_index = names.index(baseline) if baseline in names else None
    keys = dict.fromkeys(key for uses in uses_of_runs if uses for key in uses)
    references = _find_reference_columns(experiment, column_index)
    rows = [_build_row(key, uses_of_runs, references) for key in keys]
    rows.sort(key=lambda row: (-row.impact, -_get_longest_total(row), row.name))
    return KernelTable(names, column_index, references, tuple(rows), without)


def _find_reference_columns(experiment: Experiment, baseline: int | None) -> tuple[int | None, ...]:
    if baseline is None:
        return (None,) * len(experiment.runs)
    indices = {run.name: index for index, run in enumerate(experiment.runs)}
    baseline_run = experiment.runs[baseline]
    partners = [find_partner(run, baseline_run, experiment) for run in experiment.runs]
    return tuple(
        None if other is None or _is_stitched(run) != _is_stitched(other) else indices[other.name]
        for run, other in zip(experiment.runs, partners, strict=True)
    )


def _is_stitched(run: Run) -> bool:
    return run.replay_trace is not None and run.replay_trace.info.has_stitched_replays


def compute_kernel_uses(
    trace: Trace, traced_steps: tuple[Step, ...]
) -> dict[tuple[str, str], KernelUse]:
    """Compute the use of each (kind, name) in the steps; near-linear in the rows."""
    rows = np.concatenate([step.gpu_rows for step in traced_steps])
    if not len(rows):
        return {}
    step = np.repeat(
        np.arange(len(traced_steps)), [len(traced_step.gpu_rows) for traced_step in traced_steps]
    )
    kinds, kind_names = encode(trace.gpu["kind"])
    names, name_names = encode(trace.gpu["name"])
    duration = np.maximum(get_column(trace.gpu, "dur"), 0)[rows]
    keys, code_of = _index_keys(kind_names, name_names)
    used, code = find_distinct_values(code_of[kinds, names][rows])
    counts, totals = _compute_medians_per_step(step, code, duration, len(traced_steps), len(used))
    instances = np.bincount(code, minlength=len(used))
    sums = np.bincount(code, weights=duration, minlength=len(used))
    total = float(sums.sum())
    return {
        keys[key]: KernelUse(
            count=float(counts[index]),
            total_ns=float(totals[index]),
            mean_ns=float(sums[index] / instances[index]),
            share=float(sums[index] / total) if total else 0.0,
            instances=int(instances[index]),
        )
        for index, key in enumerate(used.tolist())
    }


def _index_keys(kinds: list[str], names: list[str]) -> tuple[list[tuple[str, str]], Ints]:
    indices: dict[tuple[str, str], int] = {}
    code = np.zeros((len(kinds), len(names)), dtype=np.int64)
    for row, kind in enumerate(kinds):
        for number, name in enumerate(names):
            key = (kind, _get_joined_name(kind, name))
            code[row, number] = indices.setdefault(key, len(indices))
    return list(indices), code


def _get_joined_name(kind: str, name: str) -> str:
    # The profiler reports the memory type of a set in eager mode ("Memset (Device)") but not in a
    # replay ("Memset (Unknown)"). Both must share a row.
    return "Memset" if kind == "memset" else name


def _compute_medians_per_step(
    step: Ints, code: Ints, duration: Ints, steps_count: int, names_count: int
) -> tuple[Floats, Floats]:
    """Return counts and total times, shape (names,)."""
    # Sorting by (name, step) makes the values of a name contiguous. A dense steps x names table
    # would be large for long traces with many names.
    cell = code.astype(np.int64) * steps_count + step
    used, cell_index = find_distinct_values(cell)
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


def _build_row(
    key: tuple[str, str],
    uses_of_runs: list[dict[tuple[str, str], KernelUse] | None],
    reference_columns: tuple[int | None, ...],
) -> KernelRow:
    kind, name = key
    uses = tuple(run.get(key) if run else None for run in uses_of_runs)
    totals = [use.total_ns if use else 0.0 for use in uses]
    changes = tuple(
        totals[index] - totals[base]
        if base is not None and uses_of_runs[index] is not None and uses_of_runs[base] is not None
        else None
        for index, base in enumerate(reference_columns)
    )
    impact = max((abs(change) for change in changes if change is not None), default=0.0)
    return KernelRow(name, kind, categorise(kind, name), uses, changes, impact)


def _get_longest_total(row: KernelRow) -> float:
    return max((use.total_ns for use in row.uses if use), default=0.0)
