from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.analysis.nodes.node_table import build_table
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph, expand_graph
from graphviz_dash.features.graph.folding.fold import MAX_CHILDREN, FoldCriterion, fold_graph
from graphviz_dash.features.graph.folding.tree import (
    FoldGroup,
    FoldKind,
    index_groups,
    list_ancestors,
)
from graphviz_dash.ingest.load import load_run
from tests.analysis.fold.module_trees import LOST, graph, said
from tests.analysis.fold.module_trees import tree as fold_by_module
from tests.analysis.fold.trees import leaves, line, near_edges, of_kind, tree


@pytest.mark.parametrize("name", ["mlp-train", "transformer-train", "decode", "fork-join"])
def test_recorded_graphs(name: str) -> None:
    run = load_run(Path("sample_traces") / name / "graph")
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


def check(whole: ExpandedGraph, root: FoldGroup) -> None:
    """Every node once; at each group, and so in any view, edges lead from children to later ones;
    rows that can be read."""
    assert sorted(leaves(root)) == list(range(len(whole.table.rows)))
    assert list(root.nodes) == leaves(root)
    edges = [(edge.source, edge.target) for edge in whole.table.graph.edges]
    for group in index_groups(root).values():
        assert len(group.children) <= MAX_CHILDREN
        box = {node: at for at, child in enumerate(group.children) for node in child.nodes}
        assert all(box[a] <= box[b] for a, b in edges if a in box and b in box), group


def test_interleaved_streams_do_not_split_a_module() -> None:
    """Two streams with interleaved captured nodes."""
    told = [f"forward:Net.{side}" for _ in range(4) for side in ("left", "right")]
    edges = [(at, at + 2) for at in range(6)]
    root = fold_by_module(edges, *told)
    (beside,) = of_kind(root, FoldKind.PARALLEL)
    assert [(one.title, one.nodes) for one in beside.children if isinstance(one, FoldGroup)] == [
        ("Net.left", (0, 2, 4, 6)),
        ("Net.right", (1, 3, 5, 7)),
    ]


def test_independent_work_of_a_module_is_brought_together_along_a_line() -> None:
    edges = [(0, 1), (1, 4), (0, 2), (2, 3), (3, 4)]
    told = [f"forward:Net.{name}" for name in ("in", "a", "b", "a", "out")]
    # Node 3 is of a, and waits for b; node 1 is of a, and b does not wait for it.
    root = fold_by_module(edges, *told)
    (group,) = of_kind(root, FoldKind.MODULE)
    assert (group.title, group.nodes, group.note) == ("Net.a", (1, 3), "")
    assert leaves(root) == [0, 2, 1, 3, 4]


def test_phases_come_first_and_each_has_its_modules() -> None:
    forward = [f"forward:Net.{name}" for name in ("a", "a", "b", "b")]
    backward = [f"backward:Net.{name}" for name in ("b", "b", "a", "a")]
    root = fold_by_module(line(10), *forward, *backward, "optimizer:", "optimizer:")
    assert said(root) == [
        ("forward", "", 4),
        ("Net.a", "", 2),
        ("Net.b", "", 2),
        ("backward", "", 4),
        ("Net.b", "", 2),
        ("Net.a", "", 2),
        ("optimizer", "part of the optimizer", 2),
    ]


def test_work_outside_module_calls_is_outside_the_modules() -> None:
    token = ["forward:Net", "forward:Net", "forward:", "forward:"]
    root = fold_by_module(line(8), *token, *token)
    assert said(root) == [
        ("Net", "visit 1 of 2", 2),
        ("no module", "launched outside any module call; visit 1 of 2", 2),
        ("Net", "visit 2 of 2", 2),
        ("no module", "launched outside any module call; visit 2 of 2", 2),
    ]


def test_accumulated_gradients_do_not_split_a_module() -> None:
    """Gradients that are added up have no forward operator, and run all through backward."""
    told = [
        "backward:Net.b",
        "backward:",
        "backward:Net.b",
        "backward:",
        "backward:",
        "backward:Net.a",
    ]
    root = fold_by_module(line(7), *told, "backward:Net.a")
    reason = "not linked to an operator of a module's forward"
    assert said(root) == [
        ("Net.b", "", 3),
        ("no module", reason, 2),
        ("Net.a", "", 2),
    ]


def test_unknown_nodes_stand_where_they_run_and_say_why_they_are_not_known() -> None:
    told = ["forward:Net.a", "", "", "forward:Net.a", "forward:Net.b", "forward:Net.b", "", ""]
    root = fold_by_module(line(8), *told)
    assert said(root) == [
        ("forward", "", 6),
        ("Net.a", "", 4),
        ("no module", LOST, 2),
        ("Net.b", "", 2),
        ("no module", LOST, 2),
    ]


def test_without_modules_the_order_of_execution_folds_and_the_reason_is_reported() -> None:
    whole = graph([(0, 1), (0, 2), (1, 3), (2, 3)], "", "", "", "")
    root = fold_graph(whole, FoldCriterion.MODULE)
    assert LOST in root.note
    assert said(root) == said(fold_graph(whole))
    assert root.children == fold_graph(whole).children
    assert fold_graph(whole).note == ""


def test_layers_are_one_repeat_though_others_run_between() -> None:
    layers = [f"forward:Net.layers.{layer}.{part}" for layer in range(6) for part in "aabb"]
    aside = [f"forward:Net.side.{part}" for part in "xxyy"]
    # Both follow the first node on separate streams and were captured alternately.
    told = ["forward:Net.embed", *layers]
    streams: list[list[int]] = [[0], [0]]
    for one in aside:
        told.insert(5, one)
    for at, one in enumerate(told[1:], 1):
        streams["side" in one].append(at)
    edges = [pair for stream in streams for pair in itertools.pairwise(stream)]
    root = fold_by_module(edges, *told)
    (repeat,) = of_kind(root, FoldKind.REPEAT)
    assert (repeat.title, repeat.repeats) == ("Net.layers.0-5", 6)
    assert "Net.side" in {group.title for group in of_kind(root, FoldKind.MODULE)}


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 120), st.integers(0, 10_000), st.floats(0, 0.12))
def test_any_graph(count: int, seed: int, density: float) -> None:
    chance = random.Random(seed)
    edges = near_edges(count, chance, density)
    names = ["", "forward:", "backward:", *(f"forward:Net.{part}" for part in ("a", "b", "b.c"))]
    names += [f"backward:Net.layers.{layer}.{part}" for layer in range(3) for part in "ab"]
    whole = graph(edges, *(chance.choice(names) for _ in range(count)))
    root = fold_graph(whole, FoldCriterion.MODULE)
    check(whole, root)
    assert fold_graph(whole, FoldCriterion.MODULE) == root
    node = chance.randrange(count)
    assert all(node in index_groups(root)[ident].nodes for ident in list_ancestors(root, node))


@pytest.mark.parametrize(
    "name", ["transformer-train", "gpt-train", "decode", "fork-join", "all-nodes"]
)
def test_recorded_graphs_fold_by_module(name: str) -> None:
    whole = expand_graph(load_run(Path("sample_traces") / name / "graph"), "graph-0")
    root = fold_graph(whole, FoldCriterion.MODULE)
    check(whole, root)
    titles = {group.title for group in index_groups(root).values()}
    match name:
        case "transformer-train":
            assert [one.title for one in root.children if isinstance(one, FoldGroup)] == [
                "forward",
                "backward",
                "optimizer",
            ]
            assert {"Transformer", "Transformer.layers.0-3", "Transformer.head"} <= titles
        case "fork-join":
            assert {"Branch", "Branch#2", "Branch#3"} <= titles
        case "all-nodes":
            assert "graph API" in root.note
