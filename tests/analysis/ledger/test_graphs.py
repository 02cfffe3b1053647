from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from graphviz_dash.analysis.ledger.graphs import (
    build_graph_ledgers,
    compute_returned,
    divide,
    share_executables,
)
from graphviz_dash.analysis.ledger.savings import sum_pools
from graphviz_dash.analysis.loop.family_report import LoopReport, build_loop_report
from graphviz_dash.analysis.memory.report import compute_footprints
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.ledger import LedgerSpan, SampleKind, SpanKind
from graphviz_dash.model.run import ExecutionMode, Run, WorkloadInfo
from tests.analysis.memory_passes import GRAPHED
from tests.experiments import captured_graph, manifest
from tests.ledgers import GRAPHS, MIB, MS, POOL, SAMPLES, make_ledger, sample
from tests.loops import layer_work
from tests.samples_once import SAMPLES as SAMPLE_FOLDER

NODES = {"graph-0": 3, "graph-1": 2, "graph-2": 1}


def make_run() -> Run:
    graphs = tuple(captured_graph(layer_work(NODES[name], 4), name) for name in GRAPHS)
    workload = WorkloadInfo("server.py", "server.py", None, 0, 0, 0)
    described = manifest(ExecutionMode.RECORDED, workload)
    return Run(path=Path("run"), manifest=described, graphs=graphs, ledger=make_ledger())


def test_each_graph_adds_pool_kernels_and_its_share_of_the_executables() -> None:
    first, second, third = build_graph_ledgers(make_run())
    assert (first.reserved_bytes, first.kernel_bytes, first.executable_bytes) == (
        100 * MIB,
        10 * MIB,
        3 * MIB,
    )
    assert (second.reserved_bytes, second.kernel_bytes, second.executable_bytes) == (
        20 * MIB,
        0,
        2 * MIB,
    )
    assert (third.reserved_bytes, third.kernel_bytes, third.executable_bytes) == (
        4 * MIB,
        0,
        1 * MIB,
    )
    assert first.host_bytes == 4 * MIB


def test_no_graph_gets_memory_that_may_belong_to_another_process() -> None:
    ledger = make_ledger(process_used_bytes=590 * MIB)
    first, *_ = build_graph_ledgers(replace(make_run(), ledger=ledger))
    assert first.reserved_bytes == first.added_bytes == 100 * MIB
    assert (first.kernel_bytes, first.executable_bytes, first.warm_up_bytes) == (None, None, None)


def test_each_graph_has_its_times() -> None:
    first, second, _ = build_graph_ledgers(make_run())
    assert (first.capture_ns, first.driver_ns) == (140 * MS, 50 * MS)
    assert (first.collection_ns, first.first_launch_ns) == (50 * MS, 2 * MS)
    assert (second.collection_ns, second.first_launch_ns) == (0, None)
    assert second.pool == POOL


def test_the_recorder_is_no_part_of_a_capture() -> None:
    ledger = make_ledger()
    capture = next(item for item in ledger.spans if item.kind is SpanKind.CAPTURE)
    work = LedgerSpan(
        SpanKind.RECORDER, "reading the graph", 0, capture.start_ns, capture.start_ns + 30 * MS
    )
    run = make_run()
    first, *_ = build_graph_ledgers(
        replace(run, ledger=replace(ledger, spans=(*ledger.spans, work)))
    )
    # 140 ms without it.
    assert first.capture_ns == 110 * MS


@pytest.mark.parametrize("name", ["wasteful", "frugal"])
def test_a_capture_has_one_time_on_all_pages(name: str) -> None:
    run = load_run(SAMPLE_FOLDER / "recorded-decoder" / name)
    assert run.recording is not None
    recorded = {graph.graph: graph.capture_ns for graph in run.recording.graphs}
    assert {graph.graph: graph.capture_ns for graph in build_graph_ledgers(run)} == recorded
    # The ledger's own spans, without the recorder's work, are as long within the reading of clocks.
    alone = build_graph_ledgers(replace(run, recording=None))
    for graph in alone:
        assert graph.capture_ns is not None
        assert abs(graph.capture_ns - recorded[graph.graph]) < 500_000


@pytest.mark.parametrize("name", ["recorded-decoder/wasteful", "recorded-sglang/default-sizes"])
def test_a_graph_has_one_pool_growth_and_one_first_launch_on_all_pages(name: str) -> None:
    run = load_run(SAMPLE_FOLDER / name)
    report = build_loop_report(run)
    assert run.ledger is not None
    assert isinstance(report, LoopReport)
    graphs = {graph.graph: graph for graph in build_graph_ledgers(run)}
    members = [m for f in report.families for m in f.members if len(m.member.graphs) == 1]
    assert len(members) > 5
    for member in members:
        graph = graphs[member.member.graphs[0]]
        assert graph.pool_growth_bytes == member.pool_growth_bytes
        assert graph.first_launch_ns == member.first_launch_ns
    # The first capture also allocates outside its pool.
    assert graphs["graph-0"].reserved_bytes == 2 * MIB + (graphs["graph-0"].pool_growth_bytes or 0)
    sums = sum_pools(replace(run.ledger, states=()), tuple(graphs.values()))
    assert sum(sums.values()) == sum(graph.pool_growth_bytes or 0 for graph in graphs.values())


def test_dropped_graphs_return_what_was_measured() -> None:
    samples = (
        *SAMPLES,
        sample(9_100, SampleKind.CACHE_RELEASE, 660, 440, 124),
        sample(9_200, SampleKind.GRAPH_DROP, 658, 440, 124, "graph-2"),
        sample(9_300, SampleKind.GRAPH_DROP, 654, 316, 0, "graph-1"),
    )
    returned = compute_returned(make_ledger(samples=samples))
    assert returned == {"graph-2": 2 * MIB, "graph-1": 128 * MIB}


def test_sharing_comes_from_the_addresses_of_the_memory_pass() -> None:
    sharing = {one.graph: one for one in compute_footprints(GRAPHED)}
    assert {name: (one.exclusive // MIB, one.shared // MIB) for name, one in sharing.items()} == {
        "graph-0": (20, 10),
        "graph-1": (34, 10),
    }
    assert sharing["graph-0"].shared_with == ("graph-1",)


def test_executables_are_shared_by_nodes_and_stay_exact() -> None:
    assert share_executables(make_ledger(), NODES) == {
        "graph-0": 3 * MIB,
        "graph-1": 2 * MIB,
        "graph-2": 1 * MIB,
    }
    assert share_executables(make_ledger(), {}) == {}


@given(st.integers(0, 1 << 40), st.lists(st.integers(1, 10_000), max_size=20))
def test_shares_add_up(total: int, weights: list[int]) -> None:
    shares = divide(total, {str(number): weight for number, weight in enumerate(weights)})
    assert sum(shares.values()) == (total if weights else 0)
    assert all(share >= 0 for share in shares.values())
