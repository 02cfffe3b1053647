"""Simulate the pool of a family that is captured with other sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Final

from msgspec.structs import replace

from graphviz_dash.analysis.memory.pool_states import (
    PREVIOUS,
    CaptureKey,
    PoolCapture,
    PoolOperation,
    PoolState,
)
from graphviz_dash.planning.allocator import GRAIN

UNEQUAL: Final = "the allocations of the sizes differ by more than their size"


class PoolSimulation:
    """Captures of any sizes of a family into its pool, in the present order.

    Each allocation is linear in the size. Those that only the first size makes, such as workspaces,
    remain in the first one. Captures of other families remain.
    """

    def __init__(self, family: int, captures: Sequence[PoolCapture]) -> None:
        members = [capture for capture in captures if capture.key[0] == family]
        present = [member.key[1] for member in members]
        self.is_descending = present == sorted(present, reverse=True)
        """Captures start with the largest size."""
        first = _separate_first(members)
        self.obstacle = UNEQUAL if first is None else ""
        """Reason why no other sizes can be predicted; empty if they can."""
        if not self.is_descending and present != sorted(present):
            self.obstacle = "the sizes were captured in no order"
        self._members = members if first is None else [first, *members[1:]]
        self._others, self._places = _split_others(family, captures)
        self._lasting = frozenset(
            operation.owner
            for capture in captures
            for operation in capture.operations
            if operation.owner not in (None, PREVIOUS)
        )
        self._built: dict[tuple[int, bool], PoolCapture | None] = {}
        self._results: dict[tuple[int, ...], int | None] = {}

    def predict(self, sizes: Iterable[int]) -> int | None:
        """Predict the reserved bytes with ``sizes``. None if a capture cannot be predicted."""
        order = tuple(sorted(set(sizes), reverse=self.is_descending))
        if order not in self._results:
            self._results[order] = self._simulate(order)
        return self._results[order]

    def _simulate(self, order: Sequence[int]) -> int | None:
        state = PartialPool()
        for size in order:
            if not self._add(state, size):
                return None
        return self.finish(state)

    def extend(self, before: PartialPool, size: int) -> PartialPool | None:
        """Add the next size in the order of captures. None if its captures cannot be predicted."""
        partial = PartialPool(before.pool.copy(), before.others, before.count)
        return partial if self._add(partial, size) else None

    def finish(self, partial: PartialPool) -> int:
        """Return the reserved bytes after the remaining captures of other families."""
        if partial.others == len(self._others):
            return partial.pool.reserved_bytes
        state = partial.pool.copy()
        for capture in self._others[partial.others :]:
            state.add(capture)
        return state.reserved_bytes

    def describe(self, partial: PartialPool) -> tuple[object, ...]:
        """Describe a state, so that equal states have the same future."""
        return partial.pool.describe(self._lasting)

    def _add(self, partial: PartialPool, size: int) -> bool:
        key = size, not partial.count
        if key not in self._built:
            self._built[key] = _build_member(self._members, size, has_first_allocations=key[1])
        member = self._built[key]
        if member is None:
            return False
        others = self._find_place(size)
        for capture in self._others[partial.others : others]:
            partial.pool.add(capture)
        partial.pool.add(member)
        partial.others, partial.count = others, partial.count + 1
        return True

    def _find_place(self, size: int) -> int:
        """Find the number of captures of other families before a size.

        A new size precedes the next present one, or else follows the last.
        """
        for present, others in self._places:
            if size == present or (size > present) == self.is_descending:
                return others
        return self._places[-1][1]


class PartialPool:
    """Pool after the captures of some sizes."""

    def __init__(self, pool: PoolState | None = None, others: int = 0, count: int = 0) -> None:
        self.pool = PoolState() if pool is None else pool
        self.others = others
        """Number of captures of other families so far."""
        self.count = count
        """Number of sizes so far."""


def _split_others(
    family: int, captures: Sequence[PoolCapture]
) -> tuple[list[PoolCapture], list[tuple[int, int]]]:
    """Return the captures of other families, and their number before each size of this one."""
    others: list[PoolCapture] = []
    places: list[tuple[int, int]] = []
    for capture in captures:
        if capture.key[0] == family:
            places.append((capture.key[1], len(others)))
        else:
            others.append(capture)
    return others, places


def _separate_first(members: Sequence[PoolCapture]) -> PoolCapture | None:
    """Give negative numbers to the allocations that only the first size makes. None if it lacks
    some of the others."""
    first = members[0]
    template = _interpolate(members[1:], first.key[1])
    if template is None:
        return None
    remaining = [part for part in template if part.owner != PREVIOUS]
    numbers: dict[int, int] = {}
    operations = []
    for operation in first.operations:
        number = operation.number
        if operation.owner is None:
            number = numbers.get(number, number)
        if remaining and _is_equal(operation, remaining[0], number):
            number = remaining.pop(0).number
        elif operation.size:
            number = -1 - len(numbers)
        if operation.size:
            numbers[operation.number] = number
        operations.append(replace(operation, number=number))
    return None if remaining else replace(first, operations=tuple(operations))


def _is_equal(operation: PoolOperation, template: PoolOperation, number: int) -> bool:
    if operation.size and template.size:
        return -(-operation.size // GRAIN) == -(-template.size // GRAIN)
    has_same_label = operation.owner == template.owner and number == template.number
    return not operation.size and not template.size and has_same_label


def _build_member(
    members: Sequence[PoolCapture], size: int, *, has_first_allocations: bool
) -> PoolCapture | None:
    """Build the captures of a size, with the additional allocations of the first one."""
    first = members[0]
    present = next((member for member in members if member.key[1] == size), None)
    if present is not None and (present is first) == has_first_allocations:
        return present
    operations = present.operations if present not in (None, first) else None
    operations = operations or _interpolate(members[1:], size)
    if operations is None:
        return None
    if has_first_allocations:
        sizes = {part.number: part.size for part in operations if part.size}
        if not {part.number for part in first.operations if part.number >= 0} <= sizes.keys():
            return None
        operations = tuple(
            replace(part, size=sizes[part.number]) if part.size and part.number >= 0 else part
            for part in first.operations
        )
    return PoolCapture((first.key[0], size), operations, first.stream)


def _interpolate(members: Sequence[PoolCapture], size: int) -> tuple[PoolOperation, ...] | None:
    """Interpolate or extrapolate the two nearest sizes of equal structure. None without any."""
    neighbours = sorted(members, key=lambda member: abs(member.key[1] - size))
    for first, second in combinations(neighbours, 2):
        if _list_structure(first) == _list_structure(second):
            share = Fraction(size - first.key[1], second.key[1] - first.key[1])
            return tuple(
                replace(a, size=max(round(a.size + share * (b.size - a.size)), min(a.size, 1)))
                for a, b in zip(first.operations, second.operations, strict=True)
            )
    return None


def _list_structure(capture: PoolCapture) -> list[tuple[bool, int, CaptureKey | None]]:
    return [(part.size > 0, part.number, part.owner) for part in capture.operations]
