"""What the operators of a step need of each other, by the memory that each reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from graphviz_dash.model.parallel import Access, Operator
from graphviz_dash.planning.operations import Operation, StreamCosts


class Need(StrEnum):
    """Why an operator must come after another."""

    READ_AFTER_WRITE = "read after write"
    WRITE_AFTER_READ = "write after read"
    WRITE_AFTER_WRITE = "write after write"
    OPAQUE = "opaque"
    """One of them may do what its arguments do not show, and keeps its order to all other work."""
    COLLECTIVE = "collective"
    """Both talk to other ranks, which must meet the same collectives in the same order."""


class Dependency(Struct, frozen=True):
    """``source`` must have ended before the operator that needs it begins."""

    source: int
    """Index of the operator that is needed."""
    need: Need
    """What for."""
    storage: int | None
    """The storage that both reach; None where it is not for memory."""


def dependencies(operators: Sequence[Operator]) -> tuple[tuple[Dependency, ...], ...]:
    """For each operator those that it needs, each once, by index.

    Operators without nodes need nothing and are needed by none: a replay does nothing of theirs.
    Of two that reach the same bytes, one of which writes them, the later needs the earlier, unless
    a write between them covers all that both reach. A collective needs the one before it, of
    whatever group. Near-linear where few operators share memory that is not written.
    """
    needed: list[tuple[Dependency, ...]] = []
    memory: dict[int, _Accesses] = {}
    barrier: int | None = None
    collective: int | None = None
    for index, operator in enumerate(operators):
        needs: dict[int, Dependency] = {}
        if operator.nodes:
            if operator.opaque:
                since = range(0 if barrier is None else barrier, index)
                for source in since:
                    if operators[source].nodes:
                        needs[source] = Dependency(source, Need.OPAQUE, None)
                barrier = index
            elif barrier is not None:
                needs[barrier] = Dependency(barrier, Need.OPAQUE, None)
            reached = [access for access in operator.accesses if access.begin < access.end]
            for access in reached:
                accesses = memory.setdefault(access.storage, _Accesses())
                for source, need in accesses.conflicts(access):
                    needs.setdefault(source, Dependency(source, need, access.storage))
            if operator.is_collective:
                if collective is not None:
                    needs.setdefault(collective, Dependency(collective, Need.COLLECTIVE, None))
                collective = index
            for access in reached:
                memory[access.storage].add(access, index)
            needs.pop(index, None)
        needed.append(tuple(needs[source] for source in sorted(needs)))
    return tuple(needed)


def step_operations(operators: Sequence[Operator], costs: StreamCosts) -> list[Operation]:
    """The operators as the planner takes them: their times begin behind what passes before them."""
    return [
        Operation(
            duration_ns=max(0.0, (operator.device_ns or 0) - costs.follow_ns),
            share=operator.demand or 0.0,
            after=tuple(need.source for need in needs),
            nodes=operator.nodes,
            streams=1 if operator.opaque or operator.is_collective else None,
        )
        for operator, needs in zip(operators, dependencies(operators), strict=True)
    ]


class _Accesses:
    """The accesses to one storage that later ones may have to follow."""

    def __init__(self) -> None:
        self._writes: list[tuple[int, int, int]] = []
        self._reads: list[tuple[int, int, int]] = []

    def conflicts(self, access: Access) -> Iterator[tuple[int, Need]]:
        """The operators that one with this access must follow, and why."""
        wrote = Need.WRITE_AFTER_WRITE if access.writes else Need.READ_AFTER_WRITE
        for begin, end, index in self._writes:
            if begin < access.end and access.begin < end:
                yield index, wrote
        if access.writes:
            for begin, end, index in self._reads:
                if begin < access.end and access.begin < end:
                    yield index, Need.WRITE_AFTER_READ

    def add(self, access: Access, index: int) -> None:
        """A write hides the accesses before it that it covers: who follows it follows them."""
        span = (access.begin, access.end, index)
        if not access.writes:
            self._reads.append(span)
            return
        self._writes = [other for other in self._writes if not _hides(span, other)] + [span]
        self._reads = [other for other in self._reads if not _hides(span, other)]


def _hides(write: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    return write[0] <= other[0] and other[1] <= write[1] and other[2] != write[2]
