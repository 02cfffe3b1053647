from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.ledger.graphs import build_graph_ledgers
from graphviz_dash.analysis.ledger.memory import build_memory_ledger
from graphviz_dash.analysis.ledger.savings import (
    LAZY_CONTEXT_BYTES,
    LAZY_CONTEXT_NS,
    LAZY_OUTSIDE_BYTES,
    SWITCH_NS_PER_NODE,
    Saving,
    SavingAction,
    SavingBasis,
    find_savings,
    find_twins,
    sum_without,
)
from graphviz_dash.analysis.ledger.startup import build_startup_ledger
from graphviz_dash.features.ledger.narrative import describe_saving
from graphviz_dash.model.ledger import (
    AllocatorBlocks,
    GraphStart,
    Ledger,
    ReservedPool,
    SampleKind,
    SpanKind,
)
from graphviz_dash.model.loop import GraphCost, LoopSteps, ProgramLoop
from graphviz_dash.model.memory import DEFAULT_POOL, Owner
from graphviz_dash.model.recording import RecordedGraph, Recording
from graphviz_dash.model.run import ExecutionMode, Run, WorkloadInfo
from tests.experiments import captured_graph, manifest
from tests.ledgers import GRAPHS, MIB, MS, POOL, SAMPLES, SPANS, STATE, make_ledger, sample, span
from tests.loops import layer_work

NODES = {"graph-0": 2_000, "graph-1": 2_000, "graph-2": 1_000}


def make_run(ledger: Ledger, recording: Recording | None = None) -> Run:
    graphs = tuple(captured_graph(layer_work(NODES[name], 4), name) for name in GRAPHS)
    workload = WorkloadInfo("server.py", "server.py", None, 0, 0, 0)
    described = manifest(ExecutionMode.RECORDED, workload)
    return Run(
        path=Path("run"), manifest=described, graphs=graphs, ledger=ledger, recording=recording
    )


def savings_of(ledger: Ledger, recording: Recording | None = None) -> dict[SavingAction, Saving]:
    run = make_run(ledger, recording)
    graphs = build_graph_ledgers(run)
    rows = find_savings(run, build_memory_ledger(ledger), build_startup_ledger(ledger), graphs)
    return {row.action: row for row in rows}


def with_graphs(**changes: Any) -> Ledger:
    first, second, third = make_ledger().graphs
    return make_ledger(graphs=(first, replace(second, **changes), third))


def test_expandable_segments_save_what_the_recorder_simulated() -> None:
    saving = savings_of(make_ledger(expandable_saving_bytes=52 * MIB))[SavingAction.EXPANDABLE]
    assert (saving.bytes, saving.ns, saving.basis) == (52 * MIB, 0, SavingBasis.PREDICTION)
    for size in (None, -10 * MIB):
        assert SavingAction.EXPANDABLE not in savings_of(make_ledger(expandable_saving_bytes=size))


def test_one_pool_needs_as_much_as_the_largest() -> None:
    saving = savings_of(with_graphs(pool=(0, 2)))[SavingAction.ONE_POOL]
    assert (saving.bytes, saving.basis) == (20 * MIB, SavingBasis.PREDICTION)
    assert SavingAction.ONE_POOL not in savings_of(make_ledger())


def savings_with_outputs(
    sizes: Sequence[int], kept: Sequence[float], pools: Sequence[tuple[int, int]]
) -> dict[SavingAction, Saving]:
    """The savings of graphs that added ``sizes`` to their pools and keep ``kept``, in MiB."""
    names = tuple(f"graph-{number}" for number in range(len(sizes)))
    sums: dict[tuple[int, int], int] = defaultdict(int)
    for pool, size in zip(pools, sizes, strict=True):
        sums[pool] += size
    reserved = tuple(ReservedPool(pool, 0, 1, size * MIB, 0, 0) for pool, size in sums.items())
    workspace = AllocatorBlocks(pools[0], 0, Owner.UNOWNED, 1, 32 * MIB)
    end = replace(STATE, pools=reserved, blocks=(workspace,), sample=2)
    graphs = tuple(GraphStart(name, pool, 0, None) for name, pool in zip(names, pools, strict=True))
    samples = [SAMPLES[0]]
    for number, (name, size) in enumerate(zip(names, sizes, strict=True)):
        before, at = sum(sizes[:number]), 3_000 + 10 * number
        samples.append(sample(at, SampleKind.CAPTURE_BEGIN, 600, before, before, name))
        samples.append(sample(at, SampleKind.INSTANTIATION, 600, before + size, before, name))
    ledger = make_ledger(samples=tuple(samples), states=(end,), graphs=graphs)
    costs = tuple(
        GraphCost(name, None, None, (), (), pool, None, round(own * MIB), None)
        for name, pool, own in zip(names, pools, kept, strict=True)
    )
    loop = ProgramLoop((), costs, LoopSteps(*[()] * len(LoopSteps.__struct_fields__)), 0, 0, ())
    run = replace(make_run(ledger), loop=loop)
    rows = build_graph_ledgers(run)
    memory, startup = build_memory_ledger(ledger), build_startup_ledger(ledger)
    return {row.action: row for row in find_savings(run, memory, startup, rows)}


def test_graphs_in_one_pool_keep_their_outputs_and_need_more_during_captures() -> None:
    # As measured on an H100: 88 MiB in one pool, 214 MiB in eleven.
    sizes = (68, 24, 24, 22, 22, 22, 22, 4, 2, 2, 2)
    kept = (44.0, 8.3, 5.9, 3.9, 2.9, 2.0, 1.5, 1.0, 0.5, 0.2, 0.1)
    savings = savings_with_outputs(sizes, kept, [(number, 0) for number in range(1, 12)])
    assert savings[SavingAction.ONE_POOL].bytes == (214 - 88) * MIB
    assert SavingAction.ORDER not in savings


def test_the_largest_graph_captured_first_holds_the_outputs_of_the_others() -> None:
    # Measured on an H100: 98 MiB with the smallest first, 76 MiB with the largest first.
    sizes = (34, 0, 2, 20, 0, 0, 20, 2, 20)
    kept = (32.1, 0.4, 0.6, 1.2, 2.4, 3.4, 4.9, 6.8, 10.2)
    saving = savings_with_outputs(sizes, kept, [(1, 0)] * 9)[SavingAction.ORDER]
    assert saving.bytes == 20 * MIB
    # All growth before the largest graph, without the workspace of 32 MiB.
    assert saving.most_bytes == (34 + 2 + 20 + 20 + 2 - 32) * MIB
    # Measured there: 56 MiB more with the smallest first.
    growth = (36, 0, 0, 2, 20, 0, 0, 22, 20, 0, 20, 12, 30, 32)
    outputs = (32.1, 0.2, 0.5, 1.0, 2.0, 2.9, 3.9, 4.9, 5.9, 6.8, 8.8, 10.7, 12.7, 14.7)
    saving = savings_with_outputs(growth, outputs, [(1, 0)] * 14)[SavingAction.ORDER]
    assert saving.most_bytes is not None
    assert saving.bytes <= 56 * MIB <= saving.most_bytes
    largest_first = savings_with_outputs(
        (76, *[0] * 8), (41.8, *kept[:0:-1][1:], 0.1), [(1, 0)] * 9
    )
    assert SavingAction.ORDER not in largest_first


def test_captures_on_one_stream_share_their_blocks() -> None:
    saving = savings_of(with_graphs(stream=1))[SavingAction.ONE_STREAM]
    assert saving.bytes == 20 * MIB
    # Other pools would be on other streams anyway.
    both = savings_of(with_graphs(stream=1, pool=(0, 2)))
    assert SavingAction.ONE_POOL not in both


def test_streams_that_only_hold_workspaces_warmed_up() -> None:
    pools = tuple(
        ReservedPool(DEFAULT_POOL, stream, 1, 32 * MIB, 0, 32 * MIB) for stream in range(4)
    )
    owners = (Owner.WEIGHTS, Owner.UNOWNED, Owner.UNOWNED, Owner.UNOWNED)
    blocks = tuple(
        AllocatorBlocks(DEFAULT_POOL, stream, owner, 1, 32 * MIB)
        for stream, owner in enumerate(owners)
    )
    end = replace(STATE, sample=12, pools=pools, blocks=blocks)
    saving = savings_of(make_ledger(states=(STATE, end)))[SavingAction.WARM_UP_STREAM]
    assert saving.bytes == 64 * MIB


def test_graphs_of_equal_topology_can_share_an_executable() -> None:
    assert find_twins(make_run(make_ledger())) == (("graph-0", "graph-1"),)
    saving = savings_of(make_ledger())[SavingAction.SHARE]
    # 2,000 of 5,000 nodes are 2.4 of the 6 MiB that exist, one chunk of 2 MiB; the second one took
    # 10 ms.
    assert (saving.bytes, saving.ns) == (2 * MIB, 10 * MS)
    assert saving.switch_ns == 2_000 * SWITCH_NS_PER_NODE
    assert saving.graphs == ("graph-0", "graph-1")
    assert saving.groups == (saving.graphs,)
    assert describe_saving(saving).endswith("(2 graphs); a switch costs up to 2.38 ms")
    # If another process hides the growth, 2,000 nodes of 3 KiB are 5.86 MiB.
    others_grew = make_ledger(process_used_bytes=590 * MIB)
    assert savings_of(others_grew)[SavingAction.SHARE].bytes == 4 * MIB
    others = replace(saving, groups=(*saving.groups, ("graph-2", "graph-3")))
    assert "(2 graphs in 2 groups)" in describe_saving(others)


def test_all_but_one_collection_can_be_saved() -> None:
    saving = savings_of(make_ledger())[SavingAction.FREEZE]
    assert (saving.ns, saving.basis) == (40 * MS, SavingBasis.MEASUREMENT)
    # One right before the first capture belongs to the captures, an earlier one does not.
    before = (
        span(SpanKind.GC, 2_900, 2_960, "generation 2"),
        span(SpanKind.GC, 2_700, 2_730, "generation 2"),
    )
    more = savings_of(make_ledger(spans=(*SPANS, *before)))[SavingAction.FREEZE]
    assert more.ns == (60 + 50 + 40 - 60) * MS


def test_eager_loading_is_compared_with_lazy_loading_elsewhere() -> None:
    samples = tuple(
        replace(s, device_used_bytes=s.device_used_bytes + 1_000 * MIB) for s in SAMPLES
    )
    saving = savings_of(make_ledger(module_loading="eager", samples=samples))[
        SavingAction.LAZY_LOADING
    ]
    size = (1_500 + 140) * MIB - LAZY_OUTSIDE_BYTES
    # The context loaded 976 MiB in 160 ms.
    rate = (300 * MS - LAZY_CONTEXT_NS) / (1_500 * MIB - LAZY_CONTEXT_BYTES)
    assert (saving.bytes, saving.ns) == (size, round(size * rate))
    assert SavingAction.LAZY_LOADING not in savings_of(make_ledger(samples=samples))


def test_unused_graphs_cost_their_memory_and_their_warm_up() -> None:
    recorded = tuple(
        RecordedGraph(name, (), 0, 0, NODES[name], int(name == "graph-0"), 0, False, True)
        for name in GRAPHS
    )
    recording = Recording(
        None, None, 0, 0, 0, (), None, 0, None, False, 0, recorded, reached_end=True
    )
    saving = savings_of(make_ledger(), recording)[SavingAction.UNUSED_GRAPHS]
    assert saving.graphs == ("graph-1", "graph-2")
    graphs = build_graph_ledgers(make_run(make_ledger()))
    assert (saving.bytes, saving.ns) == sum_without(graphs, saving.graphs, {})
    # 20 and 4 MiB of pools, and 3 of 5 nodes of 6 MiB of executables.
    assert saving.bytes == 24 * MIB + 6 * MIB * 3 // 5 + 1
    assert saving.ns == (3_510 - 3_150) * MS


def test_kernels_that_other_graphs_need_are_loaded_anyway() -> None:
    rows = build_graph_ledgers(make_run(make_ledger()))
    first, slow, usual = (
        replace(row, total_ns=time * MS) for row, time in zip(rows, (0, 150, 50), strict=True)
    )
    graphs = (first, slow, replace(usual, graph="graph-2"), replace(usual, graph="graph-3"))
    new = frozenset({"first", "second", "third", "fourth"})
    kernels = {"graph-0": frozenset({"common"}), "graph-1": new | {"common"}}
    assert sum_without(graphs, ("graph-1",), kernels)[1] == 150 * MS
    # Another graph needs one of the four kernels that took 100 ms to load.
    kernels["graph-3"] = frozenset({"common", "second"})
    assert sum_without(graphs, ("graph-1",), kernels)[1] == 125 * MS
    # It is not needed if both are omitted.
    assert sum_without(graphs, ("graph-1", "graph-3"), kernels)[1] == (150 + 50) * MS


def test_the_first_graph_of_each_function_costs_what_another_would() -> None:
    ledger = make_ledger()
    begins = {span.name: span for span in ledger.spans if span.kind is SpanKind.CAPTURE}
    functions = tuple(
        replace(begins[first], kind=SpanKind.CAPTURES, name="", end_ns=begins[last].end_ns)
        for first, last in (("graph-0", "graph-0"), ("graph-1", "graph-2"))
    )
    rows = build_graph_ledgers(make_run(replace(ledger, spans=ledger.spans + functions)))
    assert [row.function for row in rows] == [0, 1, 1]
    # graph-2 would be compiled for, and loaded, at the place of graph-1.
    assert sum_without(rows, ("graph-1",), {}) == (0, 0)
    plain = build_graph_ledgers(make_run(ledger))
    assert sum_without(rows, GRAPHS[1:], {}) == sum_without(plain, GRAPHS[1:], {})
    assert sum_without(rows, ("graph-2",), {}) == sum_without(plain, ("graph-2",), {}) != (0, 0)


def test_savings_are_ranked_by_their_share() -> None:
    ledger = with_graphs(pool=(0, 2))
    run = make_run(ledger)
    rows = find_savings(
        run, build_memory_ledger(ledger), build_startup_ledger(ledger), build_graph_ledgers(run)
    )
    actions = [row.action for row in rows]
    assert actions.index(SavingAction.ONE_POOL) < actions.index(SavingAction.FREEZE)
    assert find_savings(run, None, build_startup_ledger(ledger), ()) == ()


@pytest.mark.parametrize("graphs", [(), GRAPHS])
def test_the_first_graph_cannot_be_saved(graphs: tuple[str, ...]) -> None:
    rows = build_graph_ledgers(make_run(make_ledger()))
    assert sum_without(rows, ("graph-0",), {}) == (0, 0)
    assert sum_without(rows[:1], graphs, {}) == (0, 0)
    assert rows[0].pool == POOL
