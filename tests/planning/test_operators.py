from __future__ import annotations

import pytest

from graphviz_dash.planning.operators import DependencyKind, find_dependencies
from tests.planning.steps import Step

RAW, WAR, WAW = (
    DependencyKind.READ_AFTER_WRITE,
    DependencyKind.WRITE_AFTER_READ,
    DependencyKind.WRITE_AFTER_WRITE,
)


def needs(step: Step) -> list[list[tuple[int, DependencyKind]]]:
    return [[(need.source, need.kind) for need in own] for own in find_dependencies(step.operators)]


def test_readers_of_one_input_need_nothing_of_each_other() -> None:
    step = Step().outside("x").op("x", makes="a").op("x", makes="b").op("ab", makes="c")
    assert needs(step) == [[], [], [(0, RAW), (1, RAW)]]


def test_a_write_in_place_follows_those_who_read_before_it() -> None:
    step = Step().outside("x").op("x", makes="a").op("x", makes="b").op("x", writes="x").op("x")
    assert needs(step)[2:] == [[(0, WAR), (1, WAR)], [(2, RAW)]]


def test_a_write_that_covers_others_hides_them() -> None:
    step = Step().outside("x").op(writes="x").op(writes="x").op("x")
    assert needs(step) == [[], [(0, WAW)], [(1, RAW)]]


def test_views_of_other_bytes_are_apart_and_the_whole_needs_both() -> None:
    step = Step().outside("x").op(writes="x", span=(0, 32)).op(writes="x", span=(32, 64))
    step.op("x", span=(16, 48)).op(writes="x", span=(0, 8))
    assert needs(step) == [[], [], [(0, RAW), (1, RAW)], [(0, WAW)]]


def test_a_write_of_a_part_leaves_the_older_write_in_force() -> None:
    step = Step().outside("x").op(writes="x").op(writes="x", span=(0, 8)).op("x")
    assert needs(step)[2] == [(0, RAW), (1, RAW)]


def test_an_opaque_operator_keeps_its_order_to_all_others() -> None:
    step = Step().outside("xy").op("x").op("y").op(opaque=True).op("x").op("y").op(opaque=True)
    assert [[source for source, _ in own] for own in needs(step)] == [
        [], [], [0, 1], [2], [2], [2, 3, 4],
    ]  # fmt: skip


def test_collectives_of_all_groups_are_one_chain() -> None:
    step = Step().outside("xy").op("x", makes="a")
    step.op(writes="x", name="c10d.allreduce_.default").op("a", makes="b")
    step.op("y", makes="c", name="_c10d_functional.all_gather_into_tensor.default").op("c")
    step.op(writes="c", name="c10d.broadcast_.default")
    together = DependencyKind.COLLECTIVE
    assert needs(step) == [
        [], [(0, WAR)], [(0, RAW)], [(1, together)], [(3, RAW)], [(3, WAW), (4, WAR)],
    ]  # fmt: skip


@pytest.mark.parametrize("span", [(0, 0), (8, 8)])
def test_an_empty_tensor_reaches_nothing(span: tuple[int, int]) -> None:
    step = Step().outside("x").op(writes="x", span=span).op("x").op(writes="x", span=span)
    assert needs(step) == [[], [], []]


def test_without_nodes_nothing_is_done() -> None:
    step = Step().outside("x").op(writes="x", nodes=0).op("x")
    assert needs(step) == [[], []]
