from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from graphviz_dash.analysis.ledger.fit import (
    FitChange,
    FitPrediction,
    find_graph_sizes,
    predict_fit,
)
from graphviz_dash.analysis.ledger.memory import LedgerPart
from graphviz_dash.analysis.ledger.report import build_ledger_report, predict_report
from graphviz_dash.features.ledger.narrative import describe_fit
from graphviz_dash.model.ledger import AllocatorBlocks, LayerGroup, ReservedPool, TensorGroup
from graphviz_dash.model.loop import FamilyMember, GraphFamily, KeyMethod, LoopSteps, ProgramLoop
from graphviz_dash.model.memory import Owner
from graphviz_dash.model.run import ExecutionMode, Run, WorkloadInfo
from tests.experiments import captured_graph, manifest
from tests.ledgers import GRAPHS, MIB, POOL, STATE, make_ledger
from tests.loops import layer_work

SIZES = {"graph-0": 32, "graph-1": 8, "graph-2": 1}
END = replace(
    STATE,
    sample=12,
    pools=(*STATE.pools, ReservedPool(POOL, 2, 3, 124 * MIB, 0, 110 * MIB)),
    blocks=(*STATE.blocks, AllocatorBlocks(POOL, 2, Owner.UNOWNED, 1, 32 * MIB)),
)


def make_run() -> Run:
    graphs = tuple(captured_graph(layer_work(100, 4), name) for name in GRAPHS)
    members = tuple(FamilyMember((SIZES[name],), KeyMethod.SHAPES, (name,)) for name in GRAPHS)
    family = GraphFamily("decode", (), ("tokens",), 0, None, members)
    steps = LoopSteps(*[()] * len(LoopSteps.__struct_fields__))
    loop = ProgramLoop((family,), (), steps, 0, 0, 0)
    workload = WorkloadInfo("server.py", "server.py", None, 0, 0, 0)
    return Run(
        path=Path("run"),
        manifest=manifest(ExecutionMode.RECORDED, workload),
        graphs=graphs,
        ledger=make_ledger(states=(STATE, END)),
        loop=loop,
    )


def fit(change: FitChange) -> FitPrediction:
    run = make_run()
    report = build_ledger_report(run)
    assert report is not None
    assert report.memory is not None
    found = predict_fit(run, report.memory, report.startup, report.graphs, change)
    assert found is not None
    return found


def in_mib(found: FitPrediction, part: LedgerPart) -> int:
    return found.parts[part] // MIB


def test_without_a_change_the_recording_is_the_prediction() -> None:
    found = fit(FitChange())
    assert found.used == 1_100 * MIB
    assert found.startup_ns == 3_602_000_000
    assert found.total == 80_000 * MIB


def test_layers_scale_tensors_that_each_layer_has() -> None:
    found = fit(FitChange(layers=(4, 8)))
    # 20 weights and 4 caches: each a multiple of 4.
    assert in_mib(found, LedgerPart.WEIGHTS) == 400
    assert in_mib(found, LedgerPart.TENSORS) == 96
    other = fit(FitChange(layers=(5, 10)))
    assert in_mib(other, LedgerPart.WEIGHTS) == 400
    assert in_mib(other, LedgerPart.TENSORS) == 48


def test_dimensions_scale_the_tensors_that_have_them() -> None:
    found = fit(FitChange(dimensions=((512, 2_048), (16, 8))))
    assert in_mib(found, LedgerPart.TENSORS) == 48 * 4 // 2
    assert in_mib(found, LedgerPart.WEIGHTS) == 200


def test_pools_follow_the_largest_size_without_their_workspaces() -> None:
    assert find_graph_sizes(make_run()) == SIZES
    found = fit(FitChange(sizes=(64, 8, 1)))
    assert in_mib(found, LedgerPart.POOLS) == 32 + 2 * (124 - 32)
    assert in_mib(fit(FitChange(sizes=(32, 1))), LedgerPart.POOLS) == 124


def test_more_graphs_need_more_executables_and_more_time() -> None:
    found = fit(FitChange(sizes=tuple(range(1, 33))))
    # 32 instead of 3 graphs of 100 nodes, in chunks of 2 MiB.
    assert in_mib(found, LedgerPart.EXECUTABLES) == 6 + 8
    assert found.startup_ns > 3_602_000_000
    assert found.startup_error_ns > 0


def test_the_verdict_names_the_excess() -> None:
    run = make_run()
    report = build_ledger_report(run)
    assert report is not None
    assert report.memory is not None
    small = replace(report.memory, total=1_000 * MIB)
    change = FitChange(layers=(4, 8))
    found = predict_fit(run, small, report.startup, report.graphs, change)
    assert found is not None
    assert found.excess == found.used - 1_000 * MIB
    assert "does not fit in 0.977 GiB by 348 MiB" in describe_fit(found)
    assert "fits in 78.1 GiB with" in describe_fit(fit(change))
    near = replace(found, total=found.used - MIB)
    assert "within the error of the prediction" in describe_fit(near)


def test_without_the_content_of_the_allocator_nothing_is_predicted() -> None:
    run = make_run()
    report = build_ledger_report(run)
    assert report is not None
    assert report.memory is not None
    assert run.ledger is not None
    empty = Run(path=run.path, manifest=run.manifest, ledger=replace(run.ledger, states=()))
    found = predict_fit(empty, report.memory, report.startup, report.graphs, FitChange())
    assert found is None


@pytest.mark.parametrize("factor", [1, 2, 4])
@given(st.integers(1, 8))
def test_more_of_anything_never_needs_less(factor: int, layers: int) -> None:
    small = fit(FitChange(layers=(4, 4 * layers), dimensions=((512, 512),)))
    large = fit(FitChange(layers=(4, 4 * layers), dimensions=((512, 512 * factor),)))
    assert large.used >= small.used
    assert all(size > 0 for size in large.parts.values())


def test_ranks_share_matrices_and_caches_of_layers() -> None:
    norms = TensorGroup(Owner.WEIGHTS, (1024,), 2, 8, 2 * MIB)
    inputs = TensorGroup(Owner.TENSORS, (3, 512), 8, 3, 6 * MIB)
    state = replace(
        STATE,
        layers=(LayerGroup("Layer", 4, 160 * MIB),),
        tensors=(*STATE.tensors, norms, inputs),
    )
    change = FitChange(ranks=(1, 4))
    run = replace(make_run(), ledger=make_ledger(states=(state, END)))
    report = build_ledger_report(run)
    assert report is not None
    found = predict_report(run, report, change)
    assert found is not None
    # 150 of 200 MiB of matrices, and 36 of 48 MiB of caches, are on other ranks.
    assert in_mib(found, LedgerPart.WEIGHTS) == 50
    assert in_mib(found, LedgerPart.TENSORS) == 12
    assert found.error > fit(FitChange()).error
    assert "Excludes buffers of NCCL" in describe_fit(found)
    assert "NCCL" not in describe_fit(fit(FitChange(layers=(4, 8))))


def test_unknown_owners_widen_the_interval() -> None:
    run = replace(make_run(), ledger=make_ledger(states=()))
    report = build_ledger_report(run)
    assert report is not None
    assert report.memory is not None
    unknown = report.memory.end_of_startup.parts[LedgerPart.ALLOCATIONS]
    known = fit(FitChange(layers=(8, 8)))
    run = make_run()
    recorded = build_ledger_report(run)
    assert recorded is not None
    found = predict_fit(
        run, report.memory, recorded.startup, recorded.graphs, FitChange(layers=(8, 8))
    )
    assert found is not None
    assert found.error >= known.error + unknown - MIB
