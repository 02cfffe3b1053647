from __future__ import annotations

from msgspec.structs import replace

from graphviz_dash.analysis.nodes.concurrency import Concurrency, analyze_run
from graphviz_dash.analysis.nodes.node_table import build_table
from graphviz_dash.analysis.nodes.while_loops import find_while_loops
from graphviz_dash.features.graph.concurrency import describe_concurrency
from graphviz_dash.features.prediction.analysis.stream_prediction import predict_parallel
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.loop import GraphCost, ProgramLoop
from graphviz_dash.model.run import Run
from tests.analysis.frames import make_run
from tests.analysis.replays.test_conditionals import WHILE, body, conditional, scene_of
from tests.analysis.scenes import graph_of, kernel
from tests.loops import Steps

OUTER = body("graph-0", 1, 0, ["turn"])
INNER = body("graph-0.1.0", 1, 0, ["find"])
GRAPHS = (
    graph_of([kernel(0, "m0"), conditional(1, WHILE, 1), kernel(2, "m2")]),
    replace(OUTER, nodes=(*OUTER.nodes, conditional(1, WHILE, 1, "graph-0.1.0"))),
    INNER,
)
SCENE = scene_of([["m0", "turn", "find", "m2"]] * 2)


def make_looped_run(gpu_ns: tuple[int, ...]) -> Run:
    cost = GraphCost("graph-0", None, None, (), gpu_ns, None, None, None, None)
    loop = ProgramLoop((), (cost,), Steps().columns(), 0, 0, ())
    return replace(make_run("graph", graphs=GRAPHS, trace=SCENE.trace()), loop=loop)


def analyze(run: Run) -> Concurrency:
    tables = [build_table(run, graph.id) for graph in GRAPHS]
    concurrency = analyze_run(run, tables)["graph-0"]
    assert not isinstance(concurrency, Missing)
    return concurrency


def test_whole_replays_are_next_to_the_nodes_outside_loops() -> None:
    concurrency = analyze(make_looped_run((4_000, 5_000, 9_000)))
    measured, loops = concurrency.measured, concurrency.loops
    assert loops is not None
    assert (loops.nodes, loops.replay_ns, loops.samples) == (2, 5_000, 3)
    assert measured.span_ns == 35
    (sentence, *_) = describe_concurrency(concurrency)
    assert "take 35 ns from their first start to their last end, including loops" in sentence
    assert "A whole replay takes 5.00 µs between CUDA events (median of 3 samples)" in sentence
    assert not any("cannot be faster" in text for text in describe_concurrency(concurrency))


def test_iterations_are_limited_by_the_time_of_the_loop() -> None:
    concurrency = analyze(make_looped_run((5_000,)))
    outer, inner = concurrency.conditionals
    assert (outer.graph, inner.graph) == ("graph-0", "graph-0.1.0")
    # From the end of m0 at 5 ns to that of find at 25 ns; turn takes 5 ns.
    assert outer.time is not None
    assert (outer.time.loop_ns, outer.time.iteration_ns, outer.time.limits) == (20, 5, (4, 4))
    sentence = describe_concurrency(concurrency)[1]
    assert sentence.startswith("While node 1 of graph-0: its body ran in 2 of 2 replays")
    assert sentence.endswith("so there are at most 4 iterations if all last as long.")


def test_replays_that_were_not_timed() -> None:
    concurrency = analyze(make_looped_run(()))
    (sentence, *_) = describe_concurrency(concurrency)
    assert sentence.endswith("The time of whole replays was not sampled.")


def test_a_graph_with_loops_is_not_predicted_on_several_streams() -> None:
    run = make_looped_run((5_000,))
    tables = {graph.id: build_table(run, graph.id) for graph in GRAPHS}
    prediction = predict_parallel(run, analyze(run), tables)
    assert isinstance(prediction, Missing)
    assert "last iteration" in prediction.reason


def test_a_graph_without_loops_has_none() -> None:
    graph = graph_of([kernel(0, "m0")])
    run = make_run("graph", graphs=(graph,))
    assert find_while_loops(run, graph) is None
