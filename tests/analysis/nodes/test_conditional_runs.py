from __future__ import annotations

from msgspec.structs import replace

from graphviz_dash.analysis.nodes.conditional_runs import ConditionalRuns, find_conditional_runs
from graphviz_dash.analysis.nodes.measured_graph import find_timing_replays
from graphviz_dash.analysis.replays.replays import match_replays
from graphviz_dash.features.graph.concurrency import describe_conditional_runs
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.graph import CapturedGraph, GraphEdge
from tests.analysis.nodes.test_while_loops import GRAPHS as LOOPS
from tests.analysis.replays.test_conditionals import GRAPHS, IF, WHILE, body, conditional, scene_of
from tests.analysis.scenes import Scene, graph_of, kernel
from tests.samples_once import SAMPLES

NUMBERS = {"m0": 0, "m2": 2, "turn": 3, "find": 5}
"""Ids of the nodes of LOOPS in the executable graph; 1 and 4 are the loops."""


def find_runs(graphs: tuple[CapturedGraph, ...], scene: Scene) -> tuple[ConditionalRuns, ...]:
    return find_conditional_runs(graphs, graphs[0], match_replays(graphs, scene.trace()))


def record_all_iterations(*launches: str) -> Scene:
    scene = Scene()
    for number, names in enumerate(launches):
        correlation = scene.call("cudaGraphLaunch", 1000 * number + 100)
        for place, name in enumerate(names.split()):
            ids = {"graph_id": 9, "graph_node_id": (9 << 32) + NUMBERS[name]}
            start = 1000 * number + 110 + 10 * place
            scene.work(kernel(0, name), start, correlation, **ids)
    return scene


def test_replays_of_each_body_are_counted() -> None:
    scene = scene_of(
        [
            ["m0", "yes", "shared", "turn", "shared", "one", "m4"],
            ["m0", "no", "turn", "shared", "two", "shared", "m4"],
            ["m0", "no", "m4"],
        ]
    )
    choose, repeat, select = find_runs(GRAPHS, scene)
    assert (choose.graph, choose.node, choose.type, choose.replays) == ("graph-0", 1, IF, 3)
    assert (choose.body_replays, choose.iterations, choose.time) == ((1, 2), (), None)
    assert (repeat.body_replays, select.body_replays) == ((2,), (0, 1, 1))
    assert describe_conditional_runs(choose) == (
        "If node 1 of graph-0: its bodies ran in 1 and 2 of 3 replays (by alignment: order)."
    )


def test_iterations_are_counted_if_the_profiler_records_all() -> None:
    scene = record_all_iterations(
        "m0 turn find find turn find turn m2", "m0 turn find m2", "m0 m2", "m0 turn turn m2"
    )
    outer, inner = find_runs(LOOPS, scene)
    assert (outer.iterations, outer.body_replays, outer.method) == (
        (3, 1, 2),
        (3,),
        "graph node id",
    )
    # By iteration of the outer loop, in replays that ran the inner one.
    assert (inner.graph, inner.node, inner.iterations) == ("graph-0.1.0", 1, (2, 1, 0, 1))
    assert outer.time is None
    assert describe_conditional_runs(outer) == (
        "While node 1 of graph-0: its body ran in 3 of 4 replays (by graph node id). "
        "Iterations: 1 to 3, 2 on average."
    )


def test_a_loop_before_the_first_recorded_node_of_the_loop_around_it() -> None:
    outer, inner = LOOPS[1], LOOPS[2]
    graphs = (
        LOOPS[0],
        replace(outer, nodes=(conditional(0, WHILE, 1, outer.id), kernel(1, "turn"))),
        replace(inner, id="graph-0.1.0.0.0", parent=(outer.id, 0)),
    )
    numbers = NUMBERS | {"turn": 4}
    scene = Scene()
    correlation = scene.call("cudaGraphLaunch", 100)
    for place, name in enumerate(["m0", "find", "find", "turn", "turn", "find", "turn", "m2"]):
        ids = {"graph_id": 9, "graph_node_id": numbers[name]}
        scene.work(kernel(0, name), 110 + 10 * place, correlation, **ids)
    assert [runs.iterations for runs in find_runs(graphs, scene)] == [(3,), (2, 0, 1)]


def test_the_last_iteration_limits_their_number() -> None:
    scene = Scene()
    for number, delay in enumerate((45, 25)):
        correlation = scene.call("cudaGraphLaunch", 1000 * number)
        for name, start in (("m0", 110), ("turn", 110 + delay), ("find", 120 + delay), ("m2", 300)):
            scene.work(kernel(0, name), 1000 * number + start, correlation)
    graphs = (LOOPS[0], replace(LOOPS[1], edges=(GraphEdge(0, 1),)), LOOPS[2])
    outer, inner = find_runs(graphs, scene)
    assert isinstance(outer.iterations, Missing)
    assert isinstance(inner.iterations, Missing)
    assert outer.time is not None
    # From 115, the end of m0, to the end of find; turn takes 5 ns.
    assert (outer.time.loop_ns, outer.time.iteration_ns) == ((55 + 35) // 2, 5)
    assert outer.time.limits == (11, 7)
    assert inner.time is not None
    assert inner.time.limits == (2, 2)
    text = describe_conditional_runs(outer)
    assert "Iterations are not counted: the profiler records only the last iteration" in text
    assert text.endswith("so there are at most 11 iterations if all last as long.")


def test_a_loop_that_starts_a_replay_has_no_limit() -> None:
    graphs = (graph_of([conditional(0, WHILE, 1), kernel(1, "m1")]), body("graph-0", 0, 0, ["t"]))
    (runs,) = find_runs(graphs, scene_of([["t", "m1"]]))
    assert (runs.body_replays, runs.time) == ((1,), None)


def test_a_loop_that_never_ran() -> None:
    outer, inner = find_runs(LOOPS, scene_of([["m0", "m2"]]))
    assert (outer.body_replays, outer.method, inner.body_replays) == ((0,), None, (0,))
    assert isinstance(outer.iterations, Missing)
    assert outer.iterations.reason == "the trace has no row of its body"


def test_a_recorded_graph_with_every_conditional_node() -> None:
    """Its step takes the If's bodies in turn, three iterations, and each fourth step no body."""
    run = load_run(SAMPLES / "all-nodes" / "graph")
    match = find_timing_replays(run)
    assert match is not None
    root = next(graph for graph in run.graphs if graph.parent is None)
    choose, repeat, select = find_conditional_runs(run.graphs, root, match)
    assert (choose.replays, choose.body_replays) == (15, (8, 7))
    assert (repeat.body_replays, select.body_replays) == ((15,), (4, 4, 3))
    assert repeat.time is not None
    assert len(repeat.time.limits) == 15
    assert min(repeat.time.limits) >= 3
