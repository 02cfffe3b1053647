"""Programs that capture several sizes into one pool.

run = record(make_server(folder, sizes=(8, 16)), Program().capture((16, 8)))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.ledger import GraphStart
from graphviz_dash.model.run import Run
from graphviz_dash.planning.allocator import PoolBlock, PrivatePool
from tests.ledgers import make_ledger

KIB = 1 << 10
MIB = 1 << 20


@dataclass
class Program:
    """Captures sizes into one pool, and records their operations as the recorder does."""

    unit: int = KIB
    pool: PrivatePool = field(default_factory=PrivatePool)
    starts: list[GraphStart] = field(default_factory=list)
    growth: list[int] = field(default_factory=list)
    blocks: list[tuple[int, PoolBlock]] = field(default_factory=list)
    operations: list[int] = field(default_factory=list)
    allocations: int = 0

    def allocate(self, size: int) -> int:
        self.operations.append(size)
        self.blocks.append((self.allocations, self.pool.allocate(size)))
        self.allocations += 1
        return self.allocations - 1

    def free(self, number: int) -> None:
        self.operations.append(number - self.allocations)
        (block,) = [block for other, block in self.blocks if other == number]
        self.pool.free(block)

    def capture(self, sizes: Sequence[int], *, odd: int | None = None) -> Program:
        """Capture in this order. The first one also makes a workspace, and each frees the output of
        the one before. ``odd``: a size that makes an allocation that others do not make."""
        output = None
        for place, size in enumerate(sizes):
            before, self.operations = self.pool.reserved_bytes, []
            hidden = self.allocate(size * 40 * self.unit)
            if not place:
                self.allocate(9 * MIB)
            if size == odd:
                self.allocate(MIB)
            if output is not None:
                self.free(output)
            gates = self.allocate(size * 240 * self.unit + 100)
            self.allocate(size * 4 * self.unit)
            self.free(hidden)
            output = self.allocate(size * 80 * self.unit)
            self.free(gates)
            start = GraphStart(f"graph-{place}", (0, 1), 0, None)
            self.starts.append(replace(start, pool_operations=tuple(self.operations)))
            self.growth.append(self.pool.reserved_bytes - before)
        return self


def record(server: Path, program: Program) -> Run:
    """The recording of a server, with the operations of a program that captured its sizes, the
    largest first."""
    run = load_run(server, traces=False)
    assert run.loop is not None
    graphs = tuple(
        replace(cost, pool=(0, 1), pool_growth_bytes=growth)
        for cost, growth in zip(run.loop.graphs, program.growth, strict=True)
    )
    ledger = make_ledger(graphs=tuple(program.starts))
    return replace(run, loop=replace(run.loop, graphs=graphs), ledger=ledger)
