"""Steps that lost calls together with their GPU work, and kernels that lost only their launch.

Operators show lost calls if no launch lacks work: a profiler that loses a call keeps the operator
around it. Launches outside operators prove nothing, because Python may decide about them. Work
whose call was lost could be of any operator, so steps with such work must contain all work of the
others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Flags, Ints, encode, get_column, get_threads
from graphviz_dash.analysis.trace.api_calls import get_call_class
from graphviz_dash.analysis.trace.lanes import Links
from graphviz_dash.analysis.trace.signatures import find_distinct_rows
from graphviz_dash.analysis.trace.steps import LAUNCHES, PROFILER_STEP, Step
from graphviz_dash.model.trace import Trace

_MAX_WITNESSES: Final = 30
"""Maximum different steps that each step is compared with."""
_LOOKS: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "bytes")


class _Pieces(Struct, frozen=True):
    """Calls or work at operators, as ascending distinct numbers.

    Equal pieces at the same operator have equal numbers.
    """

    numbers: Ints
    codes_count: int
    stride: int
    """Count of numbers for pieces of the same code at one operator."""

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def operators(self) -> Ints:
        """Operator of each piece."""
        return self.numbers // (self.codes_count * self.stride)

    @property
    def codes(self) -> Ints:
        """Code of each piece."""
        return self.numbers // self.stride % self.codes_count

    def subtract(self, other: _Pieces) -> _Pieces:
        """Return the pieces that ``other`` lacks."""
        return self._keep(~np.isin(self.numbers, other.numbers))

    def select(self, codes: Ints) -> _Pieces:
        """Return the pieces with one of ``codes``."""
        return self._keep(np.isin(self.codes, codes))

    def _keep(self, flags: Flags) -> _Pieces:
        return _Pieces(self.numbers[flags], self.codes_count, self.stride)


class _StepLaunches(Struct, frozen=True):
    """Calls and GPU work of a step inside its operators."""

    calls: _Pieces
    work: _Pieces
    known_work: _Pieces
    """The same and kernels that lost their call, as if there were one operator."""
    possible_work: _Pieces
    """The same and all rows without a call."""
    callless_rows: int
    """Rows of work without a call, whose operator is unknown."""
    lost_calls: int
    """Kernels that lost their call."""


def find_incomplete_launches(trace: Trace, links: Links, steps: Sequence[Step]) -> frozenset[int]:
    """Find the steps that lack launches of others that ran the same operators.

    Steps whose operators launched other work, such as that of another size, are not compared. The
    first step, which may be a warm-up, only shows losses of the second if no other is comparable.
    """
    if len(steps) < 2 or not len(trace.ops):
        return frozenset()
    codes, names = encode(trace.runtime["name"])
    is_launch = np.array([get_call_class(name) in LAUNCHES for name in names], dtype=np.bool_)
    launches = np.flatnonzero(is_launch[codes])
    has_all_work = bool(np.isin(launches, links.launch).all())
    if has_all_work and _have_equal_work(trace, steps):
        return frozenset()
    incomplete: set[int] = set()
    for group in _group_by_operators(trace, links, steps, launches):
        incomplete.update(_find_smaller_steps(group))
    return frozenset(incomplete)


def _have_equal_work(trace: Trace, steps: Sequence[Step]) -> bool:
    """Compare the names of the work, which takes little time."""
    names = trace.gpu["name"].to_physical().to_numpy()
    return len({np.sort(names[step.gpu_rows]).tobytes() for step in steps}) == 1


def _group_by_operators(
    trace: Trace, links: Links, steps: Sequence[Step], launches: Ints
) -> Iterator[dict[int, _StepLaunches]]:
    """Yield each group of steps that ran the same operators, by index.

    ``launches`` are runtime rows.
    """
    operators = _Operators(trace)
    looks = _encode_looks(trace)
    codes, _ = encode(trace.runtime["name"])
    starts, threads = get_column(trace.runtime, "ts"), get_threads(trace.runtime)
    is_stray = _find_stray_kernels(trace, links)
    groups: defaultdict[bytes, dict[int, _StepLaunches]] = defaultdict(dict)
    for index, step in enumerate(steps):
        first, last = np.searchsorted(starts[launches], [step.start, step.end])
        calls = launches[first:last]
        sequence, positions = operators.locate(step, starts[calls], threads[calls])
        rows = step.gpu_rows[np.isin(links.launch[step.gpu_rows], calls)]
        of_rows = positions[np.searchsorted(calls, links.launch[rows])]
        stray = step.gpu_rows[is_stray[step.gpu_rows]]
        inside = rows[of_rows >= 0]
        callless = step.gpu_rows[links.launch[step.gpu_rows] < 0]
        groups[sequence][index] = _StepLaunches(
            _number_pieces(positions, calls, codes.astype(np.int64)),
            _number_pieces(of_rows, rows, looks),
            _number_pieces_at_once(np.concatenate((inside, stray)), looks),
            _number_pieces_at_once(np.concatenate((inside, callless)), looks),
            len(callless),
            len(stray),
        )
    yield from groups.values()


def _find_stray_kernels(trace: Trace, links: Links) -> Flags:
    """Return which kernels lost their call.

    If the same kernels never have a call, the profiler does not record their calls.
    """
    kernel: Flags = (trace.gpu["kind"] == "kernel").fill_null(False).to_numpy()
    has_call = links.launch >= 0
    is_stray: Flags = kernel & ~has_call & (get_column(trace.gpu, "correlation") > 0)
    names = trace.gpu["name"].to_physical().to_numpy()
    return is_stray & bool(np.isin(names[is_stray], names[has_call]).any())


def _number_pieces(positions: Ints, rows: Ints, codes: Ints) -> _Pieces:
    """Number the ``rows`` with ``codes`` that run at the operators ``positions``."""
    inside = positions >= 0
    codes_count, stride = int(codes.max(initial=0)) + 1, len(codes) + 1
    keys = np.sort((positions[inside] * codes_count + codes[rows[inside]]) * stride)
    # The occurrence makes equal pieces at one operator different.
    numbers = keys + np.arange(len(keys)) - np.searchsorted(keys, keys)
    return _Pieces(numbers, codes_count, stride)


def _number_pieces_at_once(rows: Ints, codes: Ints) -> _Pieces:
    return _number_pieces(np.zeros(len(rows), dtype=np.int64), rows, codes)


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
    by_work: defaultdict[tuple[bytes, int, int], list[int]] = defaultdict(list)
    for index, step in group.items():
        numbers = [
            part.numbers for part in (step.calls, step.work, step.possible_work, step.known_work)
        ]
        key = (b"|".join(part.tobytes() for part in numbers), step.callless_rows, step.lost_calls)
        by_work[key].append(index)
    distinct = sorted(
        by_work.values(), key=lambda steps: -len(group[steps[0]].calls) - group[steps[0]].lost_calls
    )
    witnesses = [steps for steps in distinct if steps != [0] or len(group) == 2]
    for steps in distinct:
        others = [w for w in witnesses[:_MAX_WITNESSES] if w is not steps]
        if _is_smaller(group[steps[0]], [group[witness[0]] for witness in others]):
            yield from steps


def _is_smaller(step: _StepLaunches, witnesses: Sequence[_StepLaunches]) -> bool:
    """Return whether ``step`` lacks calls or work of witnesses that differ in no other way."""
    comparable = [witness for witness in witnesses if not _is_other_work(step, witness)]
    if any(_is_lacking_work(step, witness) for witness in comparable):
        return True
    missing_calls = {
        call
        for witness in comparable
        for call in witness.calls.subtract(step.calls).numbers.tolist()
    }
    return len(missing_calls) > step.callless_rows


def _is_lacking_work(step: _StepLaunches, witness: _StepLaunches) -> bool:
    """Return whether ``step`` lacks work of ``witness``, if the operator of some is unknown."""
    has_callless_rows = bool(step.callless_rows or witness.callless_rows)
    return has_callless_rows and len(witness.known_work.subtract(step.possible_work)) > 0


def _is_other_work(step: _StepLaunches, witness: _StepLaunches) -> bool:
    """Return whether operators of ``step`` run other calls or work, such as that of another size.

    Work without a call may be that which seems to differ.
    """
    missing, additional = witness.work.subtract(step.work), step.work.subtract(witness.work)
    if not (step.callless_rows or witness.callless_rows):
        calls = witness.calls.subtract(step.calls), step.calls.subtract(witness.calls)
        return _share_operators(missing, additional) or _share_operators(*calls)
    lost_work = witness.known_work.subtract(step.possible_work)
    extra_work = step.known_work.subtract(witness.possible_work)
    return _share_operators(missing.select(lost_work.codes), additional.select(extra_work.codes))


def _share_operators(missing: _Pieces, additional: _Pieces) -> bool:
    return bool(np.isin(additional.operators, missing.operators).any())


def measure_delay(steps: Sequence[Step], delays: Ints, has_launch: Flags) -> int:
    """Return the longest delay that all launches of a step have, as with shifted clocks."""
    gpu_rows = [step.gpu_rows[has_launch[step.gpu_rows]] for step in steps]
    return max((int(delays[rows].min()) for rows in gpu_rows if len(rows)), default=0)


class StrayKernels:
    """Kernels without a launch, which may belong to another step than their times suggest."""

    def __init__(
        self, begin: Ints, launch_ns: Ints, stray: Flags, error_ns: tuple[int, int]
    ) -> None:
        """``error_ns`` holds by how much they may seem early and late."""
        self._all_begin = begin
        self._early, self._late = error_ns
        self._begin: Ints = begin[stray]
        self._is_pending: Flags = launch_ns[stray] < 0

    def find_near(self, step: Step) -> Flags:
        """Find those that run in ``step``, or may with the error of the clocks."""
        first, last = step.start - self._early, step.end + self._late
        return (self._begin >= first) & (self._begin < last)

    def has_lost_calls(self, step: Step, first_call_ns: int) -> bool:
        """Return whether lost calls of ``step`` may have launched some.

        Ids ascend with calls. A step after the first call in the trace, at ``first_call_ns``, made
        no call that precedes it.
        """
        in_reach = self.find_near(step)
        if first_call_ns < step.start:
            in_reach = in_reach & ~self._is_pending
        return bool(in_reach.any())

    def is_uncertain(self, step: Step) -> bool:
        """Return whether ``step`` may have gained or lost such kernels.

        Those that seem to precede the trace are pending work of earlier steps if the step's work
        starts after the CPU has left it.
        """
        in_reach = self.find_near(step)
        inner = (self._begin >= step.start + self._late) & (self._begin < step.end - self._early)
        rows = step.gpu_rows
        if not len(rows):
            return bool(len(self._begin))  # the work may be that of this step
        if self._all_begin[rows].min() >= step.end:
            in_reach = in_reach & ~self._is_pending
        return bool((in_reach & (self._is_pending | ~inner)).any())
