"""A node's card tells everything that is known of the node, and why the rest is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphviz_dash.analysis.nodes import node_table
from graphviz_dash.analysis.replays import match_replays
from graphviz_dash.charts.node_card import Field, NodeCard, node_card
from graphviz_dash.ingest.load import load_run


def fields(card: NodeCard) -> dict[str, Field]:
    return {field.label: field for _, section in card.sections for field in section}


def recorded(name: str, node: int) -> NodeCard:
    run = load_run(Path("sample_traces") / name / "graph")
    assert run.replay_trace is not None
    matched = match_replays(run.graphs, run.replay_trace)
    return node_card(node_table(run, "graph-0"), node, matched.samples("graph-0", node))


def test_a_kernel() -> None:
    card = recorded("transformer-train", 2)
    found = fields(card)
    assert card.kind == "Kernel"
    assert found["Operator"].text == "aten::addmm"
    assert found["Operator path"].text == "aten::linear > aten::addmm"
    assert found["Module"].text == "Transformer.layers.0.attention.qkv"
    assert found["Source"].text.startswith("collectors/workloads/transformer.py:")
    assert found["Source"].note == "range"
    assert found["Grid"].text.count(" x ") == 2
    assert found["Attributed by"].note == "confidence 100%"
    assert found["Median"].text.endswith(" us")
    assert found["Median"].note == "traced"
    assert found["After"].text == "1"
    assert found["Before"].text == "3"
    assert sum(card.bins) == int(found["Samples"].text.split()[0])


def test_copies_and_sets() -> None:
    run = load_run(Path("sample_traces/fork-join/graph"))
    kinds = {node.kind.value: node.index for node in run.graphs[0].nodes}
    copy = fields(recorded("fork-join", kinds["Memcpy"]))
    assert copy["Direction"].text.startswith("DtoH")
    assert copy["Bytes"].text == "512 KiB"
    fill = fields(recorded("fork-join", kinds["Memset"]))
    assert fill["Value"].text.startswith("0 in elements of")


def test_what_is_not_known_says_why() -> None:
    run = load_run(Path("sample_traces/mlp-train/graph"))
    bare = type(run)(run.path, run.manifest, run.clean, run.graphs, run.memory, None, None)
    card = node_card(node_table(bare, "graph-0"), 0, np.zeros(0, dtype=np.int64))
    found = fields(card)
    assert found["Operator"].text == "–"
    assert found["Operator"].note
    assert found["Duration"].note == "there is no trace of replays"
    assert card.bins == ()


def test_a_node_that_is_not_there() -> None:
    with pytest.raises(IndexError):
        recorded("mlp-train", 10_000)
