"""Parts of the device memory add up at each moment, and each byte has one part."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from graphviz_dash.analysis.ledger.memory import (
    LedgerPart,
    build_memory_ledger,
    name_library,
)
from graphviz_dash.features.ledger.narrative import describe_workspaces
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.ledger import GraphStart, SampleKind, SpanKind
from tests.ledgers import MIB, MS, POOL, SAMPLES, STATE, make_ledger, sample, span
from tests.samples_once import SAMPLES as SAMPLE_FOLDER

OUTSIDE_PARTS = frozenset(
    {
        LedgerPart.OTHER_PROCESSES,
        LedgerPart.CONTEXT,
        LedgerPart.KERNELS,
        LedgerPart.NCCL,
        LedgerPart.EXECUTABLES,
        LedgerPart.REMAINDER,
    }
)


def parts_in_mib(number: int) -> dict[str, int]:
    built = build_memory_ledger(make_ledger())
    assert built is not None
    return {part.value: size // MIB for part, size in built.moments[number].parts.items()}


def test_the_first_sample_is_the_context_and_what_was_there_before() -> None:
    assert parts_in_mib(0) == {"other processes": 10, "CUDA context": 500}


def test_growth_before_the_captures_is_kernels_and_libraries() -> None:
    assert parts_in_mib(1) == {
        "other processes": 10,
        "CUDA context": 500,
        "kernels and libraries": 90,
        "allocations": 270,
        "allocator, free": 30,
    }


def test_after_the_start_up_all_parts_are_known() -> None:
    assert parts_in_mib(11) == {
        "other processes": 10,
        "CUDA context": 500,
        "kernels and libraries": 140,
        "executable graphs": 6,
        "weights": 200,
        "other tensors": 48,
        "library workspaces": 32,
        "allocator, free": 40,
        "graph pools": 124,
    }


def test_later_growth_has_no_known_cause() -> None:
    assert parts_in_mib(12)["remainder"] == 4


def test_growth_is_listed_by_what_ran() -> None:
    built = build_memory_ledger(make_ledger())
    assert built is not None
    rows = {(g.part, g.cause, g.is_graph): g.bytes // MIB for g in built.growths}
    assert rows == {
        (LedgerPart.CONTEXT, "", False): 500,
        (LedgerPart.KERNELS, "load", False): 90,
        (LedgerPart.KERNELS, "in a thread", False): 40,
        (LedgerPart.OTHER_PROCESSES, "", False): 10,
        (LedgerPart.KERNELS, "graph-0", True): 10,
        (LedgerPart.EXECUTABLES, "graph-2", True): 4,
        (LedgerPart.REMAINDER, "", False): 4,
        (LedgerPart.EXECUTABLES, "graph-0", True): 2,
    }


def test_growth_during_a_capture_has_one_cause() -> None:
    samples = (
        *SAMPLES[:4],
        sample(3_110, SampleKind.PERIODIC, 656, 420),
        sample(3_120, SampleKind.CAPTURE_END, 662, 420, 100, "graph-0"),
    )
    spans = (span(SpanKind.CAPTURE, 3_050, 3_120, "graph-0"),)
    built = build_memory_ledger(make_ledger(samples=samples, spans=spans))
    assert built is not None
    rows = [g for g in built.growths if g.cause == "graph-0"]
    assert [(g.part, g.is_graph) for g in rows] == [(LedgerPart.KERNELS, True)]


def test_a_process_group_is_its_own_part() -> None:
    spans = (span(SpanKind.NCCL, 2_050, 2_450, "init_process_group"),)
    built = build_memory_ledger(make_ledger(spans=spans))
    assert built is not None
    assert built.moments[1].parts[LedgerPart.NCCL] == 90 * MIB


def test_growth_seen_during_an_instantiation_is_the_executable() -> None:
    samples = (*SAMPLES[:4], sample(3_130, SampleKind.PERIODIC, 652, 420))
    spans = (
        span(SpanKind.CAPTURES, 2_500, 4_000, "capture_model"),
        span(SpanKind.INSTANTIATE, 3_120, 3_140, "graph-0"),
    )
    built = build_memory_ledger(make_ledger(samples=samples, spans=spans))
    assert built is not None
    assert built.moments[-1].parts[LedgerPart.EXECUTABLES] == 2 * MIB
    (growth,) = (g for g in built.growths if g.part is LedgerPart.EXECUTABLES)
    assert (growth.cause, growth.is_graph, growth.bytes) == ("graph-0", True, 2 * MIB)


def test_no_part_releases_more_than_it_has() -> None:
    samples = (
        *SAMPLES[:5],
        sample(3_160, SampleKind.GRAPH_DROP, 640, 320, 0, "graph-0"),
    )
    built = build_memory_ledger(make_ledger(samples=samples))
    assert built is not None
    last = built.moments[-1].parts
    assert LedgerPart.EXECUTABLES not in last
    assert last[LedgerPart.REMAINDER] == -10 * MIB


def test_end_and_peak_of_the_start_up() -> None:
    built = build_memory_ledger(make_ledger())
    assert built is not None
    assert built.end_of_startup.kind is SampleKind.STARTUP_END
    assert built.peak.used == 1_110 * MIB
    assert build_memory_ledger(make_ledger(samples=(), states=())) is None


def test_other_processes_that_change_are_noticed() -> None:
    for own, change in ((1_090, 0), (1_080, 0), (590, 500), (None, None)):
        used = None if own is None else own * MIB
        built = build_memory_ledger(make_ledger(process_used_bytes=used))
        assert built is not None
        assert built.others_change == (None if change is None else change * MIB)
        causes = {growth.part for growth in built.growths}
        assert (LedgerPart.KERNELS in causes) == (not change)
        assert all(sum(moment.parts.values()) == moment.used for moment in built.moments)


def test_operators_name_their_libraries() -> None:
    operators = ("aten.addmm.default", "aten.convolution.default", "aten.add_.Tensor")
    assert [name_library(each) for each in operators] == ["cuBLAS", "cuDNN", "PyTorch"]
    assert name_library("aten._scaled_dot_product_flash_attention.default") == "attention"


kinds = st.sampled_from([kind for kind in SampleKind if kind is not SampleKind.CONTEXT])
rows = st.lists(
    st.tuples(kinds, st.integers(0, 2_000), st.integers(0, 2_000), st.floats(0, 1)), max_size=12
)


@given(rows, st.integers(0, 4_000), st.integers(0, 600))
def test_parts_add_up_at_every_moment(
    drawn: list[tuple[SampleKind, int, int, float]], end: int, before: int
) -> None:
    samples = [sample(0, SampleKind.CONTEXT, 500)]
    for number, (kind, outside, reserved, share) in enumerate(drawn):
        pools = int(reserved * share)
        samples.append(sample(100 * number, kind, outside, reserved, pools, "graph-1"))
    states = tuple(state for state in make_ledger().states if state.sample < len(samples))
    ledger = make_ledger(
        samples=tuple(samples),
        states=states,
        startup_end_ns=end * 1_000_000,
        used_before_bytes=before * MIB,
    )
    built = build_memory_ledger(ledger)
    assert built is not None
    for moment, taken in zip(built.moments, samples, strict=True):
        assert sum(moment.parts.values()) == taken.device_used_bytes == moment.used
        outside = sum(size for part, size in moment.parts.items() if part in OUTSIDE_PARTS)
        assert outside == taken.outside_bytes
        inside = [size for part, size in moment.parts.items() if part not in OUTSIDE_PARTS]
        assert all(size > 0 for size in inside)
    last = built.moments[-1]
    assert sum(growth.bytes for growth in built.growths) == samples[-1].outside_bytes
    assert last.used == samples[-1].device_used_bytes


def test_a_frozen_collector_makes_no_workspaces() -> None:
    """The garbage collector does not list frozen objects, so the owners of weights are unknown."""
    ledgers = {}
    for name in ("wasteful", "frugal"):
        run = load_run(SAMPLE_FOLDER / "recorded-decoder" / name)
        assert run.ledger is not None
        ledgers[name] = build_memory_ledger(run.ledger)
    wasteful, frugal = ledgers["wasteful"], ledgers["frugal"]
    assert wasteful is not None
    assert frugal is not None
    owners = wasteful.end_of_startup.parts
    weights = owners[LedgerPart.WEIGHTS] + owners[LedgerPart.TENSORS]
    # Both programs have the same model and cache.
    assert abs(frugal.end_of_startup.parts[LedgerPart.ALLOCATIONS] - weights) < MIB
    before = next(item for item in frugal.moments if item.kind is SampleKind.CAPTURE_BEGIN)
    assert before.parts[LedgerPart.WORKSPACES] < 33 * MIB
    assert LedgerPart.ALLOCATIONS not in owners


def test_workspaces_belong_to_streams() -> None:
    run = load_run(SAMPLE_FOLDER / "recorded-decoder" / "wasteful")
    assert run.ledger is not None
    ledger = build_memory_ledger(run.ledger)
    assert ledger is not None
    assert len(ledger.workspaces) == 6
    total = sum(item.bytes for item in ledger.workspaces)
    assert total == ledger.end_of_startup.parts[LedgerPart.WORKSPACES]
    assert describe_workspaces(ledger) == "Library workspaces: 32.0 MiB for each of 6 streams."
    first, *others = ledger.workspaces
    similar = replace(ledger, workspaces=(replace(first, bytes=first.bytes + 512), *others))
    assert describe_workspaces(similar) == describe_workspaces(ledger)


def test_memory_that_failed_captures_left_is_a_part_until_the_pools_shrink() -> None:
    samples = (
        sample(1, SampleKind.CONTEXT, 500),
        sample(2, SampleKind.CAPTURE_BEGIN, 500, 10, 0, "graph-0"),
        sample(3, SampleKind.INSTANTIATION, 500, 110, 100, "graph-0"),
        sample(4, SampleKind.CAPTURE_BEGIN, 500, 110, 100, "graph-1"),
        sample(5, SampleKind.INSTANTIATION, 500, 130, 120, "graph-1"),
        sample(6, SampleKind.STARTUP_END, 500, 130, 120),
        sample(7, SampleKind.END, 500, 40, 30),
    )
    graphs = (
        GraphStart("graph-0", None, 0, None, failure=True),
        GraphStart("graph-1", POOL, 0, 6 * MS),
    )
    built = build_memory_ledger(make_ledger(samples=samples, graphs=graphs, states=()))
    assert built is not None
    pools = [
        tuple(
            moment.parts.get(part, 0) // MIB for part in (LedgerPart.FAILED_POOLS, LedgerPart.POOLS)
        )
        for moment in built.moments
    ]
    assert pools == [(0, 0), (0, 0), (100, 0), (100, 0), (100, 20), (100, 20), (30, 0)]
    assert all(sum(moment.parts.values()) == moment.used for moment in built.moments)


def test_a_later_capture_into_the_same_pool_uses_what_a_failed_one_left() -> None:
    graphs = (
        GraphStart("graph-0", POOL, 0, None, failure=True),
        GraphStart("graph-1", POOL, 0, 3_602 * MS),
        GraphStart("graph-2", POOL, 0, None),
    )
    built = build_memory_ledger(make_ledger(graphs=graphs))
    assert built is not None
    assert not any(LedgerPart.FAILED_POOLS in moment.parts for moment in built.moments)


def test_growth_of_other_processes_is_no_part_of_this_one() -> None:
    others = (10, 10, 4_010, 4_010, 2_010)
    samples = tuple(
        replace(item, others_bytes=other * MIB)
        for item, other in zip(
            (
                sample(1, SampleKind.CONTEXT, 510),
                sample(2, SampleKind.PERIODIC, 540, 20),
                sample(3, SampleKind.PERIODIC, 4_560, 40),
                sample(4, SampleKind.STARTUP_END, 4_560, 60),
                sample(5, SampleKind.END, 2_560, 60),
            ),
            others,
            strict=True,
        )
    )
    ledger = make_ledger(samples=samples, states=(), graphs=(), process_used_bytes=1)
    built = build_memory_ledger(ledger)
    assert built is not None
    assert built.others_change == 0
    shares = [
        tuple(
            moment.parts.get(part, 0) // MIB
            for part in (LedgerPart.OTHER_PROCESSES, LedgerPart.CONTEXT, LedgerPart.KERNELS)
        )
        for moment in built.moments
    ]
    own = [(500, 0), (500, 30), (500, 50), (500, 50), (500, 50)]
    assert shares == [(other, *parts) for other, parts in zip(others, own, strict=True)]
    assert all(sum(moment.parts.values()) == moment.used for moment in built.moments)
    assert built.own_bytes == 610 * MIB


def test_free_memory_in_partly_used_segments_is_fragmentation() -> None:
    pools = tuple(replace(pool, split_bytes=4 * MIB) for pool in STATE.pools)
    built = build_memory_ledger(make_ledger(states=(replace(STATE, pools=pools),)))
    assert built is not None
    before, after = built.moments[1].parts, built.moments[11].parts
    assert LedgerPart.FRAGMENTATION not in before
    assert after[LedgerPart.FRAGMENTATION] == 8 * MIB
    assert after[LedgerPart.FREE] == 32 * MIB
    assert sum(after.values()) == built.moments[11].used
