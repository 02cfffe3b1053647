from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from graphviz_dash.features.launch.analysis.launch_costs import LaunchCosts, analyze_launch_costs
from graphviz_dash.features.launch.analysis.own_graphs import (
    compute_shape,
    find_reference,
    list_program_graphs,
)
from graphviz_dash.features.launch.narrative import (
    describe_own_graph,
    describe_own_graphs,
    describe_untimed_measures,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.graph import CapturedGraph, GraphEdge, GraphNode, NodeKind
from graphviz_dash.model.launch import LaunchMeasure, Topology
from graphviz_dash.model.run import Absent, Environment, Experiment, Run
from graphviz_dash.model.timings import GraphLifecycle, StepTiming
from tests.analysis.frames import ENVIRONMENT
from tests.analysis.launches import lines, recording, series
from tests.bundle.examples import CLEAN, MANIFEST

LAUNCH = LaunchMeasure.REPEAT_LAUNCH_CPU


def graph(count: int, edges: Sequence[tuple[int, int]]) -> CapturedGraph:
    nodes = tuple(GraphNode(index, NodeKind.EMPTY) for index in range(count))
    return CapturedGraph(
        "graph-0", nodes, tuple(GraphEdge(source, target) for source, target in edges), "test"
    )


@pytest.mark.parametrize(
    ("count", "edges", "expected"),
    [
        # nodes, roots, depth, width, straight, longest
        (1, [], (1, 1, 1, 0, 1)),
        (3, [(0, 1), (1, 2)], (1, 3, 1, 3, 3)),
        (3, [], (3, 1, 3, 0, 1)),
        # A diamond: no edge of it is straight.
        (4, [(0, 1), (0, 2), (1, 3), (2, 3)], (1, 3, 2, 0, 1)),
        # A fork into two lines of two, and what follows their join.
        (7, [(0, 1), (1, 2), (0, 3), (3, 4), (2, 5), (4, 5), (5, 6)], (1, 5, 2, 6, 2)),
        # The edge of a triangle that leaps over a node makes neither end of it straight.
        (3, [(0, 1), (1, 2), (0, 2)], (1, 3, 1, 0, 1)),
    ],
)
def test_shapes(
    count: int, edges: list[tuple[int, int]], expected: tuple[int, int, int, int, int]
) -> None:
    shape = compute_shape(graph(count, edges))
    found = (shape.roots, shape.depth, shape.width, shape.chained_nodes, shape.longest_chain)
    assert found == expected
    assert shape.is_line == (expected[4] == count)


pairs = st.tuples(st.integers(0, 11), st.integers(0, 11)).filter(lambda pair: pair[0] < pair[1])


@settings(max_examples=60, deadline=None)
@given(st.lists(pairs, max_size=25))
def test_a_shape_is_as_its_definition_says(edges: list[tuple[int, int]]) -> None:
    shape = compute_shape(graph(12, edges))
    unique = set(edges)
    out = {node: {t for s, t in unique if s == node} for node in range(12)}
    into = {node: {s for s, t in unique if t == node} for node in range(12)}

    def depth(node: int) -> int:
        return 1 + max(map(depth, into[node]), default=0)

    straight = {(s, t) for s, t in unique if len(out[s]) == len(into[t]) == 1}
    depths = [depth(node) for node in range(12)]
    assert shape.chained_nodes == len({node for edge in straight for node in edge})
    assert shape.depth == max(depths)
    assert shape.width == max(map(depths.count, depths))
    assert shape.roots == sum(not sources for sources in into.values())
    assert shape.leaves == sum(not targets for targets in out.values())
    assert shape.edges == len(unique)
    assert 0 <= shape.chained_share <= 1


def costs(environment: Environment = ENVIRONMENT, created: str = "2026-01-02") -> LaunchCosts:
    widths = (1, 2, 4, 8, 16)
    chains = [series(Topology(w, 10, False, None, 10 * w), 1000.0 + 900 * w) for w in widths[1:]]
    one = recording(*lines(lambda n: 2000 + 4 * n, noise=0.001), *chains)
    return analyze_launch_costs(replace(one, environment=environment, created=created))


def run_of(captured: CapturedGraph, launch_ns: int | None) -> Run:
    rows = () if launch_ns is None else tuple(StepTiming(launch_ns * 4, launch_ns) for _ in "abc")
    life = GraphLifecycle(
        "graph-0", len(captured.nodes), 9, 8, 7, 6, 50, 5, 4, 3, rows, (40, 41, 42)
    )
    return Run(
        path=Path("x/graph"),
        manifest=replace(MANIFEST, environment=ENVIRONMENT),
        clean=replace(CLEAN, graphs=(life,)),
        graphs=(captured,),
        memory=None,
        capture_trace=None,
        replay_trace=None,
    )


LINE = graph(100, [(node, node + 1) for node in range(99)])
TWO_ROOTS = graph(100, [(0, 2), (1, 2), *((node, node + 1) for node in range(2, 99))])


def test_a_line_is_set_beside_a_chain_of_its_size() -> None:
    experiment = Experiment(Path("x"), (run_of(LINE, 4800),))
    (own,) = list_program_graphs(experiment, {"ref": costs()})
    assert own.shape is not None
    assert own.shape.is_line
    chain = own.chain
    assert chain is not None
    assert (chain.reference, chain.is_in_range) == ("ref", True)
    assert chain.ns == pytest.approx(2400, rel=0.03)
    assert chain.ratio == pytest.approx(2.0, rel=0.03)
    assert chain.with_roots == pytest.approx(chain.ns)
    assert own.timings[LAUNCH].summary.median == 4800
    assert own.timings[LaunchMeasure.REPEAT_LAUNCH].summary.median == 19200
    assert own.timings[LaunchMeasure.REPEAT_LAUNCH_DEVICE].summary.median == 41
    assert own.timings[LaunchMeasure.UPLOAD_CPU].minimum == 5
    assert "one linear chain" in describe_own_graph(own)
    assert "2.0" in describe_own_graph(own)


def test_further_roots_cost_what_they_cost_synthetic_graphs() -> None:
    experiment = Experiment(Path("x"), (run_of(TWO_ROOTS, 4800),))
    (own,) = list_program_graphs(experiment, {"ref": costs()})
    chain = own.chain
    assert chain is not None
    assert chain.with_roots is not None
    assert chain.with_roots - chain.ns == pytest.approx(900, rel=0.1)
    assert "2 roots" in describe_own_graph(own)


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ((Absent("repeat launches of graph-0", "they share memory"),), "they share memory"),
        (
            (Absent("repeat launches of graph-7", "they share memory"),),
            "the collecting version",
        ),
        ((), "the collecting version"),
    ],
)
def test_measures_without_timings_have_a_reason(told: tuple[Absent, ...], reason: str) -> None:
    run = run_of(LINE, None)
    run = replace(run, manifest=replace(run.manifest, absent=told))
    (own,) = list_program_graphs(Experiment(Path("x"), (run,)), {"ref": costs()})
    assert own.chain is None
    assert LAUNCH not in own.timings
    assert f"not timed separately: {reason}" in describe_own_graph(own)
    assert not own.absent.keys() & own.timings.keys()
    assert own.absent[LAUNCH].startswith(reason)
    (sentence,) = describe_untimed_measures([own])
    assert sentence.startswith("Not timed for graph (graph-0): Repeat launch, CPU; Repeat launch, ")
    assert reason in sentence


def test_each_reason_is_said_once_for_all_graphs_of_a_run() -> None:
    run = run_of(LINE, 4800)
    assert run.clean is not None
    life = replace(run.clean.graphs[0], upload_ns=None, upload_cpu_ns=None)
    lives = tuple(replace(life, graph=f"graph-{number}") for number in range(5))
    why = tuple(Absent(f"upload_ns of {one.graph}", "it allocates memory") for one in lives)
    run = replace(
        run,
        manifest=replace(run.manifest, absent=why),
        clean=replace(run.clean, graphs=lives),
    )
    graphs = list_program_graphs(Experiment(Path("x"), (run,)), {"ref": costs()})
    assert describe_untimed_measures(graphs) == [
        "Not timed for graph (5 graphs): Upload, CPU. Reason: it allocates memory."
    ]
    assert (
        describe_untimed_measures(
            list_program_graphs(Experiment(Path("x"), (run_of(LINE, 4800),)), {})
        )
        == []
    )


def test_a_reference_is_of_the_same_gpu_and_driver_and_the_newest() -> None:
    other_gpu = replace(ENVIRONMENT, gpu=replace(ENVIRONMENT.gpu, name="Other"))
    known = {
        "other": costs(other_gpu, "2027-01-01"),
        "driver": costs(replace(ENVIRONMENT, driver="1.2"), "2027-01-01"),
        "old": costs(created="2025-01-01"),
        "new": costs(created="2026-05-05"),
    }
    found = find_reference(ENVIRONMENT, known)
    assert not isinstance(found, Missing)
    assert found.name == "new"
    del known["old"], known["new"]
    missing = find_reference(ENVIRONMENT, known)
    assert isinstance(missing, Missing)
    assert ENVIRONMENT.gpu.name in missing.reason
    (own,) = list_program_graphs(Experiment(Path("x"), (run_of(LINE, 4800),)), known)
    assert own.chain_times == missing
    assert missing.reason in describe_own_graph(own)
    # Page and terminal say it once, in what they say of all graphs.
    assert "\n".join(describe_own_graphs([own, own], 3)).count(missing.reason) == 1


def test_beyond_the_measured_sizes_the_fit_is_continued_and_says_so() -> None:
    long = graph(3000, [(node, node + 1) for node in range(2999)])
    (own,) = list_program_graphs(Experiment(Path("x"), (run_of(long, 15000),)), {"ref": costs()})
    assert own.chain is not None
    assert not own.chain.is_in_range
    assert "extrapolated beyond" in describe_own_graph(own)
