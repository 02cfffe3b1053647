"""Steps that lost calls together with their GPU work, so that no launch lacks work.

The operators show it: a profiler that loses a call keeps the operator around it. Launches outside
operators prove nothing, because Python may decide about them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Flags, Ints, encode, get_column, get_threads
from graphviz_dash.analysis.trace.api_calls import get_call_class
from graphviz_dash.analysis.trace.signatures import find_distinct_rows
from graphviz_dash.analysis.trace.steps import LAUNCHES, PROFILER_STEP

if TYPE_CHECKING:
    from graphviz_dash.analysis.trace.lanes import Links
    from graphviz_dash.analysis.trace.steps import Step
    from graphviz_dash.model.trace import Trace

_MAX_WITNESSES: Final = 30
"""Maximum different steps that each step is compared with."""
_LOOKS: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "bytes")


class _StepLaunches(Struct, frozen=True):
    """Calls and GPU work of a step inside its operators, as ascending distinct numbers.

    Equal pieces at the same operator have equal numbers.
    """

    calls: Ints
    work: Ints
    calls_per_operator: int
    work_per_operator: int
    callless_rows: int
    """Rows of work without a call, whose operator is unknown."""


def find_incomplete_launches(trace: Trace, links: Links, steps: Sequence[Step]) -> frozenset[int]:
    """Find the steps that launched less than others that ran the same operators.

    Steps whose operators launched other work, such as that of another size, are not compared. The
    first step, which may be a warm-up, only shows losses of the second if no other is comparable.
    """
    if len(steps) < 2 or not len(trace.ops) or _have_equal_work(trace, steps):
        return frozenset()
    incomplete: set[int] = set()
    for group in _group_by_operators(trace, links, steps):
        incomplete.update(_find_smaller_steps(group))
    return frozenset(incomplete)


def _have_equal_work(trace: Trace, steps: Sequence[Step]) -> bool:
    """Compare the names of the work, which takes little time."""
    names = trace.gpu["name"].to_physical().to_numpy()
    return len({np.sort(names[step.gpu_rows]).tobytes() for step in steps}) == 1


def _group_by_operators(
    trace: Trace, links: Links, steps: Sequence[Step]
) -> Iterator[dict[int, _StepLaunches]]:
    """Yield each group of steps that ran the same operators, by index."""
    operators = _Operators(trace)
    looks = _encode_looks(trace)
    codes, names = encode(trace.runtime["name"])
    starts, threads = get_column(trace.runtime, "ts"), get_threads(trace.runtime)
    is_launch = np.array([get_call_class(name) in LAUNCHES for name in names], dtype=np.bool_)
    launches = np.flatnonzero(is_launch[codes])
    groups: defaultdict[bytes, dict[int, _StepLaunches]] = defaultdict(dict)
    for index, step in enumerate(steps):
        first, last = np.searchsorted(starts[launches], [step.start, step.end])
        calls = launches[first:last]
        sequence, positions = operators.locate(step, starts[calls], threads[calls])
        rows = step.gpu_rows[np.isin(links.launch[step.gpu_rows], calls)]
        of_rows = positions[np.searchsorted(calls, links.launch[rows])]
        per_call, per_row = (
            (int(codes.max(initial=0)) + 1) * (len(launches) + 1),
            (int(looks.max(initial=0)) + 1) * (len(looks) + 1),
        )
        groups[sequence][index] = _StepLaunches(
            _number_pieces(positions, codes[calls].astype(np.int64), per_call, len(launches) + 1),
            _number_pieces(of_rows, looks[rows], per_row, len(looks) + 1),
            per_call,
            per_row,
            step.unlinked,
        )
    yield from groups.values()


def _number_pieces(positions: Ints, codes: Ints, per_operator: int, stride: int) -> Ints:
    inside = positions >= 0
    keys = np.sort(positions[inside] * per_operator + codes[inside] * stride)
    # The occurrence makes equal pieces at one operator different.
    return np.asarray(keys + np.arange(len(keys)) - np.searchsorted(keys, keys), dtype=np.int64)


def _encode_looks(trace: Trace) -> Ints:
    def read_columns() -> Iterator[Ints]:
        for name in ("kind", "name"):
            yield trace.gpu[name].to_physical().to_numpy().astype(np.int64)
        for name in _LOOKS:
            yield get_column(trace.gpu, name)

    return find_distinct_rows(read_columns)[1]


class _Operators:
    """Operators by thread, then time."""

    def __init__(self, trace: Trace) -> None:
        codes, names = encode(trace.ops["name"])
        is_mark = np.array([name.startswith(PROFILER_STEP) for name in names], dtype=np.bool_)
        operator_rows = np.flatnonzero(~is_mark[codes])
        start = get_column(trace.ops, "ts")[operator_rows]
        duration = np.maximum(get_column(trace.ops, "dur")[operator_rows], 0)
        thread = get_threads(trace.ops)[operator_rows]
        order = np.lexsort((codes[operator_rows], -duration, start, thread))
        sorted_rows = np.stack(
            [column[order] for column in (thread, start, duration, codes[operator_rows])]
        )
        # Joined files have each operator twice.
        has_same_predecessor = (np.diff(sorted_rows, axis=1) == 0).all(axis=0)
        order = order[np.append(True, ~has_same_predecessor)] if len(order) else order
        self._start: Ints = start[order]
        self._end: Ints = (start + duration)[order]
        self._name: Ints = codes[operator_rows][order].astype(np.int64)
        threads, first = np.unique(thread[order], return_index=True)
        self._threads: list[int] = threads.tolist()
        self._bounds: list[int] = [*first.tolist(), len(order)]

    def locate(self, step: Step, instants: Ints, threads: Ints) -> tuple[bytes, Ints]:
        """Return the operators of a step, and the position of the latest one at each instant.

        The position is -1 outside operators.
        """
        positions = np.full(len(instants), -1, dtype=np.int64)
        sequence = []
        count = 0
        for number, thread in enumerate(self._threads):
            low, high = self._bounds[number], self._bounds[number + 1]
            first, last = low + np.searchsorted(self._start[low:high], [step.start, step.end])
            if first == last:
                continue
            sequence += [np.array([-1 - number]), self._name[first:last]]
            reach = np.maximum.accumulate(self._end[first:last])
            thread_calls = np.flatnonzero(threads == thread)
            operator_index = (
                np.searchsorted(self._start[first:last], instants[thread_calls], "right") - 1
            )
            inside: Flags = (operator_index >= 0) & (
                reach[np.maximum(operator_index, 0)] > instants[thread_calls]
            )
            positions[thread_calls[inside]] = count + operator_index[inside]
            count += int(last - first)
        return b"".join(part.tobytes() for part in sequence), positions


def _find_smaller_steps(group: dict[int, _StepLaunches]) -> Iterator[int]:
    by_work: defaultdict[tuple[bytes, bytes, int], list[int]] = defaultdict(list)
    for index, launches in group.items():
        key = (launches.calls.tobytes(), launches.work.tobytes(), launches.callless_rows)
        by_work[key].append(index)
    distinct = sorted(by_work.values(), key=lambda steps: -len(group[steps[0]].calls))
    witnesses = [steps for steps in distinct if steps != [0] or len(group) == 2]
    for steps in distinct:
        if any(
            _is_smaller(group[steps[0]], group[witness[0]])
            for witness in witnesses[:_MAX_WITNESSES]
            if witness is not steps
        ):
            yield from steps


def _is_smaller(step: _StepLaunches, witness: _StepLaunches) -> bool:
    """Return whether ``step`` lacks calls of ``witness``, and differs in no other way."""
    for step_pieces, witness_pieces, per_operator in (
        (step.calls, witness.calls, step.calls_per_operator),
        (step.work, witness.work, step.work_per_operator),
    ):
        missing = np.setdiff1d(witness_pieces, step_pieces, assume_unique=True)
        additional = np.setdiff1d(step_pieces, witness_pieces, assume_unique=True)
        if np.isin(additional // per_operator, missing // per_operator).any():
            return False
    return len(np.setdiff1d(witness.calls, step.calls, assume_unique=True)) > step.callless_rows
