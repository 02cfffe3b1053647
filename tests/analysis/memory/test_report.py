from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.memory.report import (
    MemoryPart,
    MemoryReport,
    build_memory_report,
    compute_footprints,
    compute_pool_breakdowns,
    iter_segment_spans,
)
from graphviz_dash.analysis.metrics.run_metrics import MetricValue
from graphviz_dash.features.memory.comparison import compare_memory
from graphviz_dash.features.memory.narrative import describe_memory_cost
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.memory import (
    Extent,
    GraphMemory,
    MemoryPass,
    Owner,
    PoolSegment,
)
from graphviz_dash.model.run import Experiment, Run
from tests.analysis.memory_passes import EAGER, GRAPHED, MIB, POOL, stages
from tests.experiments import make_experiment


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    path = tmp_path_factory.mktemp("memory") / "mlp"
    make_experiment(path)
    return with_memory(load_experiment(path))


def with_memory(loaded: Experiment) -> Experiment:
    found = {"eager": EAGER, "graph": GRAPHED}
    runs = tuple(replace(run, memory_pass=found.get(run.name)) for run in loaded.runs)
    return replace(loaded, runs=runs)


def report(run: Run) -> MemoryReport:
    found = build_memory_report(run)
    assert isinstance(found, MemoryReport)
    return found


def test_the_parts_add_up_to_the_device(experiment: Experiment) -> None:
    eager, graph = (report(run) for run in experiment.runs[:2])
    assert eager.total == 600 * MIB
    assert graph.total == 624 * MIB
    assert {part: size // MIB for part, size in eager.parts.items() if size} == {
        MemoryPart.WEIGHTS: 10,
        MemoryPart.OPTIMIZER: 20,
        MemoryPart.WORKSPACES: 8,
        MemoryPart.ACTIVATIONS: 40,
        MemoryPart.CACHE: 22,
        MemoryPart.OUTSIDE: 500,
    }
    assert {part: size // MIB for part, size in graph.parts.items() if size} == {
        MemoryPart.WEIGHTS: 10,
        MemoryPart.GRADIENTS: 5,
        MemoryPart.OPTIMIZER: 20,
        MemoryPart.TENSORS: 2,
        MemoryPart.WORKSPACES: 16,
        MemoryPart.ACTIVATIONS: 4,
        # 15 of graph-0 (5 to 20), 6 (30 to 36) and 20 of graph-1 less its workspace.
        MemoryPart.EXCLUSIVE: 41,
        MemoryPart.SHARED: 10,
        MemoryPart.UNUSED: 6,
        MemoryPart.CACHE: 6,
        MemoryPart.OUTSIDE: 504,
    }


def test_the_difference_is_the_sum_of_its_parts(experiment: Experiment) -> None:
    result = compare_memory(compare_runs(experiment))
    change = result.get_difference("graph")
    assert change is not None
    assert change.baseline == "eager"
    assert change.total == 24 * MIB == sum(change.parts.values())
    # (4 + 41 + 10 + 6 + 2) of 40 MiB of activations.
    assert change.activation_overhead == pytest.approx((63 - 40) / 40)
    assert result.get_difference("eager") is None
    assert describe_memory_cost(result) == (
        "eager uses 600 MiB of device memory in steady state. Peak memory: graph +64.0 MiB. "
        "Steady-state memory: graph +24.0 MiB. Activation overhead: graph +57.5%."
    )


def test_without_the_process_only_what_the_allocator_holds_is_compared(
    experiment: Experiment,
) -> None:
    others = stages(120 * MIB, 9000 * MIB, alone=False)
    crowded = replace(
        experiment.runs[1], memory_pass=msgspec.structs.replace(GRAPHED, stages=others)
    )
    result = compare_runs(replace(experiment, runs=(experiment.runs[0], crowded)))
    graph = result["graph"]
    assert graph["device_memory"].value is None
    assert "may use the device" in graph["device_memory_change"].missing.reason
    assert graph["iterate_reserved_change"].value == 20 * MIB
    assert describe_memory_cost(compare_memory(result)) == (
        "eager uses 600 MiB of device memory in steady state. Peak memory: graph +64.0 MiB. "
        "Steady-state memory: graph +20.0 MiB. Activation overhead: graph +57.5%."
    )


def test_a_bundle_without_the_pass_says_so(tmp_path: Path) -> None:
    make_experiment(tmp_path / "mlp")
    result = compare_memory(compare_runs(load_experiment(tmp_path / "mlp")))
    assert result.reports == ()
    assert describe_memory_cost(result).startswith("eager reserves 64.0 MiB at exit")
    reasons = {missing.reason for missing in result.missing.values()}
    assert reasons == {"the bundle has no memory pass"}


def test_rounding_is_no_overhead(experiment: Experiment) -> None:
    eager, graph = experiment.runs[:2]

    def with_activations(count: int) -> Run:
        assert eager.memory_pass is not None
        at_peak = tuple(
            msgspec.structs.replace(part, bytes=count) if part.owner is Owner.TRANSIENT else part
            for part in eager.memory_pass.owners_at_peak
        )
        return replace(
            eager, memory_pass=msgspec.structs.replace(eager.memory_pass, owners_at_peak=at_peak)
        )

    def overhead(count: int) -> MetricValue:
        changed = replace(experiment, runs=(with_activations(count), graph))
        return compare_runs(changed)["graph"]["activation_overhead"]

    assert overhead(2 * MIB).value == pytest.approx((63 - 2) / 2)
    assert overhead(MIB).missing.reason == (
        "eager has 1.00 MiB of activations, less than the minimum allocation of "
        "2.00 MiB, so rounding dominates"
    )
    assert overhead(0).missing.reason == "eager has no activations at its peak"


def test_figures_come_with_reasons(experiment: Experiment) -> None:
    graph = compare_runs(experiment)["graph"]
    assert graph["device_memory_change"].value == 24 * MIB
    assert graph["activation_overhead"].value == pytest.approx(0.575)
    assert graph["prepare_peak"].value == 150 * MIB
    eager = compare_runs(experiment)["eager"]
    assert eager["device_memory_change"].missing.reason == "this run is the baseline"
    assert eager["pool_shared"].value == 0


def test_each_graph_has_its_share_of_the_pool() -> None:
    first, second = compute_footprints(GRAPHED)
    assert (first.footprint, first.exclusive, first.shared) == (30 * MIB, 20 * MIB, 10 * MIB)
    assert (second.footprint, second.exclusive, second.shared) == (44 * MIB, 34 * MIB, 10 * MIB)
    assert (second.live_after_capture, second.peak, second.instantiate_device) == (
        9 * MIB,
        20 * MIB,
        2 * MIB,
    )


def test_a_pool_adds_up_to_what_it_reserved() -> None:
    (pool,) = compute_pool_breakdowns(GRAPHED)
    assert (pool.id, pool.segments, pool.reserved) == (POOL, 2, 70 * MIB)
    assert pool.graphs == {"graph-0", "graph-1"}
    parts = (pool.exclusive, pool.shared, pool.unused, pool.workspaces, *pool.owned.values())
    assert sum(parts) == pool.reserved


spans = st.tuples(st.integers(0, 90), st.integers(1, 10)).map(lambda p: (p[0], p[0] + p[1]))


@given(st.lists(st.lists(spans, max_size=4), max_size=5))
def test_stretches_divide_a_segment_without_gap_or_overlap(
    drawn: list[list[tuple[int, int]]],
) -> None:
    graphs = tuple(
        GraphMemory(
            f"graph-{number}", POOL, 1, 0, 0, tuple(Extent(0, b, e) for b, e in separate(one)), None
        )
        for number, one in enumerate(drawn)
    )
    found = MemoryPass("", 1, (), (), (), (PoolSegment(POOL, 100),), (), graphs)
    pieces = list(iter_segment_spans(found))
    assert [piece.begin for piece in pieces] == [0, *(piece.end for piece in pieces)][:-1]
    assert pieces[-1].end == 100
    for piece in pieces:
        expected = {
            graph.graph
            for graph in graphs
            for extent in graph.extents
            if extent.start <= piece.begin < extent.end
        }
        assert set(piece.graphs) == expected


def separate(extents: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those that overlap and touch no earlier one."""
    kept: list[tuple[int, int]] = []
    for begin, end in extents:
        if all(end < other[0] or other[1] < begin for other in kept):
            kept.append((begin, end))
    return kept
