"""Capture blockers and replay hazards of a step, from its eager trace.

The rules are the doctor's (docs/reference/rules.md), applied to profiler records, so no GPU is
needed. A trace does not show everything, so the list may be incomplete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, encode, get_column, get_threads
from graphviz_dash.analysis.attribution.origins import NodeOrigin, OriginResolver, select_near
from graphviz_dash.analysis.prediction.eager_step import (
    EagerStep,
    WorkSignature,
    get_work_signature,
)
from graphviz_dash.analysis.trace.api_calls import CallClass, get_call_class
from graphviz_dash.analysis.trace.integrity import Claim
from graphviz_dash.analysis.trace.intervals import Nesting
from graphviz_dash.analysis.trace.lanes import link_trace_launches
from graphviz_dash.analysis.trace.steps import StepMethod
from graphviz_dash.model.doctor import RuleId
from graphviz_dash.model.rules import RULES, Rule
from graphviz_dash.model.trace import Trace

_READS: Final = ("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal")
_SIZES: Final = (
    "aten::nonzero", "aten::masked_select", "aten::unique", "aten::_unique", "aten::unique_dim",
    "aten::repeat_interleave", "aten::linalg_",
)  # fmt: skip
_ADAM: Final = ("Optimizer.step#Adam", "Optimizer.step#NAdam", "Optimizer.step#RAdam")
_METHOD: Final = "trace"
_OPS_PER_BATCH: Final = 200_000
"""Approximate operators per batch; all those of a long trace would need gigabytes."""
_ALLOCATOR: Final = "torch's caching allocator"
"""Placeholder for the operators that allocated memory."""


_Key: TypeAlias = tuple[RuleId, str | None, str | None, str | None]
"""Rule, operator, module, source."""


class ForbiddenCalls(Struct, frozen=True):
    """CUDA calls that a capture forbids, each with the resulting copy or None."""

    calls: tuple[tuple[str, str | None], ...]


class OptimizerRead(Struct, frozen=True):
    """A CPU read of a number by an optimizer without capturable=True."""

    optimizer: str


class StepDifference(Struct, frozen=True):
    """Steps with different work than the others."""

    differing: int
    steps: int
    """Steps in the trace."""
    only_first: bool
    """True if only the first step differs, which may be warm-up."""
    typical_item_count: int
    differing_item_count: int
    """Pieces of work in the last differing step."""
    typical_name: str | None
    """First differing piece in the typical step; None at its end."""
    differing_name: str | None
    """The same in the other step."""


Evidence: TypeAlias = ForbiddenCalls | OptimizerRead | StepDifference


class Blocker(Struct, frozen=True):
    """A place in the step that violates a capture rule."""

    rule: Rule
    certain: bool
    """False if the trace only suggests it."""
    op: str | None
    """Enclosing operator; None if only the call is known."""
    module: str | None
    """Enclosing module; None if unknown."""
    source: str | None
    """Source line; None if unknown."""
    evidence: Evidence
    count: int
    """Occurrences per step."""
    cpu_ns: int
    """CPU time of the calls per traced step."""
    steps: int
    """Traced steps with it."""


def find_capture_blockers(trace: Trace, step: EagerStep) -> tuple[Blocker, ...]:
    """Find the capture blockers in the steps of ``trace``: certain ones first, then by CPU time."""
    blockers = [
        *_find_call_blockers(trace, step),
        *_find_optimizer_blockers(trace, step),
        *_find_step_differences(trace, step),
    ]
    return tuple(
        sorted(blockers, key=lambda blocker: (not blocker.certain, -blocker.cpu_ns, -blocker.count))
    )


class _Call(Struct, frozen=True):
    row: int
    """Row in ``trace.runtime``."""
    step: int
    name: str
    kind: CallClass
    copy: str | None
    """Name of the copy that it started or waits for; None if none."""


def _find_call_blockers(trace: Trace, step: EagerStep) -> Iterator[Blocker]:
    calls = _find_suspect_calls(trace, step)
    if not calls:
        return
    duration = get_column(trace.runtime, "dur")
    bounds = _find_submit_bounds(trace, step)
    groups: dict[_Key, list[_Call]] = {}
    for call, origin in _find_origins(trace, step, calls):
        # Waits before the first launch of a step or after its last one, outside any operator,
        # belong to the loop or the profiler: a capture has not started yet or has ended.
        first, last = bounds[call.step]
        waits = call.kind is CallClass.SYNCHRONISE and origin.op is None
        if waits and not first < call.row < last:
            continue
        rule = _determine_rule(call, origin)
        if rule is RuleId.FORBIDDEN_CALL and origin.op is not None:
            # One finding for the caching allocator, which can grow at any allocation.
            key: _Key = (rule, _ALLOCATOR, None, None)
        else:
            key = (rule, origin.op, origin.module, origin.source)
        groups.setdefault(key, []).append(call)
    for (rule, op, module, source), rows in groups.items():
        by_call = Counter((call.step, call.name) for call in rows)
        visited_steps = {call.step for call in rows}
        yield Blocker(
            rule=RULES[rule],
            # torch's allocator may allocate during a capture; other libraries must not. Without
            # marked steps, the call may be between two steps.
            certain=op != _ALLOCATOR and step.method is not StepMethod.WHOLE,
            op=op,
            module=module,
            source=source,
            evidence=_summarise_calls(rows),
            count=max(by_call.values()),
            cpu_ns=sum(int(duration[call.row]) for call in rows) // len(visited_steps),
            steps=len(visited_steps),
        )


def _find_origins(
    trace: Trace, step: EagerStep, calls: list[_Call]
) -> Iterator[tuple[_Call, NodeOrigin]]:
    starts = [traced_step.start for traced_step in step.steps]
    ops = np.searchsorted(get_column(trace.ops, "ts"), starts) // _OPS_PER_BATCH
    for _, step_calls in groupby(calls, lambda call: int(ops[call.step])):
        group = list(step_calls)
        first, last = step.steps[group[0].step], step.steps[group[-1].step]
        # A margin of twice the first step's length, not that of the whole batch.
        near_rows = select_near(trace, first.start, last.end, margin=2 * first.duration_ns)
        origins = OriginResolver(near_rows, np.array([call.row for call in group], dtype=np.int64))
        for index, call in enumerate(group):
            yield call, origins.get_origin(index, _METHOD, 1.0)


def _summarise_calls(calls: list[_Call]) -> ForbiddenCalls:
    return ForbiddenCalls(
        tuple(
            dict.fromkeys(
                (call.name, call.copy if call.kind is CallClass.COPY else None) for call in calls
            )
        )
    )


def _find_suspect_calls(trace: Trace, step: EagerStep) -> list[_Call]:
    """Find calls of the steps that wait, allocate, or copy from or to pageable memory."""
    start, thread = get_column(trace.runtime, "ts"), get_threads(trace.runtime)
    codes, names = encode(trace.runtime["name"])
    kinds = [get_call_class(name) for name in names]
    copies = _map_copies(trace)
    calls: list[_Call] = []
    latest_copies: dict[int, str | None] = {}
    for number, traced_step in enumerate(step.steps):
        first, stop = np.searchsorted(start, [traced_step.start, traced_step.end])
        for row in range(int(first), int(stop)):
            name, kind, mine = names[codes[row]], kinds[codes[row]], int(thread[row])
            copy = copies.get(row)
            if kind is CallClass.COPY:
                latest_copies[mine] = copy if copy and "Pageable" in copy else None
                if latest_copies[mine] or "Async" not in name:
                    calls.append(_Call(row, number, name, kind, copy))
            elif kind is CallClass.SYNCHRONISE:
                calls.append(_Call(row, number, name, kind, latest_copies.get(mine)))
            elif kind is CallClass.MEMORY and "Async" not in name:
                calls.append(_Call(row, number, name, kind, None))
            elif kind is CallClass.KERNEL_LAUNCH:
                latest_copies[mine] = None
    return calls


def _map_copies(trace: Trace) -> dict[int, str]:
    links = link_trace_launches(trace).launch
    rows = np.flatnonzero((trace.gpu["kind"] == "memcpy").to_numpy() & (links >= 0))
    names = trace.gpu["name"].gather(rows).to_list()
    return {call: name or "" for call, name in zip(links[rows].tolist(), names, strict=True)}


def _find_submit_bounds(trace: Trace, step: EagerStep) -> list[tuple[int, int]]:
    """Return (-1, -1) for a step without submitting calls."""
    start = get_column(trace.runtime, "ts")
    codes, names = encode(trace.runtime["name"])
    submits = (CallClass.KERNEL_LAUNCH, CallClass.COPY, CallClass.GRAPH_LAUNCH)
    flags = np.array([get_call_class(name) in submits for name in names], dtype=np.bool_)
    rows = np.flatnonzero(flags[codes]) if len(names) else np.zeros(0, dtype=np.int64)
    # The table is sorted by start.
    spans = np.array(
        [(traced_step.start, traced_step.end) for traced_step in step.steps], dtype=np.int64
    ).reshape(-1, 2)
    first, stop = np.searchsorted(start[rows], spans).T
    return [
        (int(rows[begin]), int(rows[last - 1])) if last > begin else (-1, -1)
        for begin, last in zip(first.tolist(), stop.tolist(), strict=True)
    ]


def _determine_rule(call: _Call, origin: NodeOrigin) -> RuleId:
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


def _find_optimizer_blockers(trace: Trace, step: EagerStep) -> Iterator[Blocker]:
    """Find Adam variants that read their step count on the CPU, without a synchronisation."""
    marks = trace.annotations
    names = marks["name"].to_list()
    rows = [row for row, name in enumerate(names) if name and name.startswith(_ADAM)]
    if not rows or not len(trace.ops):
        return
    reads = trace.ops.select("ts", "dur", "pid", "tid").filter(trace.ops["name"] == "aten::item")
    start, end = _get_spans(reads)
    thread = get_threads(reads)
    waiting_ranges = Nesting.build(start, end - start, thread).find_around(*_find_waits(trace))
    on_cpu = np.setdiff1d(np.arange(len(reads)), waiting_ranges)
    begin, stop = _get_spans(marks)
    tids = get_threads(marks)
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
            evidence=OptimizerRead(optimizer),
            count=max(read_counts),
            cpu_ns=0,
            steps=min(len(read_counts), len(step.steps)),
        )


def _find_waits(trace: Trace) -> tuple[Ints, Ints]:
    codes, names = encode(trace.runtime["name"])
    is_wait = np.array(
        [get_call_class(name) is CallClass.SYNCHRONISE for name in names], dtype=np.bool_
    )
    rows = np.flatnonzero(is_wait[codes]) if len(names) else np.zeros(0, dtype=np.int64)
    return get_column(trace.runtime, "ts")[rows], get_threads(trace.runtime)[rows]


def _get_spans(table: object) -> tuple[Ints, Ints]:
    start = get_column(table, "ts")  # type: ignore[arg-type]  # any table of a trace
    return start, start + np.maximum(get_column(table, "dur"), 1)  # type: ignore[arg-type]


def _find_step_differences(trace: Trace, step: EagerStep) -> Iterator[Blocker]:
    # Different streams do not count: a graph keeps those of its capture.
    differing = step.differing
    if not differing:
        return
    typical = get_work_signature(trace, step.steps[step.matching[0]])
    # The first step may be warm-up, so the last differing step is more representative.
    other = get_work_signature(trace, step.steps[differing[-1]])
    pairs = zip(typical.appearances, other.appearances, strict=False)
    min_count = min(len(typical.appearances), len(other.appearances))
    first_difference = next(
        (index for index, (own_look, other_look) in enumerate(pairs) if own_look != other_look),
        min_count,
    )
    difference_signature = other if first_difference < len(other.appearances) else typical
    launch = difference_signature.launches[first_difference : first_difference + 1]
    difference_step = step.steps[
        differing[-1] if difference_signature is other else step.matching[0]
    ]
    origin = None
    if (launch >= 0).all():
        origin = OriginResolver(
            select_near(trace, difference_step.start, difference_step.end), launch
        ).get_origin(0, _METHOD, 1.0)
    same_work = [look[:2] for look in typical.appearances] == [
        look[:2] for look in other.appearances
    ]
    # Libraries choose another kernel for another size of the same operator.
    same_work = same_work or _run_same_operators(trace, typical, other)
    only_first = differing == (0,)
    yield Blocker(
        rule=RULES[RuleId.CHANGING_SHAPE if same_work else RuleId.CONTROL_FLOW],
        certain=not only_first and step.integrity.supports(Claim.DATA_DEPENDENCE),
        op=origin.op if origin else None,
        module=origin.module if origin else None,
        source=origin.source if origin else None,
        evidence=StepDifference(
            differing=len(differing),
            steps=len(step.steps),
            only_first=only_first,
            typical_item_count=len(typical.appearances),
            differing_item_count=len(other.appearances),
            typical_name=_get_name(typical.appearances, first_difference),
            differing_name=_get_name(other.appearances, first_difference),
        ),
        count=1,
        cpu_ns=0,
        steps=len(differing),
    )


def _run_same_operators(trace: Trace, typical: WorkSignature, other: WorkSignature) -> bool:
    sequences = [_list_operators(trace, signature.launches) for signature in (typical, other)]
    return bool(sequences[0]) and sequences[0] == sequences[1]


def _list_operators(trace: Trace, launches: Ints) -> list[str]:
    """Omit consecutive repetitions. Empty if any is unknown."""
    if not len(launches) or (launches < 0).any():
        return []
    ids = trace.runtime["external_id"].gather(launches)
    operators_by_id = trace.ops.select("external_id", "name").unique("external_id", keep="first")
    names = dict(
        operators_by_id.filter(
            operators_by_id["external_id"].is_in(ids.drop_nulls().implode())
        ).rows()
    )
    operators = [names.get(ident) for ident in ids.to_list()]
    if None in operators:
        return []
    return [str(name) for name, _ in groupby(operators)]


def _get_name(appearances: list[tuple[object, ...]], index: int) -> str | None:
    return str(appearances[index][1]) if index < len(appearances) else None
