from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from graphviz_dash.analysis.prediction import capture_blockers as capture_blockers_module
from graphviz_dash.analysis.prediction.capture_blockers import Blocker, find_capture_blockers
from graphviz_dash.analysis.prediction.eager_step import EagerStep, build_eager_step
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.model.doctor import RuleId
from graphviz_dash.model.marks import MODULE, SOURCE, STEP
from graphviz_dash.narrative.prediction import format_evidence
from tests.trace_builder import TraceBuilder

STEP_NS = 200_000
Extra = Callable[[TraceBuilder, int], None]


def nothing(trace: TraceBuilder, at: int) -> None:
    """A step that breaks no rule."""


def op(trace: TraceBuilder, name: str, at: int, calls: list[str], copy: str | None = None) -> None:
    """An operator with calls in it, of which copies run on the GPU under the name ``copy``."""
    external = trace.op(name, at, 20_000)
    for place, call in enumerate(calls):
        begin = at + 1_000 + place * 5_000
        correlation = trace.runtime(call, begin, 3_000, external_id=external)
        if copy and "Memcpy" in call:
            trace.memcpy(copy, begin + 2_000, 1_000, bytes=4, correlation=correlation)


def item(trace: TraceBuilder, at: int) -> None:
    trace.annotation(f"{MODULE}net.head", at - 2_000, 30_000)
    trace.annotation(f"{SOURCE}train.py:7", at - 1_000, 28_000)
    outer = ["cudaMemcpyAsync", "cudaStreamSynchronize"]
    op(trace, "aten::_local_scalar_dense", at, outer, "Memcpy DtoH (Device -> Pageable)")


def nonzero(trace: TraceBuilder, at: int) -> None:
    calls = ["cudaMemcpyAsync", "cudaStreamSynchronize"]
    op(trace, "aten::nonzero", at, calls, "Memcpy DtoH (Device -> Pinned)")


def to_cpu(trace: TraceBuilder, at: int) -> None:
    calls = ["cudaMemcpyAsync", "cudaStreamSynchronize"]
    op(trace, "aten::copy_", at, calls, "Memcpy DtoH (Device -> Pageable)")


def from_pageable(trace: TraceBuilder, at: int) -> None:
    op(trace, "aten::copy_", at, ["cudaMemcpyAsync"], "Memcpy HtoD (Pageable -> Device)")


def from_pinned(trace: TraceBuilder, at: int) -> None:
    op(trace, "aten::copy_", at, ["cudaMemcpyAsync"], "Memcpy HtoD (Pinned -> Device)")


def synchronize(trace: TraceBuilder, at: int) -> None:
    trace.runtime("cudaDeviceSynchronize", at, 9_000)


def grows(trace: TraceBuilder, at: int) -> None:
    op(trace, "aten::empty", at, ["cudaMalloc"])


def allocates(trace: TraceBuilder, at: int) -> None:
    trace.runtime("cudaMalloc", at, 9_000)


def asynchronous(trace: TraceBuilder, at: int) -> None:
    trace.runtime("cudaMallocAsync", at, 2_000)


def adam(trace: TraceBuilder, at: int) -> None:
    trace.annotation("Optimizer.step#Adam.step", at, 30_000)
    trace.op("aten::item", at + 1_000, 2_000)


def adam_capturable(trace: TraceBuilder, at: int) -> None:
    trace.annotation("Optimizer.step#Adam.step", at, 30_000)
    trace.op("aten::add_", at + 1_000, 2_000)


def traced(
    tmp_path: Path, extra: Extra, steps: int = 3, kernels: Callable[[int], int] = lambda step: 2
) -> tuple[Blocker, ...]:
    trace = TraceBuilder()
    for number in range(steps):
        at = number * STEP_NS
        for place in range(kernels(number)):
            begin = at + 1_000 + place * 10_000
            correlation = trace.runtime("cudaLaunchKernel", begin, 4_000)
            trace.kernel("gemm", begin + 6_000, 2_000, correlation=correlation)
        extra(trace, at + 60_000)
        correlation = trace.runtime("cudaLaunchKernel", at + 120_000, 4_000)
        trace.kernel("last", at + 130_000, 2_000, correlation=correlation, grid=(1, 1, 1))
        trace.runtime("cudaDeviceSynchronize", at + 150_000, 3_000)
        trace.annotation(f"{STEP}{number}", at, 160_000)
    read = read_trace(trace.write(tmp_path / "trace.json"))
    step = build_eager_step(read)
    assert isinstance(step, EagerStep)
    return find_capture_blockers(read, step)


@pytest.mark.parametrize("extra", [nothing, from_pinned, asynchronous, adam_capturable])
def test_allowed_calls_are_no_blockers(tmp_path: Path, extra: Extra) -> None:
    assert traced(tmp_path, extra) == ()


@pytest.mark.parametrize(
    ("extra", "rule", "seen"),
    [
        (item, RuleId.SYNC_VALUE, "Device -> Pageable"),
        (nonzero, RuleId.SYNC_SHAPE, "cudaStreamSynchronize"),
        (to_cpu, RuleId.SYNC_COPY, "Device -> Pageable"),
        (from_pageable, RuleId.UNPINNED_COPY, "Pageable -> Device"),
        (synchronize, RuleId.SYNC_CALL, "cudaDeviceSynchronize"),
        (allocates, RuleId.FORBIDDEN_CALL, "cudaMalloc"),
    ],
)
def test_each_rule_is_found(tmp_path: Path, extra: Extra, rule: RuleId, seen: str) -> None:
    (found,) = traced(tmp_path, extra)
    assert found.rule.id is rule
    assert found.certain
    assert seen in format_evidence(found.evidence)
    assert (found.count, found.steps) == (1, 3)
    assert found.cpu_ns > 0


def test_a_finding_names_its_operator_module_and_line(tmp_path: Path) -> None:
    (found,) = traced(tmp_path, item)
    assert found.op == "aten::_local_scalar_dense"
    assert found.module == "net.head"
    assert found.source == "train.py:7"
    assert found.cpu_ns == 6_000


def test_a_few_steps_at_a_time_or_all_at_once_the_findings_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = traced(tmp_path, item, steps=7)
    monkeypatch.setattr(capture_blockers_module, "_OPS_PER_BATCH", 1)
    apart = traced(tmp_path, item, steps=7)
    assert apart == whole
    assert (whole[0].steps, whole[0].module, whole[0].source) == (7, "net.head", "train.py:7")


def test_the_allocator_may_grow_and_an_optimizer_is_only_suspected(tmp_path: Path) -> None:
    (grown,) = traced(tmp_path, grows)
    assert (grown.rule.id, grown.certain) == (RuleId.FORBIDDEN_CALL, False)
    (suspected,) = traced(tmp_path / "adam", adam)
    assert (suspected.rule.id, suspected.certain) == (RuleId.OPTIMIZER_CAPTURABLE, False)


def test_steps_that_differ_are_told_with_the_place(tmp_path: Path) -> None:
    (found,) = traced(tmp_path, nothing, kernels=lambda step: 3 if step == 2 else 2)
    assert found.rule.id is RuleId.CONTROL_FLOW
    assert found.certain
    assert format_evidence(found.evidence) == (
        "1 of 3 steps differs: 4 operations instead of 3, first gemm in place of last"
    )


def test_a_first_step_that_differs_may_still_warm_up(tmp_path: Path) -> None:
    (found,) = traced(tmp_path, nothing, kernels=lambda step: 3 if step == 0 else 2)
    assert not found.certain
    assert "may still warm up" in format_evidence(found.evidence)


def test_other_sizes_of_the_same_work_are_changing_shapes(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for number in range(3):
        at = number * STEP_NS
        correlation = trace.runtime("cudaLaunchKernel", at + 1_000, 4_000)
        grid = (1 + 7 * (number == 1), 1, 1)
        trace.kernel("gemm", at + 7_000, 2_000, correlation=correlation, grid=grid)
        trace.annotation(f"{STEP}{number}", at, 100_000)
    read = read_trace(trace.write(tmp_path / "trace.json"))
    step = build_eager_step(read)
    assert isinstance(step, EagerStep)
    (found,) = find_capture_blockers(read, step)
    assert found.rule.id is RuleId.CHANGING_SHAPE


@pytest.mark.parametrize("numbers", [(0, 1, 2), (0, 0, 0)])
def test_a_step_on_another_stream_is_the_same_work(
    tmp_path: Path, numbers: tuple[int, ...]
) -> None:
    trace = TraceBuilder()
    for place, number in enumerate(numbers):
        at = place * STEP_NS
        for launch, stream in enumerate((7, 13 if place == 1 else 7)):
            correlation = trace.runtime("cudaLaunchKernel", at + 1_000 + 9_000 * launch, 4_000)
            begin = at + 7_000 + 9_000 * launch
            trace.kernel("gemm", begin, 2_000, correlation=correlation, stream=stream)
        trace.annotation(f"{STEP}{number}", at, 100_000)
    read = read_trace(trace.write(tmp_path / "trace.json"))
    step = build_eager_step(read)
    assert isinstance(step, EagerStep)
    assert step.matching == (0, 2)
    assert find_capture_blockers(read, step) == ()


def test_waiting_before_the_first_launch_and_behind_the_last_blocks_nothing(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for step in range(3):
        at = step * STEP_NS
        trace.runtime("cudaDeviceSynchronize", at + 1_000, 3_000)
        for begin in (at + 10_000, at + 30_000):
            correlation = trace.runtime("cudaLaunchKernel", begin, 4_000)
            trace.kernel("gemm", begin + 6_000, 2_000, correlation=correlation)
        trace.runtime("cudaDeviceSynchronize", at + 60_000, 3_000)
        trace.annotation(f"ProfilerStep#{step}", at, 100_000)
    read = read_trace(trace.write(tmp_path / "trace.json"))
    step = build_eager_step(read)
    assert isinstance(step, EagerStep)
    assert find_capture_blockers(read, step) == ()


def test_a_loader_process_with_the_same_thread_number_is_another_thread(tmp_path: Path) -> None:
    def loads_elsewhere(trace: TraceBuilder, at: int) -> None:
        trace._pid, own = 999, trace._pid
        trace.op("aten::stack", at, 50_000)
        trace._pid = own
        trace.runtime("cudaStreamSynchronize", at + 40_000, 5_000)

    def loads_here(trace: TraceBuilder, at: int) -> None:
        trace.op("aten::stack", at, 50_000)
        trace.runtime("cudaStreamSynchronize", at + 40_000, 5_000)

    assert [blocker.op for blocker in traced(tmp_path, loads_here)] == ["aten::stack"]
    assert [blocker.op for blocker in traced(tmp_path, loads_elsewhere)] == [None]
