"""Real sizes of steps by the bytes that were copied into static inputs before their replays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace as replace_tables

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from graphviz_dash.analysis.loop.copied_sizes import can_infer_sizes, infer_copied_sizes
from graphviz_dash.analysis.loop.family_report import LoopReport, build_loop_report
from graphviz_dash.analysis.metrics.loop_columns import SizeSource
from graphviz_dash.features.ladder.narrative import describe_real_sizes
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.loop import (
    FamilyMember,
    GraphFamily,
    KeyMethod,
    LoopSteps,
    ProgramLoop,
    StepKind,
)
from graphviz_dash.model.marks import STEP, UNFINISHED_STEP
from graphviz_dash.model.trace import Trace
from tests.analysis.scenes import Scene, graph_of, kernel, memcpy
from tests.loops import Steps
from tests.samples import SAMPLES

LADDER = (1, 2, 4, 8, 16, 32)
REQUESTS = (3, 5, 1, 16, 30, 9, 2, 7, 13, 4)
ROW = 512

Copies = Callable[[int, int], Sequence[int]]


def rows_alone(real: int, padded: int) -> Sequence[int]:
    return [ROW * real]


def server(
    copies: Copies, requests: Sequence[int] = REQUESTS, ladder: Sequence[int] = LADDER
) -> tuple[ProgramLoop, Trace]:
    """A loop without known real sizes, and its trace.

    Each step replays two segments and copies as many bytes as ``copies`` returns for its real and
    padded size.
    """
    family = GraphFamily(
        "decode", ("server.py:1",), ("batch",), 0, None,
        tuple(FamilyMember((size,), KeyMethod.SHAPES, (f"a{size}", f"b{size}")) for size in ladder),
    )  # fmt: skip
    scene, steps = Scene(), Steps()
    graph = graph_of([kernel(0)])
    for number, real in enumerate(requests):
        padded = min(size for size in ladder if size >= real)
        now = (number + 1) * 1_000_000
        for place, size in enumerate(copies(real, padded)):
            at = now - 1_000 + 10 * place
            scene.work(memcpy(0, size), at + 5, scene.call("cudaMemcpyAsync", at))
        scene.replay(graph, now, [(0, 0, 7)])
        # Eager work between the segments copies too, and what comes out of a step is read.
        scene.work(memcpy(0, 64), now + 205, scene.call("cudaMemcpyAsync", now + 200))
        scene.replay(graph, now + 300, [(0, 0, 7)])
        scene.mark(f"{STEP}{number}", now - 10, now + 500)
        facts = {"kind": StepKind.SEGMENTS, "family": 0, "member": ladder.index(padded)}
        steps.add(400, 100, padded_size=padded, **facts)
    scene.mark(UNFINISHED_STEP, now + 600, now + 700)
    count = len(requests)
    loop = ProgramLoop((family,), (), steps.columns(), count, 0, tuple(range(count)))
    return loop, scene.trace()


def test_copies_of_another_process_are_not_of_the_step() -> None:
    loop, trace = server(rows_alone)
    calls = trace.runtime.filter(trace.runtime["name"].cast(str) == "cudaMemcpyAsync")
    work = trace.gpu.filter(trace.gpu["correlation"].is_in(calls["correlation"].to_list()))
    padded = [min(size for size in LADDER if size >= real) for real in REQUESTS]
    sizes = [ROW * REQUESTS[0], 64] + [size for at in padded[1:] for size in (ROW * at, 64)]
    other = pl.col("correlation") + 10_000
    mixed = replace_tables(
        trace,
        runtime=pl.concat(
            [trace.runtime, calls.with_columns(other, pid=pl.lit(2, pl.Int64), ts=calls["ts"] + 1)]
        ).sort("ts"),
        gpu=pl.concat([trace.gpu, work.with_columns(other, bytes=pl.Series(sizes))]).sort("ts"),
    )
    assert infer_copied_sizes(loop, mixed) == infer_copied_sizes(loop, trace) != {}


@settings(max_examples=20, deadline=None)
@given(
    width=st.integers(1, 20_000),
    requests=st.lists(st.integers(1, 32), min_size=12, max_size=40),
    ladder=st.sets(st.integers(1, 31), min_size=2, max_size=8),
)
def test_inferred_sizes_are_true_or_absent(
    width: int, requests: list[int], ladder: set[int]
) -> None:
    """Told or not: of sizes that have divisors in common another width may fit as well."""
    loop, trace = server(lambda real, _: [width * real], requests, [*sorted(ladder), 32])
    sizes = infer_copied_sizes(loop, trace)
    assert sizes in ({}, dict(enumerate(requests)))


def other_copies(real: int, padded: int) -> Sequence[int]:
    """Copies of constant size: as large as the padded size, and one more than the number of
    requests.
    """
    return [4_096, 8 * padded, 4 * (real + 1), ROW * real]


@pytest.mark.parametrize("copies", [rows_alone, other_copies])
def test_the_copies_in_one_place_tell(copies: Copies) -> None:
    loop, trace = server(copies)
    assert can_infer_sizes(loop)
    assert infer_copied_sizes(loop, trace) == dict(enumerate(REQUESTS))


@pytest.mark.parametrize(
    ("copies", "requests"),
    [
        (lambda real, padded: [], REQUESTS),
        (lambda real, padded: [4_096], REQUESTS),
        (lambda real, padded: [ROW * padded], REQUESTS),
        (lambda real, padded: [ROW * (40 - real)], REQUESTS),
        # Two sizes of graphs alone: a buffer of another size may fit them by chance.
        (rows_alone, (3, 4, 7, 3, 6, 8)),
    ],
    ids=["none", "constant", "padded before", "of something else", "few sizes"],
)  # fmt: skip
def test_sizes_without_evidence_in_copies_stay_unknown(
    copies: Copies, requests: Sequence[int]
) -> None:
    loop, trace = server(copies, requests)
    assert infer_copied_sizes(loop, trace) == {}


def test_two_widths_that_fit_tell_nothing() -> None:
    loop, trace = server(rows_alone, (128, 32, 8, 100), (2, 8, 32, 128))
    assert infer_copied_sizes(loop, trace) == {}
    loop, trace = server(rows_alone, (128, 32, 8, 100, 33), (2, 8, 32, 128))
    assert infer_copied_sizes(loop, trace) == {0: 128, 1: 32, 2: 8, 3: 100, 4: 33}


def test_steps_in_several_threads_are_not_told() -> None:
    loop, trace = server(rows_alone)
    threads = tuple(number % 2 for number in range(len(REQUESTS)))
    steps = msgspec.structs.replace(loop.steps, thread=threads)
    assert infer_copied_sizes(msgspec.structs.replace(loop, steps=steps), trace) == {}


def test_the_shipped_server_without_its_labels() -> None:
    """The true sizes are known by its labels."""
    run = load_run(SAMPLES / "recorded-server" / "vllm-sizes")
    assert run.loop is not None
    assert run.replay_trace is not None
    assert not can_infer_sizes(run.loop)
    real = run.loop.steps.real_size
    masked = msgspec.structs.replace(
        run.loop, steps=msgspec.structs.replace(run.loop.steps, **unknown(run.loop.steps))
    )
    sizes = infer_copied_sizes(masked, run.replay_trace)
    assert len(sizes) == 40
    assert all(real[row] == size for row, size in sizes.items())
    report = build_loop_report(replace(run, loop=masked))
    assert isinstance(report, LoopReport)
    (family,) = report.families
    assert family.real_sizes == ((SizeSource.COPIES, 40),)
    assert describe_real_sizes(family).startswith(
        "Real sizes are known for 40 of 700 steps: copies"
    )


def unknown(steps: LoopSteps) -> dict[str, tuple[None, ...]]:
    nothing = (None,) * len(steps.real_size)
    return {"real_size": nothing, "size_method": nothing}
