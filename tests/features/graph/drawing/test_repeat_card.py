from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph, expand_graph
from graphviz_dash.features.graph.drawing.colours import ColourBy
from graphviz_dash.features.graph.drawing.dot import format_view_dot
from graphviz_dash.features.graph.drawing.edges import list_edges_between
from graphviz_dash.features.graph.drawing.folded import FoldedGraph, build_folded_graph
from graphviz_dash.features.graph.drawing.layout import ALL_BLOCKS
from graphviz_dash.features.graph.drawing.repeat_card import (
    build_repeat_card,
    format_variant,
    list_block_differences,
    summarize_times,
)
from graphviz_dash.features.graph.drawing.static import draw_view_file
from graphviz_dash.features.graph.drawing.view import build_dag_view
from graphviz_dash.features.graph.folding.repeats import (
    BlockVariant,
    LaunchDifference,
    LaunchShape,
    RepeatFacts,
)
from graphviz_dash.ingest.load import load_run
from tests.analysis.fold.trees import layers, line, table


def recorded(name: str) -> FoldedGraph:
    return build_folded_graph(
        expand_graph(load_run(Path("sample_traces") / name / "graph"), "graph-0")
    )


@pytest.mark.parametrize("name", ["all-nodes", "transformer-train", "fork-join"])
def test_the_edges_of_every_link_are_reported(name: str) -> None:
    graph = recorded(name)
    for shown in ({}, dict.fromkeys(graph.groups, ALL_BLOCKS)):
        view = build_dag_view(graph, ColourBy.KIND, 1.3, shown=shown)
        for link in view.links:
            if not link.count:
                continue
            found = list_edges_between(graph, link.source, link.target)
            assert found.total >= link.count
            assert len(found.rows) == min(found.total, 24)
            assert sum(int(kind.split()[0].replace(",", "")) for kind in found.kinds) == found.total


def test_ports_and_types_are_reported() -> None:
    graph = recorded("all-nodes")
    (edge,) = [
        edge for edge in graph.full_graph.table.graph.edges if edge.from_port and edge.source == 4
    ]
    (row,) = list_edges_between(graph, f"n{edge.source}", f"n{edge.target}").rows
    assert (row.source, row.target) == (edge.source, edge.target)
    assert row.what.startswith("programmatic dependency, port 1 to 0")
    assert "scale" in row.before


@pytest.mark.parametrize("ident", ["n999", "g.77", "n", ""])
def test_no_edges_of_what_is_not_there(ident: str) -> None:
    with pytest.raises(KeyError):
        list_edges_between(recorded("fork-join"), ident, "n1")


def test_the_card_of_a_repeat_says_what_is_common_and_what_differs() -> None:
    names = layers(24, 3)
    graph = build_folded_graph(
        ExpandedGraph.from_table(table(len(names), line(len(names)), None, names))
    )
    ident = next(one for one, group in graph.groups.items() if group.repeats and not group.is_part)
    card = build_repeat_card(graph, ident, 0)
    assert (card.repeats, card.block, card.next_unlike) == (24, 0, 7)
    assert card.differences[0] == "21 blocks have the same kernels."
    assert [bar.first for bar in card.bars if bar.differs] == [7, 15, 23]
    assert card.unlike == []
    assert card.summary == "not timed"
    other = build_repeat_card(graph, ident, 7)
    assert all(names[node].startswith("extra") for node in other.unlike)
    assert (other.next_unlike, build_repeat_card(graph, ident, 23).next_unlike) == (15, 7)
    view = build_dag_view(graph, ColourBy.KIND, 1.3)
    assert next(box.differ for box in view.boxes if box.id == ident) == 3
    with pytest.raises(KeyError):
        build_repeat_card(graph, ident, 24)
    with pytest.raises(KeyError):
        build_repeat_card(graph, "g", 0)


def test_equal_layers_are_said_to_be_equal_with_their_times() -> None:
    graph = recorded("transformer-train")
    repeat = next(
        group
        for group in graph.groups.values()
        if group.repeats == 4 and group.blocks[0].nodes[0] < 60
    )
    card = build_repeat_card(graph, repeat.id, 2)
    assert card.differences == ["All blocks have the same kernels and launch shapes."]
    assert re.fullmatch(r"median [\d.]+ µs, [\d.]+ µs to [\d.]+ µs", card.summary)
    assert max(bar.height for bar in card.bars) == 1.0
    assert card.block_title.endswith("layers.2")


@pytest.mark.parametrize("dark", [False, True])
def test_a_view_as_svg_has_every_box(dark: bool) -> None:
    graph = recorded("transformer-train")
    view = build_dag_view(graph, ColourBy.CATEGORY, 1.3)
    drawn = ElementTree.fromstring(draw_view_file(view, "graph <&>", dark))
    space = "{http://www.w3.org/2000/svg}"
    assert drawn.tag == f"{space}svg"
    assert len(drawn.findall(f".//{space}g/{space}title")) == len(view.boxes)
    style = drawn.find(f"{space}style")
    assert style is not None
    used = set(re.findall(r"var\((--s\w+)\)", ElementTree.tostring(drawn, "unicode")))
    assert used <= set(re.findall(r"(--s\w+):", style.text or ""))


@pytest.mark.parametrize("name", ["all-nodes", "transformer-train"])
def test_a_view_as_dot_has_every_box_and_link(name: str) -> None:
    view = build_dag_view(recorded(name), ColourBy.KIND, 1.3)
    text = format_view_dot(view, 'a "graph"')
    assert text.count("subgraph ") == sum(box.open for box in view.boxes)
    assert len(re.findall(r'^ *"[ng][\d.]*" \[label=', text, re.MULTILINE)) == sum(
        not box.open for box in view.boxes
    )
    assert text.count(" -> ") == len(view.links)
    assert text.count("{") == text.count("}")
    dot = shutil.which("dot")
    if dot is not None:
        subprocess.run([dot, "-Tsvg"], input=text.encode(), check=True, capture_output=True)


USUAL = BlockVariant((0, 1, 3))


def facts(*others: BlockVariant, launches: tuple[LaunchDifference, ...] = ()) -> RepeatFacts:
    return RepeatFacts(np.array([2_000.0, 1_000.0, np.nan, 3_000.0]), (USUAL, *others), launches)


def test_times_are_of_the_blocks_that_were_seen() -> None:
    assert summarize_times(facts()) == "median 2.00 µs, 1.00 µs to 3.00 µs"
    unseen = RepeatFacts(np.array([np.nan]), (USUAL,), ())
    assert summarize_times(unseen) == "not timed"


def test_equal_blocks() -> None:
    assert list_block_differences(facts()) == [
        "All blocks have the same kernels and launch shapes."
    ]


def test_a_variant_is_named_by_what_it_has_and_lacks() -> None:
    variant = BlockVariant((2,), added=(("gemm", 2),), missing=(("norm", 1),))
    assert list_block_differences(facts(variant)) == [
        "3 blocks have the same kernels.",
        "3: 2 gemm more; 1 norm less",
    ]
    many = BlockVariant((2,), added=tuple((name, 1) for name in "abcdef"))
    assert format_variant(many) == "1 a, 1 b, 1 c, 1 d and 2 others more"
    assert format_variant(BlockVariant((2,))) == "the same kernels in another order"


def test_a_node_that_is_launched_otherwise() -> None:
    usual = LaunchShape((1, 1, 1), (64, 1, 1), 0)
    other = LaunchShape((2, 1, 1), (64, 1, 1), 0)
    kernel = LaunchDifference(4, "gemm", usual, ((other, 2),))
    copy = LaunchDifference(0, "copy", LaunchShape(bytes=8), ((LaunchShape(bytes=16), 1),))
    assert list_block_differences(facts(launches=(kernel, copy))) == [
        "gemm (node 5 of each block): grid 1 x 1 x 1, block 64 x 1 x 1, 0 B shared, "
        "but grid 2 x 1 x 1, block 64 x 1 x 1, 0 B shared in 2",
        "copy (node 1 of each block): 8 B, but 16 B in 1",
    ]
