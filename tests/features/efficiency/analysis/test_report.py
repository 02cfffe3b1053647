"""Times of several graphs, weighted by their replays per step."""

from __future__ import annotations

import json
from collections import Counter
from statistics import median

import msgspec
import pytest

from graphviz_dash.analysis.nodes.measured_graph import find_timing_replays
from graphviz_dash.analysis.replays.replay_steps import find_replay_steps
from graphviz_dash.features.efficiency.analysis.ceilings_choice import (
    CeilingsChoice,
    CeilingsOrigin,
)
from graphviz_dash.features.efficiency.analysis.excess import compute_excess_series
from graphviz_dash.features.efficiency.analysis.report import (
    EfficiencyReport,
    combine_reports,
    measure_items,
    measure_run_efficiency,
)
from graphviz_dash.features.efficiency.analysis.rules.search import Remedy
from graphviz_dash.features.efficiency.document import build_efficiency_document
from graphviz_dash.features.efficiency.narrative import describe_efficiency
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run
from tests.features.efficiency.steps import DRAM, LAUNCH_NS, StepBuilder, make_ceilings, tensor
from tests.samples import SAMPLES

CHOICE = CeilingsChoice(make_ceilings(), CeilingsOrigin.RUN)
MIB = 1 << 20


def measure_copy(graph: str, mebibytes: int, times_limit: float) -> EfficiencyReport:
    """Measure a graph of one copy that takes ``times_limit`` times as long as memory allows."""
    size = mebibytes * MIB
    limit_ns = LAUNCH_NS + 2 * size / DRAM
    step = StepBuilder()
    values = tensor(size // 4)
    step.add("copy_kernel", limit_ns * times_limit, "copy_", values, values)
    items = tuple(msgspec.structs.replace(item, graph=graph) for item in step.items)
    report = measure_items(items, CHOICE, graph)
    assert isinstance(report, EfficiencyReport)
    return report


def test_times_are_weighted_by_replays_per_step() -> None:
    near, far = measure_copy("near", 256, 1.0), measure_copy("far", 256, 3.0)
    both = combine_reports([near, far], {"near": 0.5, "far": 2.0})
    assert both.time_ns == pytest.approx(0.5 * near.time_ns + 2 * far.time_ns)
    assert both.near_ns == pytest.approx(0.5 * near.time_ns)
    assert both.above_ns == pytest.approx(0.5 * near.above_ns + 2 * far.above_ns)
    assert [part.graph for part in both.graphs] == ["far", "near"]
    assert sum(part.above_ns for part in both.graphs) == pytest.approx(both.above_ns)
    assert [both.items[limit.unit.items[0]].graph for limit in both.limits] == ["near", "far"]
    assert [limit.share for limit in both.limits] == [near.limits[0].share, far.limits[0].share]
    sentence = describe_efficiency(both)
    assert sentence.startswith("The graphs spend 135 µs of 1.75 ms per step within 20% of the ")


def measure_chain(graph: str) -> EfficiencyReport:
    """Measure a graph whose chain of elementwise kernels could be one kernel."""
    step = StepBuilder()
    values = tensor(64 * MIB)
    for name in ("mul", "sigmoid", "add"):
        step.add("vectorized_elementwise_kernel", 300_000.0, name, values, values)
    items = tuple(msgspec.structs.replace(item, graph=graph) for item in step.items)
    report = measure_items(items, CHOICE, graph)
    assert isinstance(report, EfficiencyReport)
    return report


def test_equal_recommendations_of_graphs_are_one() -> None:
    first, second = measure_chain("first"), measure_chain("second")
    (single,) = first.advice
    assert single.remedy is Remedy.FUSE
    both = combine_reports([first, second], {"first": 1.0, "second": 3.0})
    (merged,) = both.advice
    assert merged.operators == single.operators
    assert merged.saving_ns == pytest.approx(4 * single.saving_ns)
    assert merged.kernels == 2 * single.kernels
    # The calls of the second graph, not those of the first again.
    names = {both.items[both.limits[index].unit.items[0]].graph for index in merged.groups[-1]}
    assert names == {"second"}
    rare = combine_reports([first], {"first": 1e-6})
    assert not rare.advice


@pytest.fixture(scope="module")
def pieces() -> Run:
    """A generation whose steps replay different graphs."""
    run = load_run(SAMPLES / "compile-generate" / "fixed-0")
    return msgspec.structs.replace(run, ceilings=make_ceilings("NVIDIA H200"))


def count_launches(run: Run) -> Counter[str]:
    """Count graph launches inside steps, by the id of the replayed graph in the trace's rows."""
    trace = run.replay_trace
    assert trace is not None
    replays = find_timing_replays(run)
    assert replays is not None
    ranges = [
        (begin, begin + duration)
        for name, begin, duration in trace.annotations.select("name", "ts", "dur").iter_rows()
        if name.startswith("graphviz_dash.step#")
    ]
    calls = {
        correlation: begin
        for name, begin, correlation in trace.runtime.select(
            "name", "ts", "correlation"
        ).iter_rows()
        if "GraphLaunch" in name
    }
    correlations = trace.gpu["correlation"].to_list()
    launches: dict[int, str] = {}
    for graph, row in zip(replays.graph.tolist(), replays.gpu_row.tolist(), strict=True):
        begin = calls[correlations[row]]
        if graph >= 0 and any(first <= begin < last for first, last in ranges):
            launches[correlations[row]] = replays.graphs[graph]
    return Counter(launches.values())


def test_replays_are_counted_in_steps(pieces: Run) -> None:
    replays = find_timing_replays(pieces)
    assert replays is not None
    steps = find_replay_steps(pieces, replays)
    assert not steps.is_whole_trace
    counted = count_launches(pieces)
    assert len(counted) > 1
    assert {graph: round(mean * steps.steps) for graph, mean in steps.means.items()} == counted


def test_the_report_of_a_run_is_that_of_its_graphs(pieces: Run) -> None:
    report = measure_run_efficiency(pieces)
    assert isinstance(report, EfficiencyReport)
    assert len(report.graphs) > 1
    for part in report.graphs:
        single = measure_run_efficiency(pieces, part.graph)
        assert isinstance(single, EfficiencyReport)
        assert part.time_ns == pytest.approx(single.time_ns * part.replays)
        assert part.near_ns == pytest.approx(single.near_ns * part.replays)
    document = json.loads(msgspec.json.encode(build_efficiency_document(pieces.name, report)))
    assert document["graph"] is None
    assert document["unit"] == "step"
    assert sum(part["time"] for part in document["graphs"]) == pytest.approx(document["time"])
    assert sum(call["time"] for call in document["calls"]) == pytest.approx(document["time"])
    assert {call["graph"] for call in document["calls"]} == {
        part["graph"] for part in document["graphs"]
    }


def test_the_gated_series_has_a_value_for_each_step(pieces: Run) -> None:
    series = compute_excess_series(pieces)
    report = measure_run_efficiency(pieces)
    assert not isinstance(series, Missing)
    assert isinstance(report, EfficiencyReport)
    replays = find_timing_replays(pieces)
    assert replays is not None
    assert len(series) == find_replay_steps(pieces, replays).steps
    # The report has medians of nodes, the series sums of replays.
    assert median(series) == pytest.approx(report.above_ns, rel=0.15)
