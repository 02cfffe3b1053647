from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.features.graph.folding.fold import MAX_CHILDREN
from graphviz_dash.features.graph.folding.tree import index_groups, list_ancestors
from tests.analysis.fold.trees import leaves, near_edges, table, tree


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
    assert all(len(group.children) <= MAX_CHILDREN for group in index_groups(root).values())
    assert tree(made) == root
    ids = list(index_groups(root))
    assert len(ids) == len(set(ids))
    node = chance.randrange(count)
    around = list_ancestors(root, node)
    assert all(node in index_groups(root)[ident].nodes for ident in around)
    # Along a line the order of execution is kept; branches come one after another.
    if all((a, a + 1) in edges for a in range(count - 1)):
        assert all(place[a] < place[b] for a, b in edges)
