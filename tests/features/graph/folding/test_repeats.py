from __future__ import annotations

from collections import Counter

from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.features.graph.folding.repeats import compute_repeat_facts, find_unusual_nodes
from graphviz_dash.features.graph.folding.tree import FoldKind
from tests.analysis.fold.trees import layers, line, of_kind, table, tree


def test_differences_of_each_block_are_listed() -> None:
    names = layers(24, 1)
    made = table(len(names), line(len(names)), None, names)
    root = tree(made)
    repeat = next(one for one in of_kind(root, FoldKind.REPEAT) if not one.is_part)
    facts = compute_repeat_facts(ExpandedGraph.from_table(made), repeat)
    usual, *others = facts.variants
    assert len(usual.blocks) == 21
    assert (usual.added, usual.missing) == ((), ())
    assert sorted(at for one in others for at in one.blocks) == [7, 15, 23]
    for one in others:
        for block in one.blocks:
            nodes = repeat.blocks[block].nodes
            extra = [node for node in nodes if names[node].startswith("extra")]
            assert list(find_unusual_nodes(ExpandedGraph.from_table(made), repeat, block)) == extra
            named = Counter(names[node] for node in extra)
            assert (dict(one.added), one.missing) == (named, ())
    assert find_unusual_nodes(ExpandedGraph.from_table(made), repeat, 0) == ()
