"""A folded graph: every node once, in order, and groups as the model is written."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.analysis.fold.fold import MOST_CHILDREN, fold
from graphviz_dash.analysis.fold.tree import FoldKind, Group, Leaf, ancestors, groups
from graphviz_dash.analysis.nodes.node_table import NodeTable, build_node_table
from graphviz_dash.analysis.nodes.whole_graph import WholeGraph
from graphviz_dash.analysis.origins.attribution import Attribution, NodeOrigin
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.graph import CapturedGraph, GraphEdge, GraphNode, KernelParams, NodeKind


def table(
    count: int,
    edges: list[tuple[int, int]],
    modules: list[str | None] | None = None,
    names: list[str] | None = None,
) -> NodeTable:
    """A graph of kernels, called by their module and name."""
    nodes = tuple(
        GraphNode(
            index,
            NodeKind.KERNEL,
            KernelParams("k", names[index] if names else f"k{index % 3}", (1, 1, 1), (1, 1, 1), 0),
        )
        for index in range(count)
    )
    graph = CapturedGraph("g", nodes, tuple(GraphEdge(a, b) for a, b in edges), "test")
    origins = tuple(
        NodeOrigin("capture order", 1.0, op="aten::op", phase="forward", module=module)
        for module in (modules or [None] * count)
    )
    return build_node_table(graph, Attribution("g", origins, count, 0, 0), None)


def tree(made: NodeTable) -> Group:
    return fold(WholeGraph.of(made))


def near_edges(count: int, chance: random.Random, density: float) -> list[tuple[int, int]]:
    """Dependencies of nodes on some of the dozen before them, on the last one most often."""
    return [
        (a, b)
        for a in range(count)
        for b in range(a + 1, min(count, a + 12))
        if chance.random() < density + (0.8 if b == a + 1 else 0)
    ]


def line(count: int) -> list[tuple[int, int]]:
    return [(index, index + 1) for index in range(count - 1)]


def leaves(group: Group) -> list[int]:
    found = []
    for child in group.children:
        found += [child.node] if isinstance(child, Leaf) else leaves(child)
    return found


def of_kind(root: Group, kind: FoldKind) -> list[Group]:
    return [group for group in groups(root).values() if group.kind is kind]


def test_modules_are_groups_and_equal_ones_a_repeat() -> None:
    modules = ["Net.embed"] + [
        f"Net.layers.{layer}.{part}" for layer in range(4) for part in ("norm", "mlp", "mlp")
    ]
    names = ["gather"] + ["norm", "gemm", "gelu"] * 4
    root = tree(table(13, line(13), [*modules], names))
    (repeat,) = of_kind(root, FoldKind.REPEAT)
    assert repeat.title == "Net.layers.0-3"
    assert [child.title for child in repeat.children if isinstance(child, Group)] == [
        f"Net.layers.{layer}" for layer in range(4)
    ]
    assert leaves(root) == list(range(13))


def test_parallel_branches_stand_side_by_side() -> None:
    edges = [(0, 1), (0, 2), (0, 4), (2, 3), (4, 5), (5, 6), (1, 7), (3, 7), (6, 7)]
    root = tree(table(8, edges))
    (parallel,) = of_kind(root, FoldKind.PARALLEL)
    assert [child.nodes for child in parallel.children] == [(1,), (2, 3), (4, 5, 6)]
    assert root.children[0] == Leaf("n0", 0)
    assert root.children[-1] == Leaf("n7", 7)


def test_several_roots_and_sinks_are_branches() -> None:
    root = tree(table(6, [(0, 1), (2, 3), (4, 5)]))
    (parallel,) = of_kind(root, FoldKind.PARALLEL)
    assert [child.nodes for child in parallel.children] == [(0, 1), (2, 3), (4, 5)]


def test_what_cannot_be_taken_apart_is_a_tangle() -> None:
    edges = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 5), (4, 5)]
    root = tree(table(6, edges))
    (tangle,) = of_kind(root, FoldKind.TANGLE)
    assert tangle.nodes == (1, 2, 3, 4)


def test_a_repeated_block_is_found_without_modules() -> None:
    names = ["start", *["a", "b", "c", "d", "e"] * 20, "end"]
    root = tree(table(102, line(102), None, names))
    (repeat,) = of_kind(root, FoldKind.REPEAT)
    assert len(repeat.children) == 20
    assert repeat.nodes == tuple(range(1, 101))
    assert len(root.children) == 3


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 90), st.integers(0, 10_000), st.floats(0, 0.12))
def test_every_node_is_in_exactly_one_leaf(count: int, seed: int, density: float) -> None:
    chance = random.Random(seed)
    edges = near_edges(count, chance, density)
    modules = [
        chance.choice([None, f"Net.layers.{chance.randrange(3)}.{chance.choice('ab')}"])
        for _ in range(count)
    ]
    made = table(count, edges, modules)
    root = tree(made)
    assert sorted(leaves(root)) == list(range(count))
    assert list(root.nodes) == leaves(root)
    place = {node: at for at, node in enumerate(leaves(root))}
    assert all(len(group.children) <= MOST_CHILDREN for group in groups(root).values())
    assert tree(made) == root
    ids = list(groups(root))
    assert len(ids) == len(set(ids))
    node = chance.randrange(count)
    around = ancestors(root, node)
    assert all(node in groups(root)[ident].nodes for ident in around)
    # Along a line the order of execution is kept; branches come one after another.
    if all((a, a + 1) in edges for a in range(count - 1)):
        assert all(place[a] < place[b] for a, b in edges)


def test_a_large_graph_has_rows_that_can_be_read() -> None:
    chance = random.Random(1)
    names = [f"k{chance.randrange(1000)}" for _ in range(20_000)]
    root = tree(table(20_000, line(20_000), None, names))
    assert all(len(group.children) <= MOST_CHILDREN for group in groups(root).values())
    assert list(root.nodes) == list(range(20_000))


@pytest.mark.parametrize("name", ["mlp-train", "transformer-train", "decode", "fork-join"])
def test_recorded_graphs(name: str) -> None:
    run = load_run(Path("sample_traces") / name / "graph")
    from graphviz_dash.analysis.nodes.node_table import node_table

    made = node_table(run, "graph-0")
    root = tree(made)
    assert sorted(leaves(root)) == list(range(len(made.rows)))
    titles = {group.title for group in groups(root).values()}
    if name == "transformer-train":
        assert "Transformer.layers.0-3" in titles
        assert {"forward", "backward", "optimizer"} <= titles
    if name == "decode":
        assert "Decoder.layers.0-11" in titles
    if name == "fork-join":
        assert len(of_kind(root, FoldKind.PARALLEL)) == 1
        assert {"Branch", "Branch#2", "Branch#3"} <= titles


def test_a_long_repeat_is_cut_into_parts_that_say_what_they_hold() -> None:
    layers = 500
    modules = [f"Net.layers.{layer}" for layer in range(layers) for _ in range(3)]
    root = tree(table(3 * layers, line(3 * layers), [*modules]))
    (repeat,) = root.children
    assert isinstance(repeat, Group)
    assert (repeat.kind, repeat.title, repeat.repeats) == (
        FoldKind.REPEAT,
        "Net.layers.0-499",
        layers,
    )
    parts = [part for part in repeat.children if isinstance(part, Group)]
    assert 2 < len(parts) <= MOST_CHILDREN
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
    assert all(len(group.children) <= MOST_CHILDREN for group in groups(root).values())
    assert leaves(outer) == list(range(1, branches + 1))
    first = outer.children[0]
    part = isinstance(first, Group) and first.title.startswith("branches 1 to")
    assert part == (branches > MOST_CHILDREN)


def test_a_large_tangle_is_cut_too() -> None:
    width = 400
    edges = [(a, b) for a in range(2, width) for b in range(a + 1, min(a + 4, width))]
    edges += [(0, a) for a in range(2, width)] + [(a, width) for a in range(1, width)] + [(0, 1)]
    edges += [(1, a) for a in range(4, width, 2)]
    root = tree(table(width + 1, edges))
    assert all(len(group.children) <= MOST_CHILDREN for group in groups(root).values())
    assert sorted(leaves(root)) == list(range(width + 1))
    assert len(of_kind(root, FoldKind.TANGLE)) > 2


def test_a_repeated_row_of_modules_is_named_after_them() -> None:
    parts = ["Net.embed", "Net.mixer", "Net.head"]
    modules: list[str | None] = [f"{part}" for _ in range(30) for part in parts for _ in range(2)]
    root = tree(table(180, line(180), modules))
    (repeat,) = root.children
    assert isinstance(repeat, Group)
    assert repeat.title == "Net.embed, Net.mixer, Net.head"
    assert repeat.repeats == 30
