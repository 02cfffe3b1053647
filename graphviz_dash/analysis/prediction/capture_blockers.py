"""What an eager trace shows that would stop a capture of its step, or spoil the replays.

The rules are those of the doctor (docs/doctor.md), which asks the program itself; here they are
looked for in what the profiler saw, so that no GPU is needed. A trace does not show everything:
what is not found here may still be there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, column, encode
from graphviz_dash.analysis.attribution.origins import NodeOrigin, Origins, near
from graphviz_dash.analysis.prediction.eager_step import (
    EagerStep,
    steps_of_other_work,
    work_signature,
)
from graphviz_dash.analysis.trace.api_calls import CallClass, call_class
from graphviz_dash.analysis.trace.intervals import Nesting
from graphviz_dash.analysis.trace.lanes import link_launches
from graphviz_dash.model.doctor import RuleId
from graphviz_dash.model.rules import RULES, Rule

if TYPE_CHECKING:
    from graphviz_dash.model.trace import Trace

_READS: Final = ("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal")
_SIZES: Final = (
    "aten::nonzero", "aten::masked_select", "aten::unique", "aten::_unique", "aten::unique_dim",
    "aten::repeat_interleave", "aten::linalg_",
)  # fmt: skip
_ADAM: Final = ("Optimizer.step#Adam", "Optimizer.step#NAdam", "Optimizer.step#RAdam")
_METHOD: Final = "trace"
_OPS_TOGETHER: Final = 200_000
"""About so many operators are looked through at once: all those of a long trace take gigabytes."""
_ALLOCATOR: Final = "torch's caching allocator"
"""Stands for the operators in which memory was allocated."""


_Key: TypeAlias = tuple[RuleId, str | None, str | None, str | None]
"""Rule, operator, module, source."""


class SeenCalls(Struct, frozen=True):
    """CUDA calls that a capture forbids, each with the copy that it made, if it made one."""

    calls: tuple[tuple[str, str | None], ...]


class OptimizerRead(Struct, frozen=True):
    """A read of a number on the CPU, as an optimizer without capturable=True does it."""

    optimizer: str


class StepDifference(Struct, frozen=True):
    """Steps whose work is not that of the others."""

    unlike: int
    """How many steps differ."""
    steps: int
    """How many steps the trace has."""
    only_first: bool
    """Whether the first step alone differs, which may still warm up."""
    usual_items: int
    """Pieces of work in the typical step."""
    other_items: int
    """Pieces of work in the last step that differs."""
    usual: str | None
    """Name of the first piece in which they differ, in the typical step; None at its end."""
    other: str | None
    """Name of the first piece in which they differ, in the other step; None at its end."""


Seen: TypeAlias = SeenCalls | OptimizerRead | StepDifference


class Blocker(Struct, frozen=True):
    """A place in the step that breaks a rule of capture."""

    rule: Rule
    """The doctor's rule."""
    certain: bool
    """False where the trace makes it only likely."""
    op: str | None
    """The operator around it; None with the call alone."""
    module: str | None
    """Its module; None where the trace does not tell."""
    source: str | None
    """Its source line; None where the trace does not tell."""
    seen: Seen
    """What was seen: calls, an optimizer's read, or how steps differ."""
    count: int
    """How often a step comes by."""
    cpu_ns: int
    """What the calls take in a traced step, in ns."""
    steps: int
    """In how many of the traced steps it was seen."""


def capture_blockers(trace: Trace, step: EagerStep) -> tuple[Blocker, ...]:
    """What would stop a capture of the steps of ``trace``: the certain ones first, of these those
    that take the most time."""
    blockers = [*_calls(trace, step), *_optimizers(trace, step), *_differences(trace, step)]
    return tuple(
        sorted(blockers, key=lambda blocker: (not blocker.certain, -blocker.cpu_ns, -blocker.count))
    )


class _Call(Struct, frozen=True):
    """A call in question."""

    row: int
    """Its row of ``trace.runtime``."""
    step: int
    """Index of its step."""
    name: str
    """Name of the API call."""
    kind: CallClass
    """What the call does."""
    copy: str | None
    """Name of the copy that it made, or that it waits for; None for no copy."""


def _calls(trace: Trace, step: EagerStep) -> Iterator[Blocker]:
    calls = _in_question(trace, step)
    if not calls:
        return
    duration = column(trace.runtime, "dur")
    bounds = _submits(trace, step)
    groups: dict[_Key, list[_Call]] = {}
    for call, origin in _with_origins(trace, step, calls):
        # Waiting before the first launch of a step or behind its last, outside any operator, is
        # what loops and profilers do: no capture has begun then, or it has ended.
        first, last = bounds[call.step]
        waits = call.kind is CallClass.SYNCHRONISE and origin.op is None
        if waits and not first < call.row < last:
            continue
        rule = _rule(call, origin)
        if rule is RuleId.FORBIDDEN_CALL and origin.op is not None:
            # The caching allocator grows wherever it happens to: one finding for all.
            key: _Key = (rule, _ALLOCATOR, None, None)
        else:
            key = (rule, origin.op, origin.module, origin.source)
        groups.setdefault(key, []).append(call)
    for (rule, op, module, source), rows in groups.items():
        by_call = Counter((call.step, call.name) for call in rows)
        visited = {call.step for call in rows}
        yield Blocker(
            rule=RULES[rule],
            # torch lets its allocator allocate in a capture, which other libraries must not.
            certain=op != _ALLOCATOR,
            op=op,
            module=module,
            source=source,
            seen=_seen(rows),
            count=max(by_call.values()),
            cpu_ns=sum(int(duration[call.row]) for call in rows) // len(visited),
            steps=len(visited),
        )


def _with_origins(
    trace: Trace, step: EagerStep, calls: list[_Call]
) -> Iterator[tuple[_Call, NodeOrigin]]:
    """The calls with their origins, found for some steps at a time."""
    starts = [traced_step.start for traced_step in step.steps]
    ops = np.searchsorted(column(trace.ops, "ts"), starts) // _OPS_TOGETHER
    for _, some in groupby(calls, lambda call: int(ops[call.step])):
        group = list(some)
        first, last = step.steps[group[0].step], step.steps[group[-1].step]
        # Twice the length of the first of these steps before it, not of all of them.
        around = near(trace, first.start, last.end, margin=2 * first.duration_ns)
        origins = Origins(around, np.array([call.row for call in group], dtype=np.int64))
        for index, call in enumerate(group):
            yield call, origins.origin(index, _METHOD, 1.0)


def _seen(calls: list[_Call]) -> SeenCalls:
    return SeenCalls(
        tuple(
            dict.fromkeys(
                (call.name, call.copy if call.kind is CallClass.COPY else None) for call in calls
            )
        )
    )


def _in_question(trace: Trace, step: EagerStep) -> list[_Call]:
    """Calls of the steps that wait, allocate, or copy from or to memory that is not pinned."""
    start, thread = column(trace.runtime, "ts"), column(trace.runtime, "tid")
    codes, names = encode(trace.runtime["name"])
    kinds = [call_class(name) for name in names]
    copies = _copies(trace)
    calls: list[_Call] = []
    latest: dict[int, str | None] = {}
    for number, traced_step in enumerate(step.steps):
        first, stop = np.searchsorted(start, [traced_step.start, traced_step.end])
        for row in range(int(first), int(stop)):
            name, kind, mine = names[codes[row]], kinds[codes[row]], int(thread[row])
            copy = copies.get(row)
            if kind is CallClass.COPY:
                latest[mine] = copy if copy and "Pageable" in copy else None
                if latest[mine] or "Async" not in name:
                    calls.append(_Call(row, number, name, kind, copy))
            elif kind is CallClass.SYNCHRONISE:
                calls.append(_Call(row, number, name, kind, latest.get(mine)))
            elif kind is CallClass.MEMORY and "Async" not in name:
                calls.append(_Call(row, number, name, kind, None))
            elif kind is CallClass.KERNEL_LAUNCH:
                latest[mine] = None
    return calls


def _copies(trace: Trace) -> dict[int, str]:
    """The name of the copy that each row of the calls made."""
    links = link_launches(
        column(trace.gpu, "correlation"), column(trace.runtime, "correlation")
    ).launch
    rows = np.flatnonzero((trace.gpu["kind"] == "memcpy").to_numpy() & (links >= 0))
    names = trace.gpu["name"].gather(rows).to_list()
    return {call: name or "" for call, name in zip(links[rows].tolist(), names, strict=True)}


def _submits(trace: Trace, step: EagerStep) -> list[tuple[int, int]]:
    """For each step the rows of its first and its last call that submit work; no row lies between
    those of a step without any."""
    start = column(trace.runtime, "ts")
    codes, names = encode(trace.runtime["name"])
    submits = (CallClass.KERNEL_LAUNCH, CallClass.COPY, CallClass.GRAPH_LAUNCH)
    flags = np.array([call_class(name) in submits for name in names], dtype=np.bool_)
    rows = np.flatnonzero(flags[codes]) if len(names) else np.zeros(0, dtype=np.int64)
    # The table is in the order of its starts.
    spans = np.array(
        [(traced_step.start, traced_step.end) for traced_step in step.steps], dtype=np.int64
    ).reshape(-1, 2)
    first, stop = np.searchsorted(start[rows], spans).T
    return [
        (int(rows[begin]), int(rows[last - 1])) if last > begin else (-1, -1)
        for begin, last in zip(first.tolist(), stop.tolist(), strict=True)
    ]


def _rule(call: _Call, origin: NodeOrigin) -> RuleId:
    if call.kind is CallClass.MEMORY:
        return RuleId.FORBIDDEN_CALL
    if any(op.startswith(_SIZES) for op in origin.op_path):
        return RuleId.SYNC_SHAPE
    if any(op in _READS for op in origin.op_path):
        return RuleId.SYNC_VALUE
    if call.copy and "DtoH" in call.copy:
        return RuleId.SYNC_COPY
    if call.copy and "HtoD" in call.copy:
        return RuleId.UNPINNED_COPY
    return RuleId.SYNC_CALL if call.kind is CallClass.SYNCHRONISE else RuleId.FORBIDDEN_CALL


def _optimizers(trace: Trace, step: EagerStep) -> Iterator[Blocker]:
    """Adam and its relatives that read their step count on the CPU, which capturable ones do not:
    a value is read, and nothing is waited for."""
    marks = trace.annotations
    names = marks["name"].to_list()
    rows = [row for row, name in enumerate(names) if name and name.startswith(_ADAM)]
    if not rows or not len(trace.ops):
        return
    reads = trace.ops.select("ts", "dur", "tid").filter(trace.ops["name"] == "aten::item")
    start, end = _spans(reads)
    thread = column(reads, "tid")
    waited = Nesting.build(start, end - start, thread).around(*_waits(trace))
    on_cpu = np.setdiff1d(np.arange(len(reads)), waited)
    begin, stop = _spans(marks)
    tids = column(marks, "tid")
    counts: dict[str, list[int]] = {}
    for row in rows:
        inside = (
            (start[on_cpu] >= begin[row])
            & (start[on_cpu] < stop[row])
            & (thread[on_cpu] == tids[row])
        )
        if count := int(np.count_nonzero(inside)):
            counts.setdefault(str(names[row]), []).append(count)
    for name, read_counts in counts.items():
        optimizer = name.removeprefix("Optimizer.step#")
        yield Blocker(
            rule=RULES[RuleId.OPTIMIZER_CAPTURABLE],
            certain=False,
            op=optimizer,
            module=None,
            source=None,
            seen=OptimizerRead(optimizer),
            count=max(read_counts),
            cpu_ns=0,
            steps=min(len(read_counts), len(step.steps)),
        )


def _waits(trace: Trace) -> tuple[Ints, Ints]:
    codes, names = encode(trace.runtime["name"])
    wanted = np.array([call_class(name) is CallClass.SYNCHRONISE for name in names], dtype=np.bool_)
    rows = np.flatnonzero(wanted[codes]) if len(names) else np.zeros(0, dtype=np.int64)
    return column(trace.runtime, "ts")[rows], column(trace.runtime, "tid")[rows]


def _spans(table: object) -> tuple[Ints, Ints]:
    start = column(table, "ts")  # type: ignore[arg-type]  # any table of a trace
    return start, start + np.maximum(column(table, "dur"), 1)  # type: ignore[arg-type]


def _differences(trace: Trace, step: EagerStep) -> Iterator[Blocker]:
    """Steps whose work is not that of the others, by the first item at which they part."""
    # Another choice of streams is no difference: a graph keeps those of its capture.
    unlike = steps_of_other_work(trace, step)
    if not unlike:
        return
    usual = work_signature(trace, step.steps[step.matching[0]])
    # The first step may still warm up: a later one shows what the program does.
    other = work_signature(trace, step.steps[unlike[-1]])
    pairs = zip(usual.looks, other.looks, strict=False)
    shorter = min(len(usual.looks), len(other.looks))
    first_difference = next(
        (at for at, (own_look, other_look) in enumerate(pairs) if own_look != other_look), shorter
    )
    around = other if first_difference < len(other.looks) else usual
    launch = around.launches[first_difference : first_difference + 1]
    shown = step.steps[unlike[-1] if around is other else step.matching[0]]
    origin = None
    if (launch >= 0).all():
        origin = Origins(near(trace, shown.start, shown.end), launch).origin(0, _METHOD, 1.0)
    same_work = [look[:2] for look in usual.looks] == [look[:2] for look in other.looks]
    only_first = unlike == (0,)
    yield Blocker(
        rule=RULES[RuleId.CHANGING_SHAPE if same_work else RuleId.CONTROL_FLOW],
        certain=not only_first,
        op=origin.op if origin else None,
        module=origin.module if origin else None,
        source=origin.source if origin else None,
        seen=StepDifference(
            unlike=len(unlike),
            steps=len(step.steps),
            only_first=only_first,
            usual_items=len(usual.looks),
            other_items=len(other.looks),
            usual=_name(usual.looks, first_difference),
            other=_name(other.looks, first_difference),
        ),
        count=1,
        cpu_ns=0,
        steps=len(unlike),
    )


def _name(looks: list[tuple[object, ...]], index: int) -> str | None:
    return str(looks[index][1]) if index < len(looks) else None
