from __future__ import annotations

import random

import pytest

from graphviz_dash.features.graph.folding.fold import MAX_CHILDREN
from graphviz_dash.features.graph.folding.tree import FoldGroup, FoldKind, index_groups
from tests.analysis.fold.trees import leaves, line, of_kind, table, tree


def test_a_repeated_block_is_found_without_modules() -> None:
    names = ["start", *["a", "b", "c", "d", "e"] * 20, "end"]
    root = tree(table(102, line(102), None, names))
    (repeat,) = of_kind(root, FoldKind.REPEAT)
    assert len(repeat.children) == 20
    assert repeat.nodes == tuple(range(1, 101))
    assert len(root.children) == 3


def test_a_large_graph_has_rows_that_can_be_read() -> None:
    chance = random.Random(1)
    names = [f"k{chance.randrange(1000)}" for _ in range(20_000)]
    root = tree(table(20_000, line(20_000), None, names))
    assert all(len(group.children) <= MAX_CHILDREN for group in index_groups(root).values())
    assert list(root.nodes) == list(range(20_000))


def test_a_long_repeat_is_cut_into_parts_that_say_what_they_hold() -> None:
    layers = 500
    modules = [f"Net.layers.{layer}" for layer in range(layers) for _ in range(3)]
    root = tree(table(3 * layers, line(3 * layers), [*modules]))
    (repeat,) = root.children
    assert isinstance(repeat, FoldGroup)
    assert (repeat.kind, repeat.title, repeat.repeats) == (
        FoldKind.REPEAT,
        "Net.layers.0-499",
        layers,
    )
    parts = [part for part in repeat.children if isinstance(part, FoldGroup)]
    assert 2 < len(parts) <= MAX_CHILDREN
    assert sum(part.repeats for part in parts) == layers
    assert parts[0].title == f"Net.layers.0-{parts[0].repeats - 1}"
    blocks = [block for part in parts for block in part.children]
    assert [block.nodes for block in blocks] == [(at, at + 1, at + 2) for at in range(0, 1500, 3)]


@pytest.mark.parametrize("branches", [64, 65, 3_000])
def test_many_branches_can_be_unfolded_a_part_at_a_time(branches: int) -> None:
    edges = [(0, at) for at in range(1, branches + 1)]
    edges += [(at, branches + 1) for at in range(1, branches + 1)]
    root = tree(table(branches + 2, edges))
    outer = next(group for group in of_kind(root, FoldKind.PARALLEL) if "." not in group.id[2:])
    assert outer.title == f"{branches} branches"
    assert all(len(group.children) <= MAX_CHILDREN for group in index_groups(root).values())
    assert leaves(outer) == list(range(1, branches + 1))
    first = outer.children[0]
    part = isinstance(first, FoldGroup) and first.title.startswith("branches 1 to")
    assert part == (branches > MAX_CHILDREN)


def test_a_large_tangle_is_cut_too() -> None:
    width = 400
    edges = [(a, b) for a in range(2, width) for b in range(a + 1, min(a + 4, width))]
    edges += [(0, a) for a in range(2, width)] + [(a, width) for a in range(1, width)] + [(0, 1)]
    edges += [(1, a) for a in range(4, width, 2)]
    root = tree(table(width + 1, edges))
    assert all(len(group.children) <= MAX_CHILDREN for group in index_groups(root).values())
    assert sorted(leaves(root)) == list(range(width + 1))
    assert len(of_kind(root, FoldKind.TANGLE)) > 2


def test_a_repeated_row_of_modules_is_named_after_them() -> None:
    parts = ["Net.embed", "Net.mixer", "Net.head"]
    modules: list[str | None] = [f"{part}" for _ in range(30) for part in parts for _ in range(2)]
    root = tree(table(180, line(180), modules))
    (repeat,) = root.children
    assert isinstance(repeat, FoldGroup)
    assert repeat.title == "Net.embed, Net.mixer, Net.head"
    assert repeat.repeats == 30


def test_groups_of_one_title_are_distinguished_by_number_and_longest_node() -> None:
    """Two thirds of the nodes are additions, so that each part of the row is named after them."""
    chance = random.Random(2)
    names = [chance.choice(["add", "add", f"k{at}"]) for at in range(3_000)]
    root = tree(table(3_000, line(3_000), None, names))
    for group in index_groups(root).values():
        titles = [child.title for child in group.children if isinstance(child, FoldGroup)]
        if group.kind is not FoldKind.REPEAT:
            assert len({*titles}) == len(titles)
