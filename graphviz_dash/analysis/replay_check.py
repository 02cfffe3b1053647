"""Interpretation of a replay check: the faults, each with its node or operator and its cause."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct

from graphviz_dash.model.replay_check import (
    REPLAY_FAULT_EXIT_CODE,
    CheckedOperator,
    CheckGap,
    FactDifference,
    FactKind,
    MemoryFate,
    RankProgress,
    ReplayCheck,
    ReplayStop,
    StaleArgument,
    TensorDifference,
    ValueCheck,
    WrongElements,
)
from graphviz_dash.model.run import Run
from graphviz_dash.planning.replay_differences import find_first_difference


class ReplayCause(StrEnum):
    """Cause of a wrong, crashed or hanging replay."""

    INPUT_REPLACED = "input-replaced"
    MEMORY_FREED = "memory-freed"
    MEMORY_MOVED = "memory-moved"
    SCALAR_FROZEN = "scalar-frozen"
    HOST_WORK = "host-work"
    CONTROL_FLOW = "control-flow"
    CHANGING_SHAPE = "changing-shape"
    MISSING_JOIN = "missing-join"
    RANDOM_NUMBERS = "random-numbers"
    OTHER_GRAPH = "other-graph"
    GRADIENT_OVERWRITTEN = "gradient-overwritten"
    MEMORY_CHANGE = "changed-between"
    ESCAPED_WORK = "escaped-work"
    FOREIGN_KERNEL = "foreign-kernel"
    SECOND_REPLAY = "second-replay"
    CRASH = "crash"
    COLLECTIVE = "collective"
    HANG = "hang"
    UNKNOWN = "unknown"


class WrongOperator(Struct, frozen=True):
    """The first operator that a replay computes differently from an eager step."""

    cause: ReplayCause
    difference: TensorDifference | None
    """First significant difference. None if the fault changed no value in this check."""
    operator: CheckedOperator
    index: int
    """Index of the operator in the step."""
    node: int | None
    """Number of its first node in a capture without hashes. None if it has none, or if unknown."""
    fact: FactDifference | None
    """Proof of the cause. None if it follows from elsewhere."""
    writer: CheckedOperator | None
    """Other operator of the cause, such as one that is not waited for."""
    kernels: tuple[str, ...]
    """Kernels outside operators that wrote the tensor."""
    elements: WrongElements | None
    difference_count: int
    """Differing tensors in all replays."""


class StopFault(Struct, frozen=True):
    """A replay that crashed or hangs."""

    cause: ReplayCause
    stop: ReplayStop
    memory: MemoryFate | None
    """Memory of the suspected node that was gone, if any."""
    lagging: tuple[ReplayStop, ...]
    """Ranks that are behind in the same collective."""


class MemoryFault(Struct, frozen=True):
    """Memory that a replay would use after its end."""

    cause: ReplayCause
    memory: MemoryFate


ReplayFault: TypeAlias = StopFault | WrongOperator | MemoryFault


class ReplayDiagnosis(Struct, frozen=True):
    """A replay check and its interpretation."""

    check: ReplayCheck
    stops: tuple[StopFault, ...]
    wrong: tuple[WrongOperator, ...]
    """First wrong operator of each step."""
    memory: tuple[MemoryFault, ...]
    """In the order of the reports, without the causes of crashes."""

    @property
    def faults(self) -> tuple[ReplayFault, ...]:
        """All faults, most important first."""
        return (*self.stops, *self.wrong, *self.memory)

    @property
    def fault_count(self) -> int:
        """Number of faults."""
        return len(self.faults)

    @property
    def has_cause(self) -> bool:
        """The cause of a wrong value is known."""
        return any(wrong.cause is not ReplayCause.UNKNOWN for wrong in self.wrong)

    @property
    def gaps(self) -> tuple[CheckGap, ...]:
        """Parts that were not checked."""
        return self.check.gaps

    @property
    def exit_code(self) -> int:
        """Exit code of the command line."""
        return REPLAY_FAULT_EXIT_CODE if self.fault_count else 0


def number_checked_nodes(values: ValueCheck) -> dict[int, int] | None:
    """Map the first nodes of operators in the hashed capture to their numbers without hashes.

    None if the operators and the kernels between them do not cover the graph.
    """
    spans = [
        (operator.first_node, operator.nodes)
        for operator in values.operators
        if operator.first_node is not None
    ]
    spans += [(foreign.first_node, foreign.nodes) for foreign in values.foreign]
    numbers: dict[int, int] = {}
    total = 0
    for first, count in sorted(spans):
        numbers[first] = total
        total += count
    return numbers if total == values.nodes else None


_VIEWS: Final = 4
"""Operators before another among which its views are."""

_FATES: Final = {"moved": ReplayCause.MEMORY_MOVED}
_OWNERS: Final = {
    "graph-pool": ReplayCause.OTHER_GRAPH,
    "gradient": ReplayCause.GRADIENT_OVERWRITTEN,
}
_BY_FACT: Final = (
    (FactKind.SCALAR, ReplayCause.SCALAR_FROZEN),
    (FactKind.SHAPE, ReplayCause.CHANGING_SHAPE),
    (FactKind.ADDRESS, ReplayCause.INPUT_REPLACED),
    (FactKind.HOST_VALUE, ReplayCause.HOST_WORK),
)


def diagnose_replays(check: ReplayCheck) -> ReplayDiagnosis:
    """Interpret a replay check."""
    stops = tuple(_explain_stop(check, stop) for stop in _list_causes(check))
    crash_memory = [fault.memory for fault in stops if fault.memory is not None]
    return ReplayDiagnosis(
        check=check,
        stops=stops,
        wrong=tuple(
            wrong for values in check.values if (wrong := find_wrong_operator(values)) is not None
        ),
        memory=tuple(
            MemoryFault(_get_fate_cause(memory), memory)
            for memory in check.memory
            if memory not in crash_memory
        ),
    )


def list_replay_diagnoses(runs: Iterable[Run]) -> list[tuple[str, ReplayDiagnosis]]:
    """Interpret the replay checks of ``runs``, with run names."""
    return [(run.name, diagnose_replays(run.replay_check)) for run in runs if run.replay_check]


def find_wrong_operator(values: ValueCheck) -> WrongOperator | None:
    """Return the first wrong operator with its cause, or None."""
    first = find_first_difference(values)
    if first is not None:
        return _explain_difference(values, first)
    if values.orders:
        # Whether the read comes too early in this check is chance; the missing order is not.
        order = values.orders[0]
        return _build(values, None, order.reader, ReplayCause.MISSING_JOIN, writer=order.writer)
    argument = next((item for item in values.arguments if item.operator is not None), None)
    return None if argument is None else _explain_argument(values, argument)


def _explain_argument(values: ValueCheck, argument: StaleArgument) -> WrongOperator:
    cause = (
        ReplayCause.SCALAR_FROZEN
        if argument.kind is FactKind.SCALAR
        else ReplayCause.INPUT_REPLACED
    )
    index = argument.operator or 0
    fact = FactDifference(
        index, argument.kind, argument.node, argument.capture_value, (argument.value,)
    )
    return _build(values, None, index, cause, fact)


def _build(
    values: ValueCheck,
    first: TensorDifference | None,
    index: int,
    cause: ReplayCause,
    fact: FactDifference | None = None,
    writer: int | None = None,
    kernels: tuple[str, ...] = (),
) -> WrongOperator:
    operator = values.operators[index]
    numbers = number_checked_nodes(values) or {}
    return WrongOperator(
        cause=cause,
        difference=first,
        operator=operator,
        index=index,
        node=None if operator.first_node is None else numbers.get(operator.first_node),
        fact=fact,
        writer=None if writer is None else values.operators[writer],
        kernels=kernels,
        elements=values.elements,
        difference_count=values.difference_count,
    )


def _explain_difference(values: ValueCheck, first: TensorDifference) -> WrongOperator:
    path = next(
        (
            fact
            for fact in values.facts
            if fact.kind is FactKind.PATH and fact.operator <= first.operator
        ),
        None,
    )
    if path is not None:
        return _build(values, first, path.operator, ReplayCause.CONTROL_FLOW, path)
    operator = values.operators[first.operator]
    if not operator.in_capture or first.absent:
        return _build(values, first, first.operator, ReplayCause.ESCAPED_WORK)
    return (
        _explain_by_fact(values, first)
        or _explain_by_operator(values, first)
        or _explain_by_order(values, first)
        or _explain_by_input(values, first)
        or _build(
            values,
            first,
            first.operator,
            ReplayCause.SECOND_REPLAY if first.replay > 1 else ReplayCause.UNKNOWN,
        )
    )


def _explain_by_fact(values: ValueCheck, first: TensorDifference) -> WrongOperator | None:
    facts = [fact for fact in values.facts if fact.operator == first.operator]
    for kind, cause in _BY_FACT:
        fact = next((item for item in facts if item.kind is kind), None)
        if fact is None:
            continue
        if kind is FactKind.HOST_VALUE:
            return _explain_host_work(values, first, fact)
        view = _find_moved_view(values, first.operator)
        if kind is FactKind.ADDRESS and view is not None:
            return _build(values, first, first.operator, ReplayCause.SCALAR_FROZEN, view)
        return _build(values, first, first.operator, cause, fact)
    return None


def _find_moved_view(values: ValueCheck, index: int) -> FactDifference | None:
    """Return the changed number of a view right before an operator, such as an offset, or None."""
    return next(
        (
            fact
            for fact in values.facts
            if fact.kind is FactKind.SCALAR
            and index - _VIEWS <= fact.operator < index
            and not values.operators[fact.operator].nodes
        ),
        None,
    )


def _explain_host_work(
    values: ValueCheck, first: TensorDifference, fact: FactDifference | None
) -> WrongOperator:
    writer = values.operators[first.operator].cpu_writer
    is_random = writer is not None and values.operators[writer].random
    cause = ReplayCause.RANDOM_NUMBERS if is_random else ReplayCause.HOST_WORK
    return _build(values, first, first.operator, cause, fact, writer)


def _explain_by_operator(values: ValueCheck, first: TensorDifference) -> WrongOperator | None:
    operator = values.operators[first.operator]
    if operator.reads_cpu:
        return _explain_host_work(values, first, None)
    if operator.random:
        return _build(values, first, first.operator, ReplayCause.RANDOM_NUMBERS)
    return None


def _explain_by_order(values: ValueCheck, first: TensorDifference) -> WrongOperator | None:
    for order in values.orders:
        if order.reader <= first.operator:
            return _build(
                values, first, order.reader, ReplayCause.MISSING_JOIN, writer=order.writer
            )
    return None


def _explain_by_input(values: ValueCheck, first: TensorDifference) -> WrongOperator | None:
    if first.tensor.role != "input":
        return None
    for foreign in values.foreign:
        if _is_adjacent(values, foreign.next_operator, first.operator):
            fact = next(
                (
                    item
                    for item in values.facts
                    if item.operator == foreign.next_operator and item.kind is FactKind.PARAMETER
                ),
                None,
            )
            return _build(
                values,
                first,
                first.operator,
                ReplayCause.FOREIGN_KERNEL,
                fact,
                kernels=foreign.names,
            )
    if first.operator in values.overwritten:
        return _build(values, first, first.operator, ReplayCause.MEMORY_CHANGE)
    host = next((n for n, item in enumerate(values.operators) if item.writes_cpu), None)
    if first.replay > 1 and host is not None:
        return _build(values, first, first.operator, ReplayCause.HOST_WORK, writer=host)
    return None


def _is_adjacent(values: ValueCheck, first: int, last: int) -> bool:
    """Check if no operator of a range, without its last one, runs nodes."""
    return first <= last and not any(item.nodes for item in values.operators[first:last])


def _get_fate_cause(memory: MemoryFate) -> ReplayCause:
    if memory.owner in _OWNERS:
        return _OWNERS[memory.owner]
    return _FATES.get(memory.fate, ReplayCause.MEMORY_FREED)


def _list_causes(check: ReplayCheck) -> list[ReplayStop]:
    """Return stops, only one of all ranks that hang: a node outside collectives, if there is one.

    The other ranks wait for it in a collective.
    """
    result: list[ReplayStop] = []
    for stop in sorted(check.stops, key=_is_consequence):
        if stop.kind == "hang" and any(_is_same_hang(other, stop) for other in result):
            continue
        result.append(stop)
    return result


def _is_collective(stop: ReplayStop) -> bool:
    return any(node.collective is not None for node in stop.suspects)


def _is_consequence(stop: ReplayStop) -> bool:
    return stop.kind == "hang" and (_is_collective(stop) or not stop.is_running)


def _is_same_hang(first: ReplayStop, second: ReplayStop) -> bool:
    return (
        first.kind == "hang"
        and first.rank != second.rank
        and None
        not in (
            first.rank,
            second.rank,
        )
    )


def find_differing_ranks(fault: StopFault) -> tuple[RankProgress, ...]:
    """Return the ranks that keep the others waiting: they are behind, or differ in collectives."""
    ranks = fault.stop.ranks
    if len(ranks) < 2:
        return ()
    maximum = max(item.collectives for item in ranks)
    short_ranks = tuple(item for item in ranks if item.collectives < maximum)
    if short_ranks:
        return short_ranks
    minimum = min((item.replay, item.collectives_passed) for item in ranks)
    late_ranks = tuple(item for item in ranks if (item.replay, item.collectives_passed) == minimum)
    return late_ranks if len(late_ranks) < len(ranks) else _find_outside_collective(fault)


def _find_outside_collective(fault: StopFault) -> tuple[RankProgress, ...]:
    outside = {stop.rank for stop in (fault.stop, *fault.lagging) if not _is_collective(stop)}
    return tuple(item for item in fault.stop.ranks if item.rank in outside)


def _explain_stop(check: ReplayCheck, stop: ReplayStop) -> StopFault:
    suspects = {(node.graph, node.index) for node in stop.suspects}
    memory = next(
        (
            item
            for item in check.memory
            if item.node is not None and (item.node.graph, item.node.index) in suspects
        ),
        None,
    )
    ranks = tuple(other for other in check.stops if other.kind == "hang" and other is not stop)
    if stop.kind == "crash":
        cause = ReplayCause.CRASH if memory is None else _get_fate_cause(memory)
        return StopFault(cause, stop, memory, ())
    is_collective = _is_collective(stop) or (
        not stop.is_running and any(map(_is_collective, ranks))
    )
    cause = ReplayCause.COLLECTIVE if is_collective else ReplayCause.HANG
    return StopFault(cause, stop, memory, ranks)
