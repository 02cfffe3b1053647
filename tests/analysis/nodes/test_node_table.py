from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.attribution.attribution import attribute_graph
from graphviz_dash.analysis.nodes.node_table import build_node_table, build_table, list_source_lines
from graphviz_dash.analysis.replays.replays import BY_BRANCH, BY_ORDER, UNMATCHED, match_replays
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.ingest.load import load_run
from tests.analysis.scenes import Scene, graph_of, kernel, memcpy
from tests.builders import STEP, fork_join, gpu_starts, make_run


def test_a_training_step(tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path / "toy", traced=4))
    table = build_table(run, "graph-0")
    assert table.attributed_nodes == table.capture_launches == len(STEP)
    assert table.replays == 4
    assert table.replay_kernels == table.matched_kernels == 4 * len(STEP)
    starts = gpu_starts(STEP, 0)
    for work, row, start in zip(STEP, table.rows, starts, strict=True):
        assert row.origin.op == work.op
        assert (row.times.method, row.times.confidence, row.times.samples) == (BY_ORDER, 1.0, 4)
        assert row.times.median_ns == row.times.min_ns == row.times.max_ns == work.duration
        assert row.times.start_median_ns == start
        assert row.times.stream == work.stream
    assert [row.category for row in table.rows[:3]] == [
        Category.MEMORY,
        Category.GEMM,
        Category.ELEMENTWISE,
    ]


def test_parallel_branches(tmp_path: Path) -> None:
    work = fork_join()
    table = build_table(load_run(make_run(tmp_path / "toy", work=work)), "graph-0")
    assert {row.times.method for row in table.rows} == {BY_BRANCH}
    assert [row.times.stream for row in table.rows] == [item.stream for item in work]
    assert table.matched_kernels == table.replay_kernels


def test_medians_and_extremes_are_those_of_the_samples() -> None:
    graph = graph_of([kernel(0, "a"), kernel(1, "b")])
    durations = {0: [30, 10, 20, 50], 1: [7, 5, 9]}
    scene = Scene()
    for number in range(4):
        correlation = scene.call("cudaGraphLaunch", 1000 * (number + 1))
        for node, samples in durations.items():
            if number < len(samples):
                start = 1000 * (number + 1) + 10 + 100 * node
                scene.work(graph.nodes[node], start, correlation, dur=samples[number])
    matched = match_replays((graph,), scene.trace())
    table = build_node_table(graph, attribute_graph(graph), matched)
    for node, samples in durations.items():
        times = table.rows[node].times
        assert times.samples == len(samples)
        assert times.median_ns == np.median(samples)
        assert (times.min_ns, times.max_ns) == (min(samples), max(samples))
        assert times.start_median_ns == 100 * node
        assert matched.get_samples("graph-0", node).tolist() == samples
    # In the last replay a row is missing, so the other one is less than certain there.
    assert table.rows[0].times.confidence == 0.9
    assert table.attributed_nodes == 0


def test_a_node_that_no_trace_shows_has_no_times() -> None:
    graph = graph_of([kernel(0), memcpy(1), kernel(2, "z")])
    scene = Scene()
    scene.replay(graph, 100, [(0, 0, 7), (2, 10, 7)])
    table = build_node_table(graph, attribute_graph(graph), match_replays((graph,), scene.trace()))
    times = table.rows[1].times
    assert (times.method, times.samples, times.median_ns) == (UNMATCHED, 0, None)
    assert (table.replay_kernels, table.matched_kernels) == (2, 2)


def test_without_traces_the_driver_s_facts_remain(tmp_path: Path) -> None:
    run = replace(load_run(make_run(tmp_path / "toy")), capture_trace=None, replay_trace=None)
    table = build_table(run, "graph-0")
    assert len(table.rows) == len(STEP)
    assert table.replays == table.replay_kernels == table.attributed_nodes == 0
    assert table.rows[0].origin.reason == "the capture was not traced"
    assert table.rows[0].times.samples == 0


def test_a_graph_that_the_run_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="graph-7"):
        build_table(load_run(make_run(tmp_path / "toy")), "graph-7")


def test_source_lines_hold_every_attributed_node_once() -> None:
    run = load_run(Path("sample_traces/fork-join/graph"))
    table = build_table(run, "graph-0")
    lines = list_source_lines(table, run.source_code)
    assert sum(line.nodes for line in lines) == sum(
        row.origin.source is not None for row in table.rows
    )
    works = [line.work_ns or 0.0 for line in lines]
    assert works == sorted(works, reverse=True)
    (tanh,) = [line for line in lines if line.source.endswith("fork_join.py:26")]
    rows = [row for row in table.rows if row.origin.source == tanh.source]
    assert tanh.work_ns == sum(row.times.median_ns or 0 for row in rows)
    assert tanh.code == "x = torch.tanh(layer(x))"
    assert 0 < sum(line.share or 0.0 for line in lines) <= 1 + 1e-9


def test_source_lines_of_an_untimed_graph_have_no_time() -> None:
    run = load_run(Path("sample_traces/graph-update/graph"))
    lines = list_source_lines(build_table(run, "graph-1"))
    assert lines
    assert {(line.work_ns, line.share, line.code) for line in lines} == {(None, None, None)}
