from __future__ import annotations

import pytest
from click.testing import CliRunner

from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.model.memory import GraphMemory, MemoryPass, Owner, PoolSegment, Stage

MIB = 1 << 20
LAYERS, HIDDEN, SEQUENCE, VOCABULARY = 3, 128, 64, 1024
PARAMETERS = (
    LAYERS * (12 * HIDDEN**2 + 13 * HIDDEN)
    + 2 * VOCABULARY * HIDDEN
    + SEQUENCE * HIDDEN
    + 2 * HIDDEN
)
TENSORS = LAYERS * 12 + 5
"""Tensors of the model, each rounded up to 512 bytes by the allocator."""


@pytest.fixture(scope="module")
def passes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, MemoryPass]:
    from collectors.collection.cli import collect

    output = tmp_path_factory.mktemp("memory") / "gpt"
    settings = {
        "layers": LAYERS,
        "hidden": HIDDEN,
        "sequence": SEQUENCE,
        "vocabulary": VOCABULARY,
    }
    result = CliRunner().invoke(
        collect,
        [
            "--workload=gpt-train",
            *(f"--set={name}={value}" for name, value in settings.items()),
            "--modes=eager,graph,partial",
            f"--output={output}",
            "--iterations=5",
            "--processes=1",
            "--traced-iterations=2",
        ],
    )
    assert result.exit_code == 0, result.output
    found = {mode: read_bundle(output / mode) for mode in ("eager", "graph", "partial")}
    assert found["eager"].manifest.workload.parameters == {
        **settings,
        "heads": 4,
        "microbatch": 2,
    }
    memory = {mode: bundle.memory_pass for mode, bundle in found.items()}
    assert all(memory.values())
    return {mode: part for mode, part in memory.items() if part}


def owned(found: MemoryPass, owner: Owner) -> int:
    return sum(part.bytes for part in found.owners_at_end if part.owner is owner)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["eager", "graph", "partial"])
def test_owners_have_the_bytes_of_the_model(passes: dict[str, MemoryPass], mode: str) -> None:
    found = passes[mode]
    weights = owned(found, Owner.WEIGHTS)
    assert 2 * PARAMETERS <= weights <= 2 * PARAMETERS + 512 * TENSORS
    assert owned(found, Owner.GRADIENTS) == weights
    # Two moments like the weights, and a step count of 512 bytes each.
    assert owned(found, Owner.OPTIMIZER) == 2 * weights + 512 * TENSORS


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["eager", "graph", "partial"])
def test_the_owners_add_up_to_the_allocator(passes: dict[str, MemoryPass], mode: str) -> None:
    found = passes[mode]
    assert [stage.stage for stage in found.stages] == list(Stage)
    last = found.stages[-1]
    assert sum(part.bytes for part in found.owners_at_end) == last.allocated_bytes
    peak = sum(part.bytes for part in found.owners_at_peak)
    assert peak == pytest.approx(last.peak_allocated_bytes, rel=0.02)
    assert last.reserved_bytes < last.device_used_bytes
    assert last.process_used_bytes is None or last.reserved_bytes < last.process_used_bytes


@pytest.mark.timeout(300)
def test_only_steps_that_allocate_have_transient_memory(passes: dict[str, MemoryPass]) -> None:
    transient = {
        mode: sum(part.bytes for part in found.owners_at_peak if part.owner is Owner.TRANSIENT)
        for mode, found in passes.items()
    }
    assert transient["graph"] == 0
    assert 0 < transient["partial"] < transient["eager"]


@pytest.mark.timeout(300)
def test_graphs_lie_in_their_pools(passes: dict[str, MemoryPass]) -> None:
    assert passes["eager"].segments == ()
    assert passes["eager"].graphs == ()
    (whole,) = passes["graph"].graphs
    assert 0 < whole.retained_bytes <= whole.peak_bytes <= covered(whole)
    parts = passes["partial"].graphs
    # Embedding, layers, norm and head, forward and backward each, in one pool.
    assert len(parts) == 2 * (LAYERS + 3)
    assert len({part.pool for part in parts}) == 1
    for found in passes.values():
        for graph in found.graphs:
            assert within(found.segments, graph)


def covered(graph: GraphMemory) -> int:
    return sum(extent.end - extent.start for extent in graph.extents)


def within(segments: tuple[PoolSegment, ...], graph: GraphMemory) -> bool:
    return all(
        extent.end <= segments[extent.segment].bytes and segments[extent.segment].pool == graph.pool
        for extent in graph.extents
    )


def test_two_graphs_of_one_pool_share_what_the_first_gave_back() -> None:
    import torch

    from collectors.allocator.history import read_segments
    from collectors.guard import Guard
    from collectors.ledger.recorder import LedgerRecorder
    from collectors.passes.capture_listener import record_captures
    from collectors.passes.memory import MemoryListener
    from graphviz_dash.model.memory import DEFAULT_POOL

    captures = MemoryListener(LedgerRecorder(Guard()))
    with record_captures(captures):
        x = torch.zeros(MIB, device="cuda")
        pool = torch.cuda.graph_pool_handle()
        first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(first, pool=pool):
            kept = x * 2
            passing = x * 3
            del passing
        with torch.cuda.graph(second, pool=pool):
            other = x * 4
        held = [segment for segment in read_segments() if segment.pool != DEFAULT_POOL]
    one, two = (capture.to_graph_memory(held) for capture in captures.done)
    assert one.pool == two.pool == tuple(pool)
    assert (one.allocations, two.allocations) == (2, 1)
    assert (covered(one), covered(two)) == (8 * MIB, 4 * MIB)
    assert (one.retained_bytes, one.peak_bytes) == (4 * MIB, 8 * MIB)
    (place,) = two.extents
    assert any(
        part.segment == place.segment and part.start <= place.start and place.end <= part.end
        for part in one.extents
    )
    del kept, other


def test_history_is_off_again() -> None:
    import torch

    from collectors.allocator.history import record_history

    with record_history() as history:
        torch.zeros(MIB, device="cuda")
    assert [event.is_free for event in history.events] == [False, True]
    assert history.events[0].size == 4 * MIB
    torch.zeros(MIB, device="cuda")
    assert not torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
