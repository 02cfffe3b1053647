from __future__ import annotations

from pathlib import Path

from graphviz_dash.analysis.memory.captured_pools import FamilyPool, build_family_pool
from graphviz_dash.analysis.memory.pool_simulation import PartialPool
from graphviz_dash.analysis.memory.pool_states import (
    PREVIOUS,
    PoolCapture,
    PoolOperation,
    PoolState,
)
from tests.captured_pools import Program, record
from tests.loops import make_server

MIB = 1 << 20
NOTHING: frozenset[tuple[int, int]] = frozenset()


def temporary(size: int) -> PoolCapture:
    """Captures that free all their memory."""
    operations = (PoolOperation(size * MIB, 0), PoolOperation(0, 0))
    return PoolCapture((0, size), operations)


def lasting(size: int) -> PoolCapture:
    """Captures that keep an output until the next ones."""
    operations = (PoolOperation(0, 0, PREVIOUS), PoolOperation(size * MIB, 0))
    return PoolCapture((0, size), operations)


def run(*captures: PoolCapture) -> PoolState:
    state = PoolState()
    for capture in captures:
        state.add(capture)
    return state


def test_a_copy_is_independent() -> None:
    before = run(lasting(12), lasting(3))
    description, reserved = before.describe(NOTHING), before.reserved_bytes
    copy = before.copy()
    assert copy.describe(NOTHING) == description
    copy.add(lasting(40))
    assert (before.describe(NOTHING), before.reserved_bytes) == (description, reserved)
    # The copy continues as the original would.
    assert copy.describe(NOTHING) == run(lasting(12), lasting(3), lasting(40)).describe(NOTHING)


def test_states_are_equal_if_they_have_the_same_future() -> None:
    assert run(temporary(12), temporary(7)).describe(NOTHING) == run(temporary(12)).describe(
        NOTHING
    )
    # The output of the last capture is at the same place, but that of 3 comes before it.
    assert run(lasting(12), lasting(3)).describe(NOTHING) != run(lasting(12)).describe(NOTHING)
    # A block that a later capture may free differs from one that remains.
    kept = PoolCapture((0, 8), (PoolOperation(MIB, 0),))
    other = PoolCapture((0, 4), (PoolOperation(MIB, 0),))
    after = (temporary(3),)
    assert run(kept, *after).describe(NOTHING) == run(other, *after).describe(NOTHING)
    assert run(kept, *after).describe(frozenset({(0, 8)})) != run(other, *after).describe(NOTHING)


def test_partial_pools_agree_with_full_simulations(tmp_path: Path) -> None:
    sizes = (8, 16, 24, 32, 48)
    server = make_server(tmp_path, sizes=sizes)
    pool = build_family_pool(record(server, Program(2_048).capture(sizes[::-1])), 0)
    assert isinstance(pool, FamilyPool)
    simulation = pool.simulate()
    starts = [(), (48,), (48, 20), (48, 20, 8), (40,), (40, 16)]
    states = {(): PartialPool()}
    for order in starts[1:]:
        extended = simulation.extend(states[order[:-1]], order[-1])
        assert extended is not None
        states[order] = extended
    for order in starts:
        truth = Program(2_048).capture(order).pool.reserved_bytes
        assert simulation.finish(states[order]) == truth == simulation.predict(order)
