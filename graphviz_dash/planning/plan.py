"""Plan of a step on several streams: waits of each operator, and release of memory.

Operators are issued in program order. Vector clocks (Fidge 1988, Mattern 1989) hold the last
preceding operator of each stream.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct

from graphviz_dash.model.parallel import Operator, Storage
from graphviz_dash.planning.operators import Dependency

Clock = list[int]
"""Index of the last preceding operator per stream, -1 if there is none."""


class Plan(Struct, frozen=True):
    """A step on several streams, by operator index."""

    streams: int
    stream: tuple[int, ...]
    """Stream of each operator. 0 is the capturing stream."""
    waits: tuple[tuple[int, ...], ...]
    """Operators on other streams that each operator waits for."""
    releases: tuple[tuple[int, ...], ...]
    """Storages whose memory is free for each operator and for later ones on its stream."""

    @property
    def edge_count(self) -> int:
        """Number of dependencies between streams."""
        return sum(map(len, self.waits))


def build_serial_plan(operators: Sequence[Operator], storages: Sequence[Storage]) -> Plan:
    """Build the plan on one stream."""
    return build_plan(operators, storages, ((),) * len(operators), (0,) * len(operators))


def build_plan(
    operators: Sequence[Operator],
    storages: Sequence[Storage],
    needs: Sequence[Sequence[Dependency]],
    requested_streams: Sequence[int],
) -> Plan:
    """Build the plan with each operator on its stream in ``requested_streams``.

    Opaque operators run on stream 0, where work outside operators is launched. Collectives do too,
    to stay on one stream. Operators without nodes run on the stream that first uses their memory.
    The plan has the fewest waits that stream order allows, and releases memory as early as
    possible.
    """
    stream = _assign_streams(operators, storages, requested_streams)
    order = _StreamOrder(operators, storages, stream)
    for index in range(len(operators)):
        order.append(index, {dependency.source for dependency in needs[index]})
    return Plan(
        order.count,
        tuple(stream),
        tuple(order.waits),
        _compute_releases(operators, storages, stream, order.clocks),
    )


def _assign_streams(
    operators: Sequence[Operator], storages: Sequence[Storage], planned_streams: Sequence[int]
) -> list[int]:
    requested = {
        index: 0 if operator.opaque or operator.is_collective else planned_streams[index]
        for index, operator in enumerate(operators)
        if operator.nodes
    }
    number = {lane: rank for rank, lane in enumerate(sorted({0, *requested.values()}))}
    stream = [number[requested.get(index, 0)] for index in range(len(operators))]
    first_use: dict[int, int] = {}
    for index in requested:
        for access in operators[index].accesses:
            first_use.setdefault(access.storage, stream[index])
    for storage, facts in enumerate(storages):
        if facts.creator is not None and not operators[facts.creator].nodes:
            stream[facts.creator] = first_use.get(storage, 0)
    return stream


class _StreamOrder:
    def __init__(
        self, operators: Sequence[Operator], storages: Sequence[Storage], stream: Sequence[int]
    ) -> None:
        self.count = max(stream, default=0) + 1
        self.clocks: list[Clock] = []
        self.waits: list[tuple[int, ...]] = []
        self._operators, self._storages, self._stream = operators, storages, stream
        self._tail = [-1] * self.count
        self._previous_operator: dict[int, int] = {}
        """For operators without nodes, the previous operator on the stream."""

    def append(self, index: int, sources: set[int]) -> None:
        """Append an operator to its stream, after ``sources``."""
        operator, lane = self._operators[index], self._stream[index]
        if operator.nodes:
            sources = sources | set(self._find_memory_predecessors(operator))
        clock = [-1] * self.count
        if self._tail[lane] >= 0:
            self._merge_clock(clock, self._tail[lane])
        waited = []
        for source in sorted(sources, reverse=True):
            if clock[self._stream[source]] < source:
                waited.append(source)
                self._merge_clock(clock, source)
        self.clocks.append(clock)
        self.waits.append(tuple(waited))
        if operator.nodes:
            self._tail[lane] = index
        else:
            self._previous_operator[index] = self._tail[lane]

    def _find_memory_predecessors(self, operator: Operator) -> list[int]:
        """Find operators that must finish before memory of operators without nodes is used.

        The allocator provides such memory in the order of its stream.
        """
        makers = (self._storages[access.storage].creator for access in operator.accesses)
        predecessors = (
            self._previous_operator.get(maker, -1) for maker in makers if maker is not None
        )
        return [source for source in predecessors if source >= 0]

    def _merge_clock(self, clock: Clock, source: int) -> None:
        for lane, last in enumerate(self.clocks[source]):
            clock[lane] = max(clock[lane], last)
        lane = self._stream[source]
        clock[lane] = max(clock[lane], source)


def _compute_releases(
    operators: Sequence[Operator],
    storages: Sequence[Storage],
    stream: Sequence[int],
    clocks: Sequence[Clock],
) -> tuple[tuple[int, ...], ...]:
    """Compute the storages to release before each operator.

    torch's allocator reuses a block on its stream, so a storage is released before the first
    operator of that stream that follows all its users.
    """
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
        if facts.creator is None:
            continue
        storage_users = users.get(storage, [])
        last = storage_users[-1] if storage_users else facts.creator
        candidates = on_stream[stream[facts.creator]]
        for index in candidates[bisect_right(candidates, last) :]:
            if all(clocks[index][stream[user]] >= user for user in storage_users):
                releases[index].append(storage)
                break
    return tuple(map(tuple, releases))
