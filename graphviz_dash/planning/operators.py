"""Dependencies between the operators of a step, from the memory that each reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from graphviz_dash.model.parallel import Access, Operator
from graphviz_dash.planning.operations import Operation, StreamCosts


class DependencyKind(StrEnum):
    """Reason for a dependency."""

    READ_AFTER_WRITE = "read after write"
    WRITE_AFTER_READ = "write after read"
    WRITE_AFTER_WRITE = "write after write"
    OPAQUE = "opaque"
    """One operator may have effects beyond its arguments and keeps its order to all other work."""
    COLLECTIVE = "collective"
    """Ranks must run the same collectives in the same order."""


class Dependency(Struct, frozen=True):
    """Dependency: ``source`` must end before the operator starts."""

    source: int
    kind: DependencyKind
    storage: int | None
    """None if the reason is not memory."""


def find_dependencies(operators: Sequence[Operator]) -> tuple[tuple[Dependency, ...], ...]:
    """Compute the distinct dependencies of each operator, by index.

    Operators without nodes have no dependencies, because a replay does not run them. If two
    operators access the same bytes and one of them writes, the later depends on the earlier, unless
    a write in between covers all shared bytes. A collective depends on the previous one of any
    group. Near-linear if few operators share memory that is not written.
    """
    result: list[tuple[Dependency, ...]] = []
    memory: dict[int, _StorageAccesses] = {}
    barrier: int | None = None
    collective: int | None = None
    for index, operator in enumerate(operators):
        needs: dict[int, Dependency] = {}
        if operator.nodes:
            if operator.opaque:
                sources = range(0 if barrier is None else barrier, index)
                for source in sources:
                    if operators[source].nodes:
                        needs[source] = Dependency(source, DependencyKind.OPAQUE, None)
                barrier = index
            elif barrier is not None:
                needs[barrier] = Dependency(barrier, DependencyKind.OPAQUE, None)
            accessed = [access for access in operator.accesses if access.start < access.end]
            for access in accessed:
                accesses = memory.setdefault(access.storage, _StorageAccesses())
                for source, need in accesses.find_conflicts(access):
                    needs.setdefault(source, Dependency(source, need, access.storage))
            if operator.is_collective:
                if collective is not None:
                    needs.setdefault(
                        collective, Dependency(collective, DependencyKind.COLLECTIVE, None)
                    )
                collective = index
            for access in accessed:
                memory[access.storage].add(access, index)
            needs.pop(index, None)
        result.append(tuple(needs[source] for source in sorted(needs)))
    return tuple(result)


def build_operations(operators: Sequence[Operator], costs: StreamCosts) -> list[Operation]:
    """Convert operators to operations, whose times exclude the gap before them."""
    return [
        Operation(
            duration_ns=max(0.0, (operator.device_ns or 0) - costs.same_stream_gap_ns),
            share=operator.demand or 0.0,
            dependencies=tuple(need.source for need in needs),
            nodes=operator.nodes,
            max_streams=1 if operator.opaque or operator.is_collective else None,
        )
        for operator, needs in zip(operators, find_dependencies(operators), strict=True)
    ]


class _StorageAccesses:
    """Accesses to one storage that later accesses may depend on."""

    def __init__(self) -> None:
        self._writes: list[tuple[int, int, int]] = []
        self._reads: list[tuple[int, int, int]] = []

    def find_conflicts(self, access: Access) -> Iterator[tuple[int, DependencyKind]]:
        """Yield the operators that this access depends on, with the reason."""
        write_need = (
            DependencyKind.WRITE_AFTER_WRITE if access.writes else DependencyKind.READ_AFTER_WRITE
        )
        for start, end, index in self._writes:
            if start < access.end and access.start < end:
                yield index, write_need
        if access.writes:
            for start, end, index in self._reads:
                if start < access.end and access.start < end:
                    yield index, DependencyKind.WRITE_AFTER_READ

    def add(self, access: Access, index: int) -> None:
        """Add an access. A write replaces earlier accesses that it covers."""
        span = (access.start, access.end, index)
        if not access.writes:
            self._reads.append(span)
            return
        self._writes = [other for other in self._writes if not _covers_access(span, other)] + [span]
        self._reads = [other for other in self._reads if not _covers_access(span, other)]


def _covers_access(write: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    return write[0] <= other[0] and other[1] <= write[1] and other[2] != write[2]
