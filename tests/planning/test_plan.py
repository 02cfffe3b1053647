from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.model.graph import CapturedGraph, GraphEdge, GraphNode, NodeKind
from graphviz_dash.model.parallel import Access
from graphviz_dash.planning.operators import find_dependencies
from graphviz_dash.planning.plan import Plan, build_plan, build_serial_plan
from graphviz_dash.planning.proof import (
    find_unjoined_operator,
    find_unordered_pair,
    remove_bookkeeping,
)
from tests.planning.steps import Step


@st.composite
def steps(draw: st.DrawFn) -> tuple[Step, list[int]]:
    step = Step().outside("xy")
    names = "xy"
    for index in range(draw(st.integers(1, 14))):
        some = st.lists(st.sampled_from(names), max_size=2, unique=True).map("".join)
        made = chr(ord("a") + index)
        kind = draw(st.sampled_from(["make", "make", "write", "empty", "opaque", "talk"]))
        if kind == "write":
            step.op(draw(some), writes=draw(some), span=draw(st.sampled_from([(0, 32), (32, 64)])))
            continue
        if kind == "talk":
            step.op(draw(some), makes=made, name="c10d.allreduce_.default")
        elif kind == "empty":
            step.op(makes=made, nodes=0)
        else:
            step.op(draw(some), makes=made, opaque=kind == "opaque", nodes=draw(st.integers(1, 2)))
        names += made
    streams = st.integers(0, 3)
    return step, draw(st.lists(streams, min_size=14, max_size=14))[: len(step.operators)]


def edges_of(step: Step, plan: Plan) -> list[tuple[int, int]]:
    """The edges of the graph that a capture by the plan would make."""
    nodes: list[list[int]] = []
    count = 0
    for operator in step.operators:
        nodes.append(list(range(count, count + operator.nodes)))
        count += operator.nodes
    edges, tail = [], {}
    for index, own in enumerate(nodes):
        if not own:
            continue
        lane = plan.stream[index]
        before = [*plan.waits[index], *([tail[lane]] if lane in tail else [])]
        edges += [(nodes[source][-1], own[0]) for source in before]
        edges += list(pairwise(own))
        tail[lane] = index
    return edges


def addresses_of(step: Step, plan: Plan) -> list[tuple[Access, ...]]:
    """Return the addresses of operators if each storage uses the memory that was free for longest
    on its stream.
    """
    free: dict[int, list[int]] = {}
    place: dict[int, int] = {}
    top = 0
    where = []
    for index, operator in enumerate(step.operators):
        own = free.setdefault(plan.stream[index], [])
        for storage in plan.releases[index]:
            if storage in place:
                own.append(place[storage])
        for storage, facts in enumerate(step.storages):
            if facts.creator == index:
                if own:
                    place[storage] = own.pop(0)
                else:
                    place[storage], top = top, top + 64
            elif facts.creator is None and storage not in place:
                place[storage], top = top, top + 64
        where.append(
            tuple(
                Access(0, place[a.storage] + a.start, place[a.storage] + a.end, a.writes)
                for a in operator.accesses
            )
        )
    return where


@settings(max_examples=100, deadline=None)
@given(steps())
def test_operators_that_share_memory_are_ordered(drawn: tuple[Step, list[int]]) -> None:
    step, wanted = drawn
    needs = find_dependencies(step.operators)
    plan = build_plan(step.operators, step.storages, needs, wanted)
    edges = edges_of(step, plan)
    apart = [
        tuple(
            Access(0, 64 * a.storage + a.start, 64 * a.storage + a.end, a.writes)
            for a in op.accesses
        )
        for op in step.operators
    ]
    assert find_unordered_pair(step.operators, apart, edges) is None
    assert find_unordered_pair(step.operators, addresses_of(step, plan), edges) is None
    talking = [index for index, operator in enumerate(step.operators) if operator.is_collective]
    assert {plan.stream[index] for index in talking} <= {0}


def test_nodes_that_order_collectives_are_no_work_of_the_step() -> None:
    """As NCCL captures: an event wait that follows nothing, a call on the host, and event records
    that the next collective follows."""
    step = Step().outside("x").op("x", makes="a", nodes=2)
    step.op("a", writes="a", name="c10d.allreduce_.default", nodes=4).op("a", makes="b")
    step.op("b", writes="b", name="c10d.allreduce_.default", nodes=2)
    work, wait, record = NodeKind.KERNEL, NodeKind.EVENT_WAIT, NodeKind.EVENT_RECORD
    kinds = (work, work, wait, NodeKind.HOST, work, record, work, work, record)
    edges = ((0, 1), (1, 4), (2, 3), (3, 4), (4, 5), (4, 6), (5, 7), (6, 7), (7, 8))
    graph = CapturedGraph(
        "graph-0",
        tuple(GraphNode(index, kind) for index, kind in enumerate(kinds)),
        tuple(GraphEdge(*edge) for edge in edges),
        "driver",
    )
    operators, left = remove_bookkeeping(step.operators, graph)
    assert [operator.nodes for operator in operators] == [2, 1, 1, 1]
    assert left == [(0, 1), (1, 2), (2, 3), (2, 4), (3, 4)]
    assert find_unjoined_operator(operators, left) is None
    assert find_unjoined_operator(step.operators, list(edges)) is not None


def test_a_missing_edge_is_found() -> None:
    step = Step().outside("x").op("x", makes="a").op("x", writes="x").op("ax", makes="b")
    where = [
        tuple(Access(0, 64 * a.storage, 64 * a.storage + 64, a.writes) for a in op.accesses)
        for op in step.operators
    ]
    assert find_unordered_pair(step.operators, where, [(0, 1), (1, 2)]) is None
    assert find_unordered_pair(step.operators, where, [(0, 2), (1, 2)]) == (0, 1)


def test_memory_of_a_stream_is_free_only_behind_the_readers_on_others() -> None:
    # a is made on stream 0 and read on stream 1; stream 0 goes on, and joins stream 1 last.
    step = Step().outside("x").op("x", makes="a").op("a", makes="b").op("x", makes="c")
    step.op("c", makes="d").op("bd", makes="e").op("e", makes="f")
    plan = build_plan(
        step.operators, step.storages, find_dependencies(step.operators), [0, 1, 0, 0, 0, 0]
    )
    a = step.number["a"]
    assert [index for index, own in enumerate(plan.releases) if a in own] == [4]


def test_a_line_waits_for_nothing() -> None:
    step = Step().outside("x").op("x", makes="a").op("a", makes="b").op("b", makes="c")
    plan = build_serial_plan(step.operators, step.storages)
    assert (plan.streams, plan.edge_count) == (1, 0)
    assert plan.releases == ((), (), (step.number["a"],))


def test_waits_are_only_those_that_no_other_implies() -> None:
    # Two on stream 1, both needed by one on stream 0: it waits for the second alone.
    step = Step().outside("x").op("x", makes="a").op("x", makes="b").op("ab", makes="c")
    plan = build_plan(step.operators, step.storages, find_dependencies(step.operators), [1, 1, 0])
    assert plan.waits == ((), (), (1,))
