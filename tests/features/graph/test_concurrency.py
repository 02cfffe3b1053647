from __future__ import annotations

from msgspec.structs import replace

from graphviz_dash.analysis.nodes.concurrency import analyze_graph
from graphviz_dash.analysis.nodes.node_table import build_table
from graphviz_dash.features.graph.concurrency import describe_concurrency
from tests.analysis.forks import FORK, measured_fork, measured_over
from tests.analysis.frames import make_run
from tests.analysis.scenes import Scene, graph_of, kernel


def test_of_a_graph_of_one_node_nothing_is_said_of_dependencies() -> None:
    graph = graph_of([kernel(0, "a")], [])
    scene = Scene()
    for start in (1000, 2000):
        scene.work(graph.nodes[0], start + 10, scene.call("cudaGraphLaunch", start), dur=30)
    measured = measured_over(graph, scene)
    run = make_run("graph", graphs=(graph,))
    found = analyze_graph(run, measured, {"graph-0": build_table(run, "graph-0")}, None)
    assert describe_concurrency(found) == (
        "The graph has one node and no dependencies. A replay lasts 30 ns from its first start "
        "to its last end (median of 2 replays in the traced pass).",
    )


def test_sentences() -> None:
    measured = measured_fork()
    run = make_run("graph", graphs=(FORK,))
    found = analyze_graph(run, measured, {"graph-0": build_table(run, "graph-0")}, None)
    said = describe_concurrency(found)
    assert "critical path lasts 60 ns, over 3 of 4 nodes" in said[0]
    assert "1.33 concurrent nodes" in said[1]
    assert "reaches the critical path on 2 streams. Fewer streams: 80 ns on 1" in said[1]
    assert "add up to 12 ns" in said[2]
    assert "no edge is redundant" in said[3]


def test_gaps_of_stitched_replays_are_unknown() -> None:
    measured = replace(measured_fork(), is_stitched=True)
    run = make_run("graph", graphs=(FORK,))
    found = analyze_graph(run, measured, {"graph-0": build_table(run, "graph-0")}, None)
    assert describe_concurrency(found)[2].startswith("Gaps between nodes are unknown")
