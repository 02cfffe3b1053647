"""Real sizes of steps, inferred from copies into static graph inputs.

The trace shows the bytes of a copy but not its row width. The width is the unique number that
divides all copies at one position and maps every step to its replayed graph. The size stays unknown
without exactly one such width, with fewer than MIN_SIZES sizes, or if every copy has the padded
size.
"""

from __future__ import annotations

from math import isqrt
from typing import Final

import numpy as np

from graphviz_dash.analysis.arrays import Ints, encode, get_column, get_threads
from graphviz_dash.analysis.trace.api_calls import CallClass, get_call_class
from graphviz_dash.analysis.trace.lanes import link_trace_launches
from graphviz_dash.model.loop import GraphFamily, ProgramLoop, StepKind
from graphviz_dash.model.marks import STEP, UNFINISHED_STEP
from graphviz_dash.model.trace import Trace

MIN_SIZES: Final = 3
"""Padded sizes among the traced steps that are needed for inferring real sizes."""

_UNKNOWN: Final = -1
_MAX_COPIES: Final = 32
"""Copies examined before a replay."""
_INPUT_COPIES: Final = ("Memcpy DtoD", "Memcpy HtoD")
"""Copies that may fill an input."""


def can_infer_sizes(loop: ProgramLoop | None) -> bool:
    """Check whether traced steps replayed graphs of known size with unknown real sizes."""
    if loop is None:
        return False
    steps = loop.steps
    return any(
        row is not None and steps.padded_size[row] is not None and steps.real_size[row] is None
        for row in loop.window_rows
    )


def infer_copied_sizes(loop: ProgramLoop, trace: Trace) -> dict[int, int]:
    """Infer unknown real sizes in the traced window, by row in ``loop.steps``."""
    by_family: dict[int, dict[int, Ints]] = {}
    for row, copied_bytes in _collect_copies(loop, trace).items():
        family = loop.steps.family[row]
        if family is not None and loop.steps.padded_size[row] is not None:
            by_family.setdefault(family, {})[row] = copied_bytes
    sizes: dict[int, int] = {}
    for number, copies in by_family.items():
        rows = list(copies)
        padded_sizes = np.array([loop.steps.padded_size[row] or 0 for row in rows], dtype=np.int64)
        smaller = np.array([_find_next_smaller(loop, number, row) for row in rows], dtype=np.int64)
        if len(np.unique(padded_sizes)) < MIN_SIZES or not padded_sizes.all():
            continue
        candidates = [
            real
            for position in range(1, min(_MAX_COPIES, *map(len, copies.values())) + 1)
            if (real := _infer_real_sizes(_get_copy_at(copies, position), padded_sizes, smaller))
            is not None
        ]
        if candidates:
            agreement = (np.stack(candidates) == candidates[0]).all(axis=0)
            real_sizes = zip(rows, candidates[0].tolist(), agreement.tolist(), strict=True)
            sizes |= {row: real for row, real, is_agreed in real_sizes if is_agreed}
    return sizes


def _get_copy_at(copies: dict[int, Ints], position: int) -> Ints:
    return np.array([copied_bytes[-position] for copied_bytes in copies.values()], dtype=np.int64)


def _find_next_smaller(loop: ProgramLoop, number: int, row: int) -> int:
    family, member = loop.families[number], loop.steps.member[row]
    member_key = _split_key(family, member)
    if member_key is None:
        return 0
    others = (_split_key(family, position) for position in range(len(family.members)))
    return max(
        (
            other[0]
            for other in others
            if other is not None and other[1] == member_key[1] and other < member_key
        ),
        default=0,
    )


def _split_key(family: GraphFamily, member: int | None) -> tuple[int, tuple[int, ...]] | None:
    axis = family.size_axis
    key = None if member is None else family.members[member].key
    return None if key is None or axis is None else (key[axis], (*key[:axis], *key[axis + 1 :]))


def _infer_real_sizes(copied: Ints, padded: Ints, smaller: Ints) -> Ints | None:
    """Infer the number of rows of each copy; None if ambiguous."""
    if (copied <= 0).any():
        return None
    lowest = int((-(-copied // padded)).max())
    highest = int(np.where(smaller > 0, (copied - 1) // np.maximum(smaller, 1), copied).min())
    divisor = int(np.gcd.reduce(copied))
    small = np.arange(1, isqrt(divisor) + 1, dtype=np.int64)
    small = small[divisor % small == 0]
    widths = np.union1d(small, divisor // small)
    widths = widths[(widths >= lowest) & (widths <= highest)]
    if len(widths) != 1:
        return None
    real = np.asarray(copied // widths[0], dtype=np.int64)
    return real if (real < padded).any() else None


def _collect_copies(loop: ProgramLoop, trace: Trace) -> dict[int, Ints]:
    """Collect the bytes of copies between a step's first replay and the previous replay, by row.

    Empty if several threads run steps.
    """
    steps = loop.steps
    rows_by_number = {
        number: row
        for number, row in enumerate(loop.window_rows)
        if row is not None
        and steps.real_size[row] is None
        and steps.kind[row] in (StepKind.REPLAY, StepKind.SEGMENTS)
    }
    if len({steps.thread[row] for row in rows_by_number.values()}) != 1:
        return {}
    calls, launches, sizes = _collect_calls(trace)
    call_starts, thread = get_column(trace.runtime, "ts")[calls], get_threads(trace.runtime)[calls]
    launch_rows = np.flatnonzero(launches)
    copies: dict[int, Ints] = {}
    marks = trace.annotations.filter(
        trace.annotations["name"].str.starts_with(STEP)
        & (trace.annotations["name"] != UNFINISHED_STEP)
    )
    mark_threads = get_threads(marks).tolist()
    for (name, start, length), mark_thread in zip(
        marks.select("name", "ts", "dur").rows(), mark_threads, strict=True
    ):
        row = rows_by_number.get(int(name.removeprefix(STEP)))
        if row is None:
            continue
        inside = launch_rows[
            (thread[launch_rows] == mark_thread)
            & (call_starts[launch_rows] >= start)
            & (call_starts[launch_rows] <= start + length)
        ]
        family, member = steps.family[row], steps.member[row]
        if family is None or member is None:
            continue
        segments = len(loop.families[family].members[member].graphs)
        if len(inside) < segments:
            continue
        first = int(inside[-segments])
        boundaries = np.flatnonzero((thread[:first] != mark_thread) | launches[:first])
        copy_range = slice(int(boundaries[-1]) + 1 if len(boundaries) else 0, first)
        copies[row] = sizes[copy_range][sizes[copy_range] != _UNKNOWN]
    return copies


def _collect_calls(trace: Trace) -> tuple[Ints, Ints, Ints]:
    """Collect calls that copy or launch graphs, by thread and time.

    Returns runtime rows, a mask of graph launches, and input copy bytes.
    """
    codes, names = encode(trace.runtime["name"])
    classes = [get_call_class(name) for name in names]
    launching = np.array([call is CallClass.GRAPH_LAUNCH for call in classes], dtype=bool)[codes]
    copying = np.array([call is CallClass.COPY for call in classes], dtype=bool)[codes]
    calls = np.flatnonzero(launching | copying)
    thread, call_starts = get_threads(trace.runtime)[calls], get_column(trace.runtime, "ts")[calls]
    calls = calls[np.lexsort((call_starts, thread))]
    sizes = np.full(trace.runtime.height, _UNKNOWN, dtype=np.int64)
    gpu_codes, gpu_names = encode(trace.gpu["name"])
    inward = np.array([name.startswith(_INPUT_COPIES) for name in gpu_names], dtype=bool)[gpu_codes]
    launch = link_trace_launches(trace).launch
    rows = np.flatnonzero(inward & (launch >= 0))
    sizes[launch[rows]] = get_column(trace.gpu, "bytes")[rows]
    return calls, launching[calls], sizes[calls]
