"""Predict the private pool of other capture sizes from the recorded allocations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import Run
from graphviz_dash.planning.allocator import GRAIN, PoolBlock, PrivatePool

CaptureKey = tuple[int, int]
"""Family and size, or -1 and the position of another graph among all captures."""

_MIN_SIZES: Final = 3
"""The first size may have additional allocations, and a line needs two."""

_PREVIOUS: Final = (-2, 0)
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


class FamilyPool(Struct, frozen=True):
    """Captures into the pool of a family. Their simulation agrees with the recorded pool."""

    family: int
    captures: tuple[PoolCapture, ...]
    """In order."""
    reserved_bytes: int

    def predict(self, sizes: Iterable[int]) -> int | Missing:
        """Predict the reserved bytes if the family were captured with ``sizes``.

        The order of captures remains. Each allocation is linear in the size. Those that only the
        first size makes, such as workspaces, remain in the first one.
        """
        members = [capture for capture in self.captures if capture.key[0] == self.family]
        present = [member.key[1] for member in members]
        is_descending = present == sorted(present, reverse=True)
        if not is_descending and present != sorted(present):
            return _explain("the sizes were captured in no order")
        order = sorted(set(sizes), reverse=is_descending)
        if order == present:
            return self.reserved_bytes
        first = _separate_first(members)
        if first is None:
            return _explain("the allocations of the sizes differ by more than their size")
        members[0] = first
        new_members = []
        for size in order:
            has_first_allocations = size == order[0]
            member = _build_member(members, size, has_first_allocations=has_first_allocations)
            if member is None:
                return _explain("the allocations of the sizes differ by more than their size")
            new_members.append(member)
        return simulate_pool(self._merge(new_members, is_descending=is_descending))

    def _merge(self, members: Sequence[PoolCapture], *, is_descending: bool) -> list[PoolCapture]:
        """Replace the captures of the family. New sizes precede the next present one."""
        waiting = list(members)
        last = max(n for n, capture in enumerate(self.captures) if capture.key[0] == self.family)
        order: list[PoolCapture] = []
        for number, capture in enumerate(self.captures):
            if capture.key[0] != self.family:
                order.append(capture)
                continue
            while waiting and (
                number == last
                or waiting[0].key[1] == capture.key[1]
                or (waiting[0].key[1] > capture.key[1]) == is_descending
            ):
                order.append(waiting.pop(0))
        return order


def build_family_pool(run: Run, family: int) -> FamilyPool | Missing:
    """Build the captures into the pool of a family of ``run``, or explain why they are unknown."""
    loop, ledger = run.loop, run.ledger
    assert loop is not None
    if ledger is None or any(graph.pool_operations is None for graph in ledger.graphs):
        return _explain("the allocations of its captures were not recorded")
    members, axis = loop.families[family].members, loop.families[family].size_axis
    sizes = [None if m.key is None or axis is None else m.key[axis] for m in members]
    if None in sizes or len(set(sizes)) < len(sizes):
        return _explain("its graphs do not have different sizes")
    if len(sizes) < _MIN_SIZES:
        return _explain("fewer than three sizes were captured")
    keys = {
        graph: (family, size or 0)
        for member, size in zip(members, sizes, strict=True)
        for graph in member.graphs
    }
    pools = {cost.pool for cost in loop.graphs if cost.graph in keys}
    if len(pools) != 1:
        return _explain("its graphs are in several pools")
    captures: list[PoolCapture] = []
    owners: list[tuple[CaptureKey, int]] = []
    counts: Counter[CaptureKey] = Counter()
    for position, graph in enumerate(ledger.graphs):
        key = keys.get(graph.graph, (-1, position))
        is_same_capture = bool(captures) and captures[-1].key == key
        operations = list(captures.pop().operations) if is_same_capture else []
        for operation in graph.pool_operations or ():
            if operation > 0:
                operations.append(PoolOperation(operation, counts[key]))
                owners.append((key, counts[key]))
                counts[key] += 1
            elif len(owners) + operation >= 0:
                operations.append(_build_free(owners[operation], key, captures))
        captures.append(PoolCapture(key, tuple(operations), graph.pool_stream))
    used = {graph.graph for graph in ledger.graphs if graph.pool in pools}
    captures = [c for c in captures if c.key[0] == family or ledger.graphs[c.key[1]].graph in used]
    pool_bytes = sum(cost.pool_growth_bytes or 0 for cost in loop.graphs if cost.pool in pools)
    if len({c.key for c in captures}) < len(captures) or simulate_pool(captures) != pool_bytes:
        return _explain("a simulation of the allocator does not reproduce its pool")
    return FamilyPool(family, tuple(captures), pool_bytes)


def simulate_pool(captures: Iterable[PoolCapture]) -> int:
    """Return the bytes that the pool reserves for ``captures``."""
    pools: defaultdict[int | None, PrivatePool] = defaultdict(PrivatePool)
    live: dict[tuple[CaptureKey, int], tuple[PrivatePool, PoolBlock]] = {}
    previous: dict[int, CaptureKey] = {}
    for capture in captures:
        family = capture.key[0]
        for operation in capture.operations:
            owner = operation.owner or capture.key
            if owner == _PREVIOUS:
                owner = previous.get(family, owner)
            label = owner, operation.number
            if operation.size:
                pool = pools[capture.stream]
                live[label] = pool, pool.allocate(operation.size)
            elif label in live:
                pool, block = live.pop(label)
                pool.free(block)
        previous[family] = capture.key
    return sum(pool.reserved_bytes for pool in pools.values())


def _explain(reason: str) -> Missing:
    return Missing(Fact.PREDICTION, reason)


def _build_free(
    allocation: tuple[CaptureKey, int], key: CaptureKey, captures: Sequence[PoolCapture]
) -> PoolOperation:
    owner, number = allocation
    if owner == key:
        return PoolOperation(0, number)
    before = [capture.key for capture in captures if capture.key[0] == key[0] >= 0]
    return PoolOperation(0, number, _PREVIOUS if before[-1:] == [owner] else owner)


def _separate_first(members: Sequence[PoolCapture]) -> PoolCapture | None:
    """Give negative numbers to the allocations that only the first size makes. None if it lacks
    some of the others."""
    first = members[0]
    template = _interpolate(members[1:], first.key[1])
    if template is None:
        return None
    remaining = [part for part in template if part.owner != _PREVIOUS]
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
