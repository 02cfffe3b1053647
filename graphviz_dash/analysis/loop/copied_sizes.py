"""The real sizes of steps by what a program copies into the static inputs of its graphs.

A server writes the rows of a batch into a buffer that its graphs read, right before it replays: a
copy of so many rows, each of one width in bytes. The trace shows the bytes and not the width. Of
the copies in one place before the replays the width is the one number that divides all of them and
leads every step to the graph that was replayed: more rows than the next smaller graph has, and no
more than its own. Where none or several do, where fewer than FEWEST_SIZES different sizes were
replayed (a copy of constant size would pass), or where every copy is as large as the padded size
(it was padded before it was copied), the copies tell nothing, and the size stays unknown.
"""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from graphviz_dash.analysis.arrays import Ints, column, encode
from graphviz_dash.analysis.trace.api_calls import CallClass, call_class
from graphviz_dash.analysis.trace.lanes import link_launches
from graphviz_dash.model.loop import GraphFamily, ProgramLoop, StepKind
from graphviz_dash.model.marks import STEP

if TYPE_CHECKING:
    from graphviz_dash.model.trace import Trace

FEWEST_SIZES: Final = 3
"""Different padded sizes among the traced steps from which their copies can tell anything."""

_UNKNOWN: Final = -1
_PLACES: Final = 32
"""Copies before a replay that are looked at, the last ones."""
_INWARD: Final = ("Memcpy DtoD", "Memcpy HtoD")
"""Copies that may fill an input."""


def copies_may_tell(loop: ProgramLoop | None) -> bool:
    """Whether steps in the traced window replayed graphs of known size and nothing says what size
    was asked for."""
    if loop is None:
        return False
    steps = loop.steps
    return any(
        row is not None and steps.padded[row] is not None and steps.real[row] is None
        for row in loop.window_steps
    )


def copied_sizes(loop: ProgramLoop, trace: Trace) -> dict[int, int]:
    """The real sizes of steps of the traced window, by their rows in ``loop.steps``: of those whose
    size nothing else tells, and as far as the copies of ``trace`` do. Near-linear in its rows."""
    by_family: dict[int, dict[int, Ints]] = {}
    for row, copied in _copies_before(loop, trace).items():
        family = loop.steps.family[row]
        if family is not None and loop.steps.padded[row] is not None:
            by_family.setdefault(family, {})[row] = copied
    sizes: dict[int, int] = {}
    for number, copies in by_family.items():
        rows = list(copies)
        padded = np.array([loop.steps.padded[row] or 0 for row in rows], dtype=np.int64)
        below = np.array([_next_smaller(loop, number, row) for row in rows], dtype=np.int64)
        if len(np.unique(padded)) < FEWEST_SIZES or not padded.all():
            continue
        told = [
            real
            for place in range(1, min(_PLACES, *map(len, copies.values())) + 1)
            if (real := _real_sizes(_last(copies, place), padded, below)) is not None
        ]
        if told:
            alike = (np.stack(told) == told[0]).all(axis=0)
            real_sizes = zip(rows, told[0].tolist(), alike.tolist(), strict=True)
            sizes |= {row: real for row, real, agreed in real_sizes if agreed}
    return sizes


def _last(copies: dict[int, Ints], place: int) -> Ints:
    """The copy at that place from the replay backwards, of each step."""
    return np.array([copied[-place] for copied in copies.values()], dtype=np.int64)


def _next_smaller(loop: ProgramLoop, number: int, row: int) -> int:
    """The size of the next smaller graph that would have served the step; 0 where there is none."""
    family, member = loop.families[number], loop.steps.member[row]
    own = _split(family, member)
    if own is None:
        return 0
    others = (_split(family, place) for place in range(len(family.members)))
    return max((o[0] for o in others if o is not None and o[1] == own[1] and o < own), default=0)


def _split(family: GraphFamily, member: int | None) -> tuple[int, tuple[int, ...]] | None:
    """The padded number of a member's key, and the others."""
    axis = family.size_axis
    key = None if member is None else family.members[member].key
    return None if key is None or axis is None else (key[axis], (*key[:axis], *key[axis + 1 :]))


def _real_sizes(copied: Ints, padded: Ints, below: Ints) -> Ints | None:
    """How many rows each copy is of; None where that is not told."""
    if (copied <= 0).any():
        return None
    lowest = int((-(-copied // padded)).max())
    highest = int(np.where(below > 0, (copied - 1) // np.maximum(below, 1), copied).min())
    divisor = int(np.gcd.reduce(copied))
    small = np.arange(1, isqrt(divisor) + 1, dtype=np.int64)
    small = small[divisor % small == 0]
    widths = np.union1d(small, divisor // small)
    widths = widths[(widths >= lowest) & (widths <= highest)]
    if len(widths) != 1:
        return None
    real = np.asarray(copied // widths[0], dtype=np.int64)
    return real if (real < padded).any() else None


def _copies_before(loop: ProgramLoop, trace: Trace) -> dict[int, Ints]:
    """The bytes of the copies that may fill inputs between a step's first replay and the replay
    before, in the thread that is traced, by the steps' rows; none of steps whose real size is
    known, or where several threads take steps."""
    steps = loop.steps
    wanted = {
        number: row
        for number, row in enumerate(loop.window_steps)
        if row is not None
        and steps.real[row] is None
        and steps.kind[row] in (StepKind.REPLAY, StepKind.SEGMENTS)
    }
    if len({steps.thread[row] for row in wanted.values()}) != 1:
        return {}
    calls, launches, sizes = _submitted(trace)
    called, thread = column(trace.runtime, "ts")[calls], column(trace.runtime, "tid")[calls]
    at = np.flatnonzero(launches)
    copies: dict[int, Ints] = {}
    marks = trace.annotations.filter(trace.annotations["name"].str.starts_with(STEP))
    for name, begin, length, tid in marks.select("name", "ts", "dur", "tid").rows():
        row = wanted.get(int(name.removeprefix(STEP)))
        if row is None:
            continue
        inside = at[(thread[at] == tid) & (called[at] >= begin) & (called[at] <= begin + length)]
        family, member = steps.family[row], steps.member[row]
        if family is None or member is None:
            continue
        segments = len(loop.families[family].members[member].graphs)
        if len(inside) < segments:
            continue
        first = int(inside[-segments])
        own = np.flatnonzero((thread[:first] != tid) | launches[:first])
        before = slice(int(own[-1]) + 1 if len(own) else 0, first)
        copies[row] = sizes[before][sizes[before] != _UNKNOWN]
    return copies


def _submitted(trace: Trace) -> tuple[Ints, Ints, Ints]:
    """The calls that copy or launch graphs, by thread and time: their rows of the runtime table,
    which of them launch graphs, and the bytes of copies that may fill inputs."""
    codes, names = encode(trace.runtime["name"])
    classes = [call_class(name) for name in names]
    launching = np.array([call is CallClass.GRAPH_LAUNCH for call in classes], dtype=bool)[codes]
    copying = np.array([call is CallClass.COPY for call in classes], dtype=bool)[codes]
    calls = np.flatnonzero(launching | copying)
    thread, called = column(trace.runtime, "tid")[calls], column(trace.runtime, "ts")[calls]
    calls = calls[np.lexsort((called, thread))]
    sizes = np.full(trace.runtime.height, _UNKNOWN, dtype=np.int64)
    gpu_codes, gpu_names = encode(trace.gpu["name"])
    inward = np.array([name.startswith(_INWARD) for name in gpu_names], dtype=bool)[gpu_codes]
    launch = link_launches(
        column(trace.gpu, "correlation"), column(trace.runtime, "correlation")
    ).launch
    rows = np.flatnonzero(inward & (launch >= 0))
    sizes[launch[rows]] = column(trace.gpu, "bytes")[rows]
    return calls, launching[calls], sizes[calls]
