from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collectors.allocator.extents import Segment
from collectors.driver.operands import AllocationResolver, Extent, list_live_extents
from collectors.parallel.hidden import add_hidden_accesses, find_hidden_extents
from graphviz_dash.model.graph import CapturedGraph, GraphNode, NodeKind, Operand
from graphviz_dash.model.parallel import Access, Operator, Storage

BASE = 0x7F12_0000_0000
GIVEN, KEPT, FREE = BASE, BASE + 1024, BASE + 4096
SEGMENT = Segment(BASE, BASE + 0x10000, (0, 0), ((GIVEN, 512), (KEPT, 1024)))
BLOCKS = list_live_extents([SEGMENT], ())


@dataclass(frozen=True)
class Tensor:
    begin: int

    def data_ptr(self) -> int:
        return self.begin

    def nbytes(self) -> int:
        return 400


def operator(name: str, **facts: bool) -> Operator:
    return Operator(name, (Access(0, 0, 400, False),), 1, **facts)


def graph(
    reach: AllocationResolver, *addresses: Sequence[int], body: Sequence[int] = ()
) -> list[CapturedGraph]:
    """A node for each operator, which is given its ``addresses``; the last holds a body."""

    def node(index: int, own: Sequence[int]) -> GraphNode:
        operands = [reach.resolve(address) for address in own]
        found: list[Operand] = [each for each in operands if each is not None]
        return GraphNode(index, NodeKind.KERNEL, operands=tuple(found))

    nodes = tuple(node(index, own) for index, own in enumerate(addresses))
    last = len(nodes) - 1
    return [
        CapturedGraph("graph-0", nodes, (), "made"),
        CapturedGraph(f"graph-0.{last}.0", (node(0, body),), (), "made", ("graph-0", last)),
    ]


def reached(operators: list[Operator], *addresses: Sequence[int]) -> dict[Extent, list[int]]:
    reach = AllocationResolver([SEGMENT], BLOCKS, lambda _: None)
    return find_hidden_extents(operators, graph(reach, *addresses), reach, set(BLOCKS))


def test_only_operators_that_may_hide_memory_are_looked_at() -> None:
    operators = [
        operator("aten.mm.default"),
        operator("mine.update.default", opaque=True),
        operator("c10d.allreduce_.default", opaque=True),
    ]
    both = [GIVEN, KEPT + 8]
    assert reached(operators, both, both, both) == {
        (GIVEN, GIVEN + 512): [1],
        (KEPT, KEPT + 1024): [1],
    }
    # Not in use, or not torch's: nothing that could be put back.
    assert reached(operators, both, [FREE, 0x7F50_0000_0000], both) == {}


def test_a_body_reaches_for_the_node_that_holds_it() -> None:
    reach = AllocationResolver([SEGMENT], BLOCKS, lambda _: None)
    operators = [operator("aten.mm.default"), operator("", opaque=True)]
    graphs = graph(reach, [], [], body=[KEPT])
    assert find_hidden_extents(operators, graphs, reach, set(BLOCKS)) == {(KEPT, KEPT + 1024): [1]}


def test_hidden_accesses_count_as_writes() -> None:
    storages = [Storage(400, (100,), "float32", None)]
    operators = [
        operator("aten.tanh.default"),
        operator("mine.reads.default", opaque=True),
        replace_accesses(operator("mine.keeps.default", opaque=True)),
    ]
    extents = {(GIVEN, GIVEN + 512): [1, 2], (KEPT, KEPT + 1024): [2]}
    changed, extended, unknown = add_hidden_accesses(
        operators, storages, {0: Tensor(GIVEN)}, extents
    )
    assert changed[:2] == operators[:2]  # the second was given what it reaches
    assert changed[2].accesses == (Access(0, 0, 400, True), Access(1, 0, 1024, True))
    assert extended[1] == Storage(1024, (1024,), "uint8", None)
    assert unknown == {1: (KEPT, KEPT + 1024)}


def replace_accesses(of: Operator) -> Operator:
    return Operator(of.name, (), of.nodes, opaque=of.opaque)
