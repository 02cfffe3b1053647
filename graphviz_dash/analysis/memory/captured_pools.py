"""Predict the private pool of other capture sizes from the recorded allocations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct

from graphviz_dash.analysis.memory.pool_simulation import UNEQUAL, PoolSimulation
from graphviz_dash.analysis.memory.pool_states import (
    PREVIOUS,
    CaptureKey,
    PoolCapture,
    PoolOperation,
    PoolState,
)
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import Run

_MIN_SIZES: Final = 3
"""The first size may have additional allocations, and a line needs two."""


class FamilyPool(Struct, frozen=True):
    """Captures into the pool of a family. Their simulation agrees with the recorded pool."""

    family: int
    captures: tuple[PoolCapture, ...]
    """In order."""
    reserved_bytes: int
    growth_bytes: int
    """Part that the captures of the family added."""

    def simulate(self) -> PoolSimulation:
        """Prepare the simulation of other sizes, which keeps its results."""
        return PoolSimulation(self.family, self.captures)

    def predict(self, sizes: Iterable[int]) -> int | Missing:
        """Predict the reserved bytes if the family were captured with ``sizes``."""
        reserved_bytes = self.simulate().predict(sizes)
        return _explain(UNEQUAL) if reserved_bytes is None else reserved_bytes


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
    obstacle = PoolSimulation(family, captures).obstacle
    growth_bytes = sum(cost.pool_growth_bytes or 0 for cost in loop.graphs if cost.graph in keys)
    pool = FamilyPool(family, tuple(captures), pool_bytes, growth_bytes)
    return _explain(obstacle) if obstacle else pool


def predict_pool_reduction(run: Run, graphs: AbstractSet[str]) -> int | None:
    """Predict by how many bytes the pools shrink without ``graphs``.

    None unless they are all graphs of some sizes, in families with separate pools that can be
    simulated.
    """
    reduction, pools, remaining = 0, set(), set(graphs)
    costs = {} if run.loop is None else {cost.graph: cost for cost in run.loop.graphs}
    for index, family in enumerate(run.loop.families if run.loop is not None else ()):
        kept_members = [member for member in family.members if not graphs & {*member.graphs}]
        removed_graphs = {graph for member in family.members for graph in member.graphs}
        removed_graphs -= {graph for member in kept_members for graph in member.graphs}
        if not removed_graphs:
            continue
        pool, axis = build_family_pool(run, index), family.size_axis
        name = next(costs[graph].pool for graph in removed_graphs)
        if isinstance(pool, Missing) or name in pools or not removed_graphs <= graphs:
            return None
        sizes = [
            member.key[axis]
            for member in kept_members
            if member.key is not None and axis is not None
        ]
        prediction = pool.predict(sizes)
        if isinstance(prediction, Missing):
            return None
        pools.add(name)
        remaining -= removed_graphs
        reduction += pool.reserved_bytes - prediction
    return None if remaining else reduction


def simulate_pool(captures: Iterable[PoolCapture]) -> int:
    """Return the bytes that the pool reserves for ``captures``."""
    state = PoolState()
    for capture in captures:
        state.add(capture)
    return state.reserved_bytes


def _explain(reason: str) -> Missing:
    return Missing(Fact.PREDICTION, reason)


def _build_free(
    allocation: tuple[CaptureKey, int], key: CaptureKey, captures: Sequence[PoolCapture]
) -> PoolOperation:
    owner, number = allocation
    if owner == key:
        return PoolOperation(0, number)
    before = [capture.key for capture in captures if capture.key[0] == key[0] >= 0]
    return PoolOperation(0, number, PREVIOUS if before[-1:] == [owner] else owner)
