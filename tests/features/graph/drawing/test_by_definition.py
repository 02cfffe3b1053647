from __future__ import annotations

import random
from collections import Counter
from functools import lru_cache
from pathlib import Path

import pytest

from graphviz_dash.analysis.nodes.measured_graph import (
    MeasuredGraph,
    find_timing_replays,
    measure_graph,
)
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph, expand_graph
from graphviz_dash.features.graph.drawing.boxes import Box
from graphviz_dash.features.graph.drawing.colours import ColourBy
from graphviz_dash.features.graph.drawing.folded import FoldedGraph, build_folded_graph
from graphviz_dash.features.graph.drawing.layout import ALL_BLOCKS
from graphviz_dash.features.graph.drawing.view import DagView, build_dag_view
from graphviz_dash.features.graph.folding.fold import FoldCriterion
from graphviz_dash.features.graph.folding.tree import FoldGroup, FoldKind
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.graph import EdgeType
from graphviz_dash.units import format_ns
from tests.analysis.fold.trees import near_edges, table

SAMPLES = sorted(path.parent for path in Path("sample_traces").glob("*/graph/manifest.json"))


def inside(graph: FoldedGraph, box: Box) -> tuple[int, ...]:
    return (box.node,) if box.node >= 0 else graph.groups[box.id].nodes


def check_boxes(graph: FoldedGraph, view: DagView, keys: list[str] | None) -> None:
    rows, replays = graph.rows, graph.full_graph.table.replays
    optional = graph.full_graph.optional_nodes
    for box in view.boxes:
        nodes = inside(graph, box)
        marked = not graph.path.is_line and not graph.path.nodes.isdisjoint(nodes)
        assert box.critical is marked
        seen = [rows[node].times for node in nodes if rows[node].times.samples]
        if box.node < 0 and not seen:
            assert box.time == ""
        elif box.node < 0:
            over = replays
            if optional.issuperset(nodes):
                over = max(times.samples for times in seen)
            total = sum((times.median_ns or 0) * times.samples for times in seen)
            assert box.time == format_ns(total / over)
        if keys is not None:
            colours = [keys[node] for node in nodes]
            assert view.legend[box.colour].label == Counter(colours).most_common(1)[0][0]
            count = min(28, len(nodes))
            strip = [colours[at * len(nodes) // count] for at in range(count)]
            wanted = strip if box.node < 0 and not box.open else []
            assert [view.legend[one].label for one in box.strip] == wanted


def within(graph: FoldedGraph, ident: str, outer: str) -> bool:
    group = graph.groups.get(outer)
    if group is None or group.kind is not FoldKind.REPEAT:
        return False
    inner = (int(ident[1:]),) if ident.startswith("n") else graph.groups[ident].nodes
    return set(inner) <= set(group.nodes)


def check_links(graph: FoldedGraph, view: DagView) -> None:
    box_of: dict[int, str] = {}
    for box in view.boxes:
        if box.open and box.block >= 0:
            # What is not shown of a repeat counts as the repeat's.
            shown = {node for one in view.boxes if not one.open for node in inside(graph, one)}
            box_of |= dict.fromkeys(set(inside(graph, box)) - shown, box.id)
        elif box.open and graph.groups[box.id].kind is FoldKind.HOLDER:
            box_of[graph.groups[box.id].nodes[0]] = box.id
        elif not box.open:
            for node in inside(graph, box):
                box_of.setdefault(node, box.id)
    wanted: dict[tuple[str, str], list[tuple[bool, bool]]] = {}
    for edge in graph.full_graph.table.graph.edges:
        ends = box_of[edge.source], box_of[edge.target]
        if ends[0] != ends[1] and not any(
            within(graph, one, other) for one, other in (ends, ends[::-1])
        ):
            critical = not graph.path.is_line and (edge.source, edge.target) in graph.path.edges
            wanted.setdefault(ends, []).append((edge.type is EdgeType.PROGRAMMATIC, critical))
    found = [link for link in view.links if link.count]
    assert [(link.source, link.target) for link in found] == list(wanted)
    for link in found:
        edges = wanted[link.source, link.target]
        assert link.count == len(edges)
        assert link.dashed is all(dashed for dashed, _ in edges)
        assert link.critical is any(critical for _, critical in edges)


def views(graph: FoldedGraph, colour: ColourBy, chance: random.Random) -> list[DagView]:
    some = chance.sample(sorted(graph.groups), min(len(graph.groups), 12))
    return [
        build_dag_view(graph, colour, 1.3),
        build_dag_view(graph, colour, 2.0, expanded=list(graph.groups)),
        build_dag_view(graph, colour, 0.7, some, focus=chance.randrange(len(graph.rows))),
    ]


def check_forward(graph: FoldedGraph) -> None:
    """Whatever is unfolded, links lead from boxes to later ones: none runs in a circle."""
    chance = random.Random(len(graph.rows))
    every = dict.fromkeys(graph.groups, ALL_BLOCKS)
    for count in (0, 1, 5, len(graph.groups)):
        opened = chance.sample(sorted(graph.groups), min(len(graph.groups), count))
        view = build_dag_view(graph, ColourBy.CATEGORY, 1.3, opened, shown=every)
        place = {box.id: box.first for box in view.boxes}
        for link in view.links:
            if link.count:
                assert place[link.source] < place[link.target], link


@lru_cache(maxsize=1)
def recorded(path: Path) -> list[tuple[ExpandedGraph, MeasuredGraph | None]]:
    """Return the graphs of a sample's run with measurements, for each fold criterion."""
    run = load_run(path)
    matched = find_timing_replays(run)
    found = []
    for one in run.graphs:
        if one.parent is None:
            measured = measure_graph(one, run.graphs, matched)
            known = None if isinstance(measured, Missing) else measured
            found.append((expand_graph(run, one.id), known))
    return found


@pytest.mark.parametrize("by", FoldCriterion)
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.parent.name)
def test_recorded_graphs(path: Path, by: FoldCriterion) -> None:
    for whole, measured in recorded(path):
        graph = build_folded_graph(whole, measured, by=by)
        check_forward(graph)
        chance = random.Random(whole.table.graph.id)
        keys = [row.category.value for row in graph.rows]
        for view in views(graph, ColourBy.CATEGORY, chance):
            check_boxes(graph, view, keys)
            check_links(graph, view)
        slack = [graph.path.get_label(place) for place in range(len(graph.rows))]
        for view in views(graph, ColourBy.SLACK, chance):
            check_boxes(graph, view, slack)


@pytest.mark.parametrize("by", FoldCriterion)
@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int, by: FoldCriterion) -> None:
    chance = random.Random(seed)
    count = chance.choice([5, 60, 400, 1_500])
    density = chance.choice([0, 0.02, 0.1])
    edges = near_edges(count, chance, density)
    modules = [
        chance.choice([None, f"Net.layers.{chance.randrange(3)}.{chance.choice('ab')}"])
        for _ in range(count)
    ]
    graph = build_folded_graph(ExpandedGraph.from_table(table(count, edges, modules)), by=by)
    check_forward(graph)
    order = graph.root.order.nodes.tolist()
    for group in graph.groups.values():
        assert list(group.nodes) == order[group.first : group.first + group.count]
        assert group.count == sum(
            child.count if isinstance(child, FoldGroup) else 1 for child in group.children
        )
    for view in views(graph, ColourBy.PHASE, chance):
        check_boxes(graph, view, ["forward"] * count)
        check_links(graph, view)
