from __future__ import annotations

from functools import cache
from itertools import combinations
from pathlib import Path

import msgspec
import pytest

from graphviz_dash.analysis.nodes.node_table import NodeTable, build_table
from graphviz_dash.analysis.nodes.replay_faults import FaultState
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.features.graph.diff.graph_diff import diff_graphs
from graphviz_dash.features.graph.diff.graph_union import merge_graphs
from graphviz_dash.features.graph.drawing.boxes import Box
from graphviz_dash.features.graph.drawing.colours import ColourBy
from graphviz_dash.features.graph.drawing.folded import build_folded_graph
from graphviz_dash.features.graph.drawing.layout import ALL_BLOCKS
from graphviz_dash.features.graph.drawing.unfolding import MAX_BOXES
from graphviz_dash.features.graph.drawing.view import DagView, build_dag_view, search_nodes
from graphviz_dash.ingest.load import load_run
from tests.analysis.fold.trees import line, table
from tests.analysis.nodes.test_whole_graph import whole_of
from tests.analysis.replays.test_conditionals import GRAPHS

RATIO = 1.3


@cache
def recorded(name: str) -> NodeTable:
    return build_table(load_run(Path("sample_traces") / name / "graph"), "graph-0")


def apart(a: Box, b: Box) -> bool:
    return (
        a.x + a.width <= b.x
        or b.x + b.width <= a.x
        or a.y + a.height <= b.y
        or b.y + b.height <= a.y
    )


def holds(outer: Box, inner: Box) -> bool:
    return (
        outer.x <= inner.x
        and outer.y <= inner.y
        and inner.x + inner.width <= outer.x + outer.width
        and inner.y + inner.height <= outer.y + outer.height
    )


def check(view: DagView) -> None:
    """No two boxes overlap unless one holds the other, and every link ends on its boxes."""
    for a, b in combinations(view.boxes, 2):
        if not apart(a, b):
            assert (a.open and holds(a, b)) or (b.open and holds(b, a)), (a, b)
    by_id = {box.id: box for box in view.boxes}
    assert len(by_id) == len(view.boxes)
    for link in view.links:
        source, target = by_id[link.source], by_id[link.target]
        # An unfolded repeat stands for the blocks of it that are not shown.
        assert not source.open or source.block >= 0
        assert not target.open or target.block >= 0
        x0, y0, *_, x1, y1 = link.points
        assert x0 == pytest.approx(source.x + source.width / 2, abs=1)
        assert y0 == pytest.approx(source.y + source.height, abs=1)
        assert (x1, y1) == pytest.approx((target.x + target.width / 2, target.y), abs=1)
    assert all(0 <= box.colour < len(view.legend) for box in view.boxes)
    assert len(view.boxes) <= MAX_BOXES
    assert len(msgspec.json.encode(view)) <= 50_000


@pytest.mark.parametrize("colour", list(ColourBy))
@pytest.mark.parametrize("name", ["mlp-train", "transformer-train", "decode", "fork-join"])
def test_recorded_graphs(name: str, colour: ColourBy) -> None:
    made = recorded(name)
    view = build_dag_view(build_folded_graph(ExpandedGraph.from_table(made)), colour, RATIO)
    check(view)
    assert (view.nodes, view.edges) == (len(made.rows), len(made.graph.edges))
    assert sum(link.count for link in view.links) <= view.edges
    if name in ("mlp-train", "fork-join"):
        # Small graphs are unfolded whole, every edge a link of its own.
        assert sorted(box.node for box in view.boxes if box.node >= 0) == list(range(view.nodes))
        assert len(view.links) == view.edges


def test_unfolding_everything_stays_within_the_budget() -> None:
    made = recorded("transformer-train")
    graph = build_folded_graph(ExpandedGraph.from_table(made))
    every = dict.fromkeys(graph.groups, ALL_BLOCKS)
    view = build_dag_view(graph, ColourBy.KIND, RATIO, expanded=list(graph.groups), shown=every)
    check(view)
    assert view.full
    assert set(view.expanded) < set(graph.groups)


def test_folding_and_unfolding_one_group() -> None:
    graph = build_folded_graph(ExpandedGraph.from_table(recorded("transformer-train")))
    folded_view = build_dag_view(graph, ColourBy.CATEGORY, RATIO, expanded=[])
    assert [box.label for box in folded_view.boxes] == ["forward", "backward", "optimizer"]
    assert sum(int(box.note.split()[0]) for box in folded_view.boxes) == 322
    forward = folded_view.boxes[0].id
    opened = build_dag_view(graph, ColourBy.CATEGORY, RATIO, expanded=[forward])
    check(opened)
    assert next(box for box in opened.boxes if box.id == forward).open
    assert {box.label for box in opened.boxes} > {"forward", "backward", "optimizer"}


@pytest.mark.parametrize("node", [0, 30, 200, 321])
def test_a_node_in_focus_is_visible(node: int) -> None:
    graph = build_folded_graph(ExpandedGraph.from_table(recorded("transformer-train")))
    view = build_dag_view(graph, ColourBy.CATEGORY, RATIO, expanded=[], focus=node)
    check(view)
    assert node in [box.node for box in view.boxes]
    assert view.focus == f"n{node}"


def test_search_finds_names_operators_modules_and_lines() -> None:
    graph = build_folded_graph(ExpandedGraph.from_table(recorded("transformer-train")))
    for text in ("attention.qkv", "ATEN::ADDMM", "transformer.py:3", "softmax"):
        hits, around = search_nodes(graph, text, 500)
        assert hits
        assert set(around) <= set(graph.groups)
        view = build_dag_view(graph, ColourBy.CATEGORY, RATIO, expanded=around, focus=hits[0])
        assert hits[0] in [box.node for box in view.boxes]
    assert search_nodes(graph, "no such thing", 500) == ([], [])
    hits, around = search_nodes(graph, "aten", 3)
    assert len(hits) > 3


@pytest.mark.parametrize("count", [1, 2, 1_000, 10_000])
def test_synthetic_lines_of_any_length(count: int) -> None:
    names = [f"kernel_{index % 7 * (index % 5)}" for index in range(count)]
    whole = ExpandedGraph.from_table(table(count, line(count), None, names))
    check(build_dag_view(build_folded_graph(whole), ColourBy.CATEGORY, RATIO))


def test_names_are_text_and_bounded() -> None:
    hostile = "<img src=x onerror=alert(1)>\x1b[31m" + "n" * 100_000
    whole = ExpandedGraph.from_table(table(2, line(2), None, [hostile, "b"]))
    view = build_dag_view(build_folded_graph(whole), ColourBy.CATEGORY, RATIO)
    name = view.names[view.boxes[0].name]
    assert name.startswith("<img")
    assert "\x1b" not in view.boxes[0].note + name
    assert len(view.boxes[0].note) <= 44
    assert view.boxes[0].note.endswith("…")
    assert len(name) <= 160


def test_bodies_unfold_beneath_their_node() -> None:
    graph = build_folded_graph(
        whole_of(
            GRAPHS,
            [
                ["m0", "yes", "shared", "turn", "shared", "one", "m4"],
                ["m0", "no", "turn", "shared", "two", "shared", "m4"],
            ],
        )
    )
    view = build_dag_view(graph, ColourBy.KIND, RATIO, expanded=list(graph.groups))
    by_id = {box.id: box for box in view.boxes}
    assert sorted(box.node for box in view.boxes if box.node >= 0) == list(range(view.nodes))
    for a, b in combinations(view.boxes, 2):
        assert apart(a, b) or (a.open and holds(a, b)) or (b.open and holds(b, a)), (a, b)
    bodies = [box for box in view.boxes if box.body]
    assert [box.label for box in bodies] == [
        "then",
        "else",
        "each iteration",
        "case 0",
        "case 1",
        "case 2",
    ]
    inward = [link for link in view.links if link.count == 0]
    assert [by_id[link.target].label for link in inward] == [box.label for box in bodies]
    for link in inward:
        holder, body = by_id[link.source], by_id[link.target]
        assert holder.y + holder.height < body.y
    # Every edge is drawn: those of a node that holds graphs end at the group around it.
    assert sum(link.count for link in view.links) == view.edges
    (first,) = [link for link in view.links if link.count and link.source == "n0"]
    assert by_id[first.target].label == "If, 2 bodies"
    wheres = {box.where for box in view.boxes if box.node >= 0}
    assert {"", "node 0 of graph-0.1.0", "node 1 of graph-0.3.2"} <= wheres


def test_the_time_of_bodies_counts_how_often_they_ran() -> None:
    # One launch of two takes the If's first body, of two kernels of 5 ns, the other the second.
    graph = build_folded_graph(
        whole_of(
            GRAPHS, [["m0", "yes", "shared", "turn", "shared"], ["m0", "no", "turn", "shared"]]
        )
    )
    times = {
        box.label: box.time
        for box in build_dag_view(graph, ColourBy.KIND, RATIO, expanded=list(graph.groups)).boxes
        if box.node < 0
    }
    assert times["then"] == "10 ns"
    assert times["else"] == "5 ns"
    assert times["If, 2 bodies"] == "7.50 ns"
    assert times["case 0"] == ""


def test_folded_bodies_are_one_box() -> None:
    graph = build_folded_graph(whole_of(GRAPHS, [["m0", "yes", "shared", "m4"]]))
    view = build_dag_view(graph, ColourBy.CATEGORY, RATIO, expanded=[])
    check(view)
    assert [box.label for box in view.boxes] == [
        "m0",
        "If, 2 bodies",
        "While",
        "Switch, 3 bodies",
        "m4",
        "Host",
    ]
    inside = next(
        place for place, owner in enumerate(graph.full_graph.owners) if owner[0] == "graph-0.1.1"
    )
    focused = build_dag_view(graph, ColourBy.CATEGORY, RATIO, expanded=[], focus=inside)
    assert f"n{inside}" in {box.id for box in focused.boxes}


@cache
def _sample(graph: str) -> NodeTable:
    return build_table(load_run(Path("sample_traces/graph-update/graph")), graph)


def test_two_graphs_are_drawn_as_one_in_the_colours_of_what_changed() -> None:
    first, second = _sample("graph-5"), _sample("graph-8")
    union = merge_graphs(diff_graphs([first.graph], [second.graph]), first, second)
    view = build_dag_view(
        build_folded_graph(union.graph, union=union),
        ColourBy.CHANGE,
        RATIO,
        focus=len(union.nodes) - 1,
    )
    check(view)
    assert {entry.label for entry in view.legend} == {"removed", "moved", "same"}
    gone = next(box for box in view.boxes if box.node == len(union.nodes) - 1)
    assert view.legend[gone.colour].label == "removed"
    assert (gone.disabled, gone.note, gone.where) == (True, "removed", "node 37 of the other graph")
    assert sum(box.disabled for box in view.boxes) == 1
    assert "added" in {link.text for link in view.links}


def test_a_changed_box_names_the_change() -> None:
    first, second = _sample("graph-0"), _sample("graph-3")
    union = merge_graphs(diff_graphs([first.graph], [second.graph]), first, second)
    view = build_dag_view(
        build_folded_graph(union.graph, union=union), ColourBy.CHANGE, RATIO, focus=0
    )
    box = next(box for box in view.boxes if box.node == 0)
    assert box.note.startswith("bytes 1024 to 65536")
    assert view.legend[box.colour].label == "changed"


def test_a_disabled_node_is_told_from_those_that_run() -> None:
    table = build_table(load_run(Path("sample_traces/superset/graph")), "graph-0")
    view = build_dag_view(
        build_folded_graph(ExpandedGraph.from_table(table)), ColourBy.KIND, RATIO, focus=7
    )
    disabled = {box.node for box in view.boxes if box.disabled}
    assert disabled == {6, 7, 8}
    assert all(box.note.startswith("disabled") for box in view.boxes if box.disabled)


@pytest.mark.parametrize("count", [10_000, 50_000])
def test_a_clicked_group_unfolds_whatever_is_open(count: int) -> None:
    modules: list[str | None] = [f"Net.layers.{index // 4}" for index in range(count)]
    graph = build_folded_graph(ExpandedGraph.from_table(table(count, line(count), modules)))
    view = build_dag_view(graph, ColourBy.CATEGORY, RATIO)
    # Down to a layer, each time the last group that is shown, with all before left open.
    for _ in range(20):
        group = next((box for box in reversed(view.boxes) if box.node < 0 and not box.open), None)
        if group is None:
            break
        expanded = [*view.expanded, group.id]
        view = build_dag_view(graph, ColourBy.CATEGORY, RATIO, expanded, first=group.id)
        check(view)
        assert next(box for box in view.boxes if box.id == group.id).open
    assert any(box.node >= 0 for box in view.boxes)


def test_an_unknown_first_group_is_passed_over() -> None:
    graph = build_folded_graph(ExpandedGraph.from_table(recorded("transformer-train")))
    view = build_dag_view(graph, ColourBy.CATEGORY, RATIO, expanded=[], first="g.99.1")
    assert view == build_dag_view(graph, ColourBy.CATEGORY, RATIO, expanded=[])


def test_of_equal_blocks_one_is_shown_for_all() -> None:
    graph = build_folded_graph(ExpandedGraph.from_table(recorded("gpt-train")))
    view = build_dag_view(graph, ColourBy.CATEGORY, RATIO)
    repeat = next(box for box in view.boxes if box.repeats and box.open)
    assert (repeat.block, repeat.differ) == (0, 0)

    def blocks(shown: DagView) -> list[Box]:
        return [one for one in shown.boxes if one.id.rpartition(".")[0] == repeat.id]

    (first,) = blocks(view)
    assert first.open
    # Another one, unfolded as the first was.
    other = build_dag_view(graph, ColourBy.CATEGORY, RATIO, view.expanded, shown={repeat.id: 1})
    check(other)
    assert other.shown == {repeat.id: 1}
    (second,) = blocks(other)
    assert second.open
    assert second.id != first.id
    assert [(box.note, box.open) for box in other.boxes] == [
        (box.note, box.open) for box in view.boxes
    ]
    # All of them: those that were not shown are folded.
    every = build_dag_view(
        graph, ColourBy.CATEGORY, RATIO, view.expanded, shown={repeat.id: ALL_BLOCKS}
    )
    check(every)
    assert [one.open for one in blocks(every)] == [True] + [False] * (repeat.repeats - 1)


def test_another_block_of_a_repeat_in_parts_is_unfolded_alike() -> None:
    modules: list[str | None] = [f"Net.layers.{index // 4}" for index in range(1_000)]
    made = table(1_000, line(1_000), modules, [f"k{index % 4}" for index in range(1_000)])
    graph = build_folded_graph(ExpandedGraph.from_table(made))
    view = build_dag_view(graph, ColourBy.CATEGORY, RATIO)
    other = build_dag_view(graph, ColourBy.CATEGORY, RATIO, view.expanded, shown={"g.0": 130})
    check(other)
    assert [box.label for box in other.boxes[1:]] == ["layers.130", "op", "op", "op", "op"]
    assert [box.note for box in other.boxes[2:]] == ["k0", "k1", "k2", "k3"]
    assert [box.node for box in other.boxes[2:]] == list(range(520, 524))


def test_a_node_of_another_block_is_shown_with_its_block() -> None:
    graph = build_folded_graph(ExpandedGraph.from_table(recorded("transformer-train")))
    view = build_dag_view(graph, ColourBy.CATEGORY, RATIO)
    repeat = next(box for box in view.boxes if box.repeats == 4)
    nodes = graph.groups[repeat.id].nodes
    block = build_dag_view(graph, ColourBy.CATEGORY, RATIO, view.expanded, focus=nodes[-1])
    assert block.shown == {repeat.id: 3}
    assert nodes[-1] in [box.node for box in block.boxes]


def test_a_long_line_is_one_layer_shown_for_all() -> None:
    modules: list[str | None] = [f"Net.layers.{index // 4}" for index in range(10_000)]
    made = table(10_000, line(10_000), modules, [f"k{index % 4}" for index in range(10_000)])
    view = build_dag_view(
        build_folded_graph(ExpandedGraph.from_table(made)), ColourBy.CATEGORY, RATIO
    )
    assert view.boxes[0].label == "Net.layers.0-2499"
    assert (view.boxes[0].open, view.boxes[0].repeats) == (True, 2_500)
    # What the title around it says is not said again inside.
    assert [box.label for box in view.boxes[1:]] == ["layers.0", "op", "op", "op", "op"]
    assert [box.note for box in view.boxes[2:]] == ["k0", "k1", "k2", "k3"]
    every = build_dag_view(
        build_folded_graph(ExpandedGraph.from_table(made)),
        ColourBy.CATEGORY,
        RATIO,
        shown={"g.0": ALL_BLOCKS},
    )
    check(every)
    assert every.boxes[1].label == "layers.0-49"
    assert 20 < len(every.boxes) < 80


@pytest.mark.parametrize("name", ["mlp-train", "transformer-train", "decode", "fork-join"])
@pytest.mark.parametrize("width", [450.0, 800.0, 1300.0])
def test_as_much_is_unfolded_as_can_be_read_on_the_canvas(name: str, width: float) -> None:
    graph = build_folded_graph(ExpandedGraph.from_table(recorded(name)))
    view = build_dag_view(graph, ColourBy.CATEGORY, RATIO, width=width)
    check(view)
    assert min(width / view.width, width / RATIO / view.height) >= 0.45
    wider = build_dag_view(graph, ColourBy.CATEGORY, RATIO, width=2 * width)
    assert len(wider.boxes) >= len(view.boxes)


def test_the_first_view_shows_the_faulty_block_of_a_repeat() -> None:
    whole = ExpandedGraph.from_table(recorded("gpt-train"))
    states = dict.fromkeys(range(len(whole.table.rows)), FaultState.INDEPENDENT)
    graph = build_folded_graph(whole, faults=lambda: states)
    sound = build_dag_view(graph, ColourBy.CATEGORY, RATIO)
    boxes = {box.id for box in sound.boxes}
    hidden = next(node for node in states if f"n{node}" not in boxes)
    states[hidden] = FaultState.FAULT
    view = build_dag_view(graph, ColourBy.FAULT, RATIO)
    check(view)
    assert f"n{hidden}" in {box.id for box in view.boxes}
    assert view.focus is None
