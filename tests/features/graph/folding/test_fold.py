from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.features.graph.folding.tree import FoldKind, index_groups
from graphviz_dash.ingest.load import load_run
from tests.analysis.fold.trees import leaves, of_kind, tree


@pytest.mark.parametrize("name", ["mlp-train", "transformer-train", "decode", "fork-join"])
def test_recorded_graphs(name: str) -> None:
    run = load_run(Path("sample_traces") / name / "graph")
    from graphviz_dash.analysis.nodes.node_table import build_table

    made = build_table(run, "graph-0")
    root = tree(made)
    assert sorted(leaves(root)) == list(range(len(made.rows)))
    titles = {group.title for group in index_groups(root).values()}
    if name == "transformer-train":
        assert "Transformer.layers.0-3" in titles
        assert {"forward", "backward", "optimizer"} <= titles
    if name == "decode":
        assert "Decoder.layers.0-11" in titles
    if name == "fork-join":
        assert len(of_kind(root, FoldKind.PARALLEL)) == 1
        assert {"Branch", "Branch#2", "Branch#3"} <= titles
