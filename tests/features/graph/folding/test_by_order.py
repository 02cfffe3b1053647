from __future__ import annotations

from graphviz_dash.features.graph.folding.tree import FoldGroup, FoldKind, Leaf
from tests.analysis.fold.trees import leaves, line, of_kind, table, tree


def test_modules_are_groups_and_equal_ones_a_repeat() -> None:
    modules = ["Net.embed"] + [
        f"Net.layers.{layer}.{part}" for layer in range(4) for part in ("norm", "mlp", "mlp")
    ]
    names = ["gather"] + ["norm", "gemm", "gelu"] * 4
    root = tree(table(13, line(13), [*modules], names))
    (repeat,) = of_kind(root, FoldKind.REPEAT)
    assert repeat.title == "Net.layers.0-3"
    assert [child.title for child in repeat.children if isinstance(child, FoldGroup)] == [
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


def test_an_irreducible_part_is_a_tangle() -> None:
    edges = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 5), (4, 5)]
    root = tree(table(6, edges))
    (tangle,) = of_kind(root, FoldKind.TANGLE)
    assert tangle.nodes == (1, 2, 3, 4)
