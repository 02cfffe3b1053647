"""A step issued on several streams: what each operator waits for, and when memory is free again.

Operators are issued in the order of the program, so those of one stream follow each other. What
comes before an operator is told by the last operator of each stream that does (vector clocks:
Fidge 1988, Mattern 1989).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct

from graphviz_dash.model.parallel import Operator, Storage
from graphviz_dash.planning.operators import Dependency

Clock = list[int]
"""For each stream the index of its last operator that comes before; -1: none does."""


class Plan(Struct, frozen=True):
    """A step on several streams, by the index of the operator."""

    streams: int
    """How many it uses."""
    stream: tuple[int, ...]
    """The stream that an operator is issued on; 0 is the one that captures."""
    waits: tuple[tuple[int, ...], ...]
    """The operators on other streams whose end it waits for."""
    releases: tuple[tuple[int, ...], ...]
    """The storages whose memory it may take, and whatever follows it on its stream."""

    @property
    def edges(self) -> int:
        """How many dependencies join streams."""
        return sum(map(len, self.waits))


def line(operators: Sequence[Operator], storages: Sequence[Storage]) -> Plan:
    """The step on one stream, as any capture has it."""
    return placed(operators, storages, ((),) * len(operators), (0,) * len(operators))


def placed(
    operators: Sequence[Operator],
    storages: Sequence[Storage],
    needs: Sequence[Sequence[Dependency]],
    wanted: Sequence[int],
) -> Plan:
    """The plan with each operator on the stream that is ``wanted`` for it.

    Opaque operators go to stream 0, where what no operator shows is launched, and so do
    collectives, which stay on one stream; operators without nodes go where the memory that they
    make is used first. Waits are as few as the order on streams allows, and memory is released as
    early.
    """
    stream = _streams(operators, storages, wanted)
    order = _Order(operators, storages, stream)
    for index in range(len(operators)):
        order.append(index, {dependency.source for dependency in needs[index]})
    return Plan(
        order.count,
        tuple(stream),
        tuple(order.waits),
        _releases(operators, storages, stream, order.clocks),
    )


def _streams(
    operators: Sequence[Operator], storages: Sequence[Storage], wanted: Sequence[int]
) -> list[int]:
    working = {
        index: 0 if operator.opaque or operator.is_collective else wanted[index]
        for index, operator in enumerate(operators)
        if operator.nodes
    }
    number = {lane: rank for rank, lane in enumerate(sorted({0, *working.values()}))}
    stream = [number[working.get(index, 0)] for index in range(len(operators))]
    first: dict[int, int] = {}
    for index in working:
        for access in operators[index].accesses:
            first.setdefault(access.storage, stream[index])
    for storage, facts in enumerate(storages):
        if facts.maker is not None and not operators[facts.maker].nodes:
            stream[facts.maker] = first.get(storage, 0)
    return stream


class _Order:
    """What comes before each operator, as they are put on their streams one after another."""

    def __init__(
        self, operators: Sequence[Operator], storages: Sequence[Storage], stream: Sequence[int]
    ) -> None:
        self.count = max(stream, default=0) + 1
        self.clocks: list[Clock] = []
        self.waits: list[tuple[int, ...]] = []
        self._operators, self._storages, self._stream = operators, storages, stream
        self._tail = [-1] * self.count
        self._behind: dict[int, int] = {}
        """For an operator without nodes, the last before it on its stream."""

    def append(self, index: int, sources: set[int]) -> None:
        """Puts an operator on its stream, behind ``sources``."""
        operator, own = self._operators[index], self._stream[index]
        if operator.nodes:
            sources = sources | set(self._before_memory(operator))
        clock = [-1] * self.count
        if self._tail[own] >= 0:
            self._join(clock, self._tail[own])
        waited = []
        for source in sorted(sources, reverse=True):
            if clock[self._stream[source]] < source:
                waited.append(source)
                self._join(clock, source)
        self.clocks.append(clock)
        self.waits.append(tuple(waited))
        if operator.nodes:
            self._tail[own] = index
        else:
            self._behind[index] = self._tail[own]

    def _before_memory(self, operator: Operator) -> list[int]:
        """Memory that an operator without nodes took from the allocator is free to use only behind
        what its stream had done by then."""
        makers = (self._storages[access.storage].maker for access in operator.accesses)
        behind = (self._behind.get(maker, -1) for maker in makers if maker is not None)
        return [source for source in behind if source >= 0]

    def _join(self, clock: Clock, source: int) -> None:
        for lane, last in enumerate(self.clocks[source]):
            clock[lane] = max(clock[lane], last)
        lane = self._stream[source]
        clock[lane] = max(clock[lane], source)


def _releases(
    operators: Sequence[Operator],
    storages: Sequence[Storage],
    stream: Sequence[int],
    clocks: Sequence[Clock],
) -> tuple[tuple[int, ...], ...]:
    """torch's allocator gives a block to the next that asks for one on the stream that took it. So
    a storage is released before the first operator of that stream which comes after all that use
    it: so does whatever follows on that stream."""
    users: dict[int, list[int]] = {}
    for index, operator in enumerate(operators):
        if operator.nodes:
            for access in operator.accesses:
                users.setdefault(access.storage, []).append(index)
    on_stream: dict[int, list[int]] = {}
    for index, lane in enumerate(stream):
        on_stream.setdefault(lane, []).append(index)
    releases: list[list[int]] = [[] for _ in operators]
    for storage, facts in enumerate(storages):
        if facts.maker is None:
            continue
        used = users.get(storage, [])
        last = used[-1] if used else facts.maker
        later = on_stream[stream[facts.maker]]
        for index in later[bisect_right(later, last) :]:
            if all(clocks[index][stream[user]] >= user for user in used):
                releases[index].append(storage)
                break
    return tuple(map(tuple, releases))
