"""State of a private pool between captures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from graphviz_dash.planning.allocator import PoolBlock, PrivatePool

CaptureKey = tuple[int, int]
"""Family and size, or -1 and the position of another graph among all captures."""

PREVIOUS: Final = (-2, 0)
"""Owner of an allocation of the family's previous size."""


class PoolOperation(Struct, frozen=True):
    """An allocation or a free in a private pool."""

    size: int
    """Bytes, as requested. 0 for a free."""
    number: int
    """Position among the allocations of its owner, negative for those that only the first size
    makes."""
    owner: CaptureKey | None = None
    """Capture that made the allocation. None for the same one."""


class PoolCapture(Struct, frozen=True):
    """Captures of one size, or of a graph without one, until the next capture."""

    key: CaptureKey
    operations: tuple[PoolOperation, ...]
    stream: int | None = None
    """Streams do not share memory."""


_Label = tuple[CaptureKey, int]
"""Owner and number of an allocation."""


class PoolState:
    """Allocations of a pool after some captures."""

    def __init__(self) -> None:
        self._pools: dict[int | None, PrivatePool] = {}
        self._live: dict[_Label, tuple[int | None, PoolBlock]] = {}
        self._previous: dict[int, CaptureKey] = {}

    @property
    def reserved_bytes(self) -> int:
        """Sum of the segments. Later captures only add segments."""
        return sum(pool.reserved_bytes for pool in self._pools.values())

    def copy(self) -> PoolState:
        """Copy the state."""
        other = PoolState()
        blocks: dict[PoolBlock, PoolBlock] = {}
        for stream, pool in self._pools.items():
            other._pools[stream], copies = pool.copy()
            blocks |= copies
        other._live = {
            label: (stream, blocks[block]) for label, (stream, block) in self._live.items()
        }
        other._previous = dict(self._previous)
        return other

    def add(self, capture: PoolCapture) -> None:
        """Make the allocations and frees of a capture."""
        family = capture.key[0]
        pool = self._pools.setdefault(capture.stream, PrivatePool())
        for operation in capture.operations:
            owner = operation.owner or capture.key
            if owner == PREVIOUS:
                owner = self._previous.get(family, owner)
            label = owner, operation.number
            if operation.size:
                self._live[label] = capture.stream, pool.allocate(operation.size)
            elif label in self._live:
                stream, block = self._live.pop(label)
                self._pools[stream].free(block)
        self._previous[family] = capture.key

    def describe(self, lasting: frozenset[CaptureKey]) -> tuple[object, ...]:
        """Describe the state, so that equal states have the same future.

        ``lasting`` are the owners, besides the previous capture of a family, whose allocations
        later captures may free.
        """
        labels: dict[PoolBlock, object] = {}
        for (owner, number), (_, block) in self._live.items():
            if self._previous.get(owner[0]) == owner:
                labels[block] = (owner[0], number)
            if owner in lasting:
                labels[block] = (owner, number)
        return tuple(
            (stream, tuple(self._describe_blocks(pool, labels)))
            for stream, pool in self._pools.items()
        )

    @staticmethod
    def _describe_blocks(
        pool: PrivatePool, labels: dict[PoolBlock, object]
    ) -> Iterable[tuple[object, ...]]:
        for block in pool.list_blocks():
            is_segment = block.before is None
            yield block.start, block.size, is_segment, block.is_live, labels.get(block)
