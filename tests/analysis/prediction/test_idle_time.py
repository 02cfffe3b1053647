from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.analysis.prediction.calibration import load_shipped_calibration
from graphviz_dash.analysis.prediction.eager_step import EagerStep, build_eager_step
from graphviz_dash.analysis.prediction.idle_time import IdleCause, IdleTime, analyse_idle_time
from graphviz_dash.analysis.prediction.predict import Prediction, Recommendation, predict
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.trace import Trace
from graphviz_dash.narrative.prediction import format_prediction_verdict
from tests.analysis.gap_bound import AT_MOST, compute_gap_bound
from tests.analysis.predictions import predicted
from tests.samples import SAMPLES
from tests.trace_builder import TraceBuilder

LONG_NS = 50_000_000
Between = Callable[[TraceBuilder, int], None]


def nothing(trace: TraceBuilder, at: int) -> None:
    """Python code without an event."""


def loader(trace: TraceBuilder, at: int) -> None:
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    trace.annotation(name, at, LONG_NS)


def frames(trace: TraceBuilder, at: int) -> None:
    trace.frame("transformers/pipelines/video_classification.py(129): preprocess", at, LONG_NS)
    trace.op("aten::copy_", at + 1_000, 40_000_000)


def blocking_copy(trace: TraceBuilder, at: int) -> None:
    correlation = trace.runtime("cudaMemcpyAsync", at, LONG_NS)
    copy = "Memcpy HtoD (Pageable -> Device)"
    trace.memcpy(copy, at + LONG_NS - 2_000, 1_000, bytes=4, correlation=correlation)


def waits(trace: TraceBuilder, at: int) -> None:
    trace.runtime("cudaDeviceSynchronize", at, LONG_NS)


def allocates(trace: TraceBuilder, at: int) -> None:
    trace.runtime("cudaMalloc", at, LONG_NS)


def profiles(trace: TraceBuilder, at: int) -> None:
    trace.frame("torch/profiler/profiler.py(811): step", at, LONG_NS)


def on_the_cpu(trace: TraceBuilder, at: int) -> None:
    trace.op("aten::sort", at, LONG_NS)


def many_launches(trace: TraceBuilder, at: int) -> None:
    for begin in range(at, at + LONG_NS, 900_000):
        correlation = trace.runtime("cudaLaunchKernel", begin, 4_000)
        trace.kernel("tiny", begin + 6_000, 1_000, correlation=correlation)


def slow_launches(trace: TraceBuilder, at: int) -> None:
    """Operators that launch, each after long on the CPU."""
    for begin in range(at, at + LONG_NS, 5_000_000):
        external = trace.op("aten::conv2d", begin, 5_000_000)
        call = begin + 4_900_000
        correlation = trace.runtime("cudaLaunchKernel", call, 4_000, external_id=external)
        trace.kernel("conv", call + 6_000, 1_000, correlation=correlation)


def slow_call(trace: TraceBuilder, at: int) -> None:
    """A launch that loads its code."""
    correlation = trace.runtime("hipLaunchKernel", at, LONG_NS - 10_000)
    trace.kernel("conv", at + LONG_NS - 5_000, 1_000, correlation=correlation)


def late_work(trace: TraceBuilder, at: int) -> None:
    """Work that was launched, and waits on the GPU."""
    correlation = trace.runtime("cudaLaunchKernel", at, 4_000)
    trace.kernel("conv", at + LONG_NS - 5_000, 1_000, correlation=correlation)


def a_trace(folder: Path, between: Between) -> Trace:
    """Two steps of two kernels each, and ``between`` them LONG_NS."""
    trace = TraceBuilder()
    for step in range(2):
        at = step * 2 * LONG_NS
        for begin in (at + 1_000, at + LONG_NS + 20_000):
            correlation = trace.runtime("cudaLaunchKernel", begin, 4_000)
            trace.kernel("gemm", begin + 6_000, 2_000, correlation=correlation)
        between(trace, at + 15_000)
        trace.annotation(f"ProfilerStep#{step}", at, LONG_NS + 40_000)
    return read_trace(trace.write(folder / "trace.json"))


def divided(trace: Trace) -> tuple[EagerStep, IdleTime]:
    step = build_eager_step(trace)
    assert isinstance(step, EagerStep)
    return step, analyse_idle_time(trace, step)


@pytest.mark.parametrize(
    ("between", "cause", "by"),
    [
        (nothing, IdleCause.OTHER, None),
        (loader, IdleCause.DATA, "DataLoader"),
        (frames, IdleCause.DATA, "preprocess"),
        (blocking_copy, IdleCause.WAITING, "cudaMemcpyAsync"),
        (waits, IdleCause.WAITING, "cudaDeviceSynchronize"),
        (allocates, IdleCause.LOADING, "cudaMalloc"),
        (profiles, IdleCause.PROFILER, "profiler.py"),
        (on_the_cpu, IdleCause.OTHER, "aten::sort"),
        (many_launches, IdleCause.LAUNCHING, None),
        (slow_launches, IdleCause.LOADING, "conv2d"),
        (slow_call, IdleCause.LOADING, "hipLaunchKernel"),
        (late_work, IdleCause.OTHER, None),
    ],
)
def test_the_cause_of_a_long_gap(
    tmp_path: Path, between: Between, cause: IdleCause, by: str | None
) -> None:
    _, idle = divided(a_trace(tmp_path, between))
    largest = idle.parts[0]
    assert largest.cause is cause
    assert largest.ns > 0.95 * LONG_NS
    assert (largest.source is None) if by is None else (by in (largest.source or ""))


@pytest.mark.parametrize("between", [loader, blocking_copy, on_the_cpu])
def test_idle_time_that_a_graph_keeps_bounds_the_speedup(tmp_path: Path, between: Between) -> None:
    found = predicted(a_trace(tmp_path, between))
    assert found.recommendation is not Recommendation.YES
    assert found.remaining_idle_ns > 0.95 * LONG_NS
    assert "of idle time remains with a graph" in format_prediction_verdict(found)


def test_a_copy_in_which_the_cpu_takes_part_is_no_launching(tmp_path: Path) -> None:
    def copies_late(trace: TraceBuilder, at: int) -> None:
        begin = at + LONG_NS // 2
        correlation = trace.runtime("cudaMemcpyAsync", begin, 2_000_000)
        copy = "Memcpy HtoD (Pageable -> Device)"
        trace.memcpy(copy, begin + 1_998_000, 1_000, bytes=4, correlation=correlation)

    _, idle = divided(a_trace(tmp_path, copies_late))
    ns = {part.cause: part.ns for part in idle.parts}
    assert ns[IdleCause.WAITING] == pytest.approx(1_998_000, rel=0.01)
    assert ns[IdleCause.LAUNCHING] < 100_000
    assert ns[IdleCause.OTHER] > LONG_NS - 2_100_000


def quick_steps(folder: Path, inside: Between) -> tuple[EagerStep, IdleTime]:
    """Steps of two kernels, 700 us apart, with ``inside`` between all launches."""
    trace = TraceBuilder()
    for step in range(2):
        for place in range(2):
            at = (2 * step + place) * 700_000
            inside(trace, at + 20_000)
            correlation = trace.runtime("cudaLaunchKernel", at + 690_000, 4_000)
            trace.kernel("gemm", at + 695_000, 2_000, correlation=correlation)
        trace.annotation(f"ProfilerStep#{step}", step * 1_400_000, 1_400_000)
    return divided(read_trace(trace.write(folder / "trace.json")))


def test_loading_of_data_remains_however_short_it_is(tmp_path: Path) -> None:
    """A public trace with launches within a millisecond of each other and the next batch between
    them: a prediction of 22x, while a graph saved half of the step."""

    def loads(trace: TraceBuilder, at: int) -> None:
        name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        trace.annotation(name, at, 500_000)

    _, idle = quick_steps(tmp_path, loads)
    ns = {part.cause: part.ns for part in idle.parts}
    assert ns.keys() == {IdleCause.DATA, IdleCause.LAUNCHING}
    assert ns[IdleCause.DATA] == 2 * 500_000


def test_preprocessing_on_the_gpu_is_launching(tmp_path: Path) -> None:
    def resizes(trace: TraceBuilder, at: int) -> None:
        trace.annotation("preprocess", at, 600_000)
        correlation = trace.runtime("cudaLaunchKernel", at + 300_000, 4_000)
        trace.kernel("resize", at + 305_000, 2_000, correlation=correlation)

    _, idle = quick_steps(tmp_path, resizes)
    assert [part.cause for part in idle.parts] == [IdleCause.LAUNCHING]


def test_other_python_is_not_named_after_another_cause(tmp_path: Path) -> None:
    """Behind a long wait for data a little other Python, in the same gap."""

    def loads_first(trace: TraceBuilder, at: int) -> None:
        trace.annotation("enumerate(DataLoader)#__next__", at, LONG_NS - 2_000_000)

    _, idle = divided(a_trace(tmp_path, loads_first))
    by = {part.cause: part.source for part in idle.parts}
    assert by[IdleCause.DATA] == "enumerate(DataLoader)#__next__"
    assert by[IdleCause.OTHER] is None


def test_launching_alone_bounds_nothing(tmp_path: Path) -> None:
    found = predicted(a_trace(tmp_path, many_launches))
    assert found.recommendation is Recommendation.YES
    assert found.remaining_idle_ns < 0.01 * LONG_NS
    assert "of idle time remains with a graph" not in format_prediction_verdict(found)


def test_an_operator_that_loads_its_library_is_no_launching(tmp_path: Path) -> None:
    def first_call(trace: TraceBuilder, at: int) -> None:
        external = trace.op("aten::conv2d", at, LONG_NS)
        call = at + LONG_NS - 9_000
        correlation = trace.runtime("cudaLaunchKernel", call, 4_000, external_id=external)
        trace.kernel("conv", call + 5_000, 1_000, correlation=correlation)

    _, idle = divided(a_trace(tmp_path, first_call))
    assert (idle.parts[0].cause, idle.parts[0].source) == (IdleCause.LOADING, "aten::conv2d")


@settings(max_examples=10, deadline=None)
@given(
    events=st.lists(
        st.tuples(
            st.sampled_from([loader, frames, blocking_copy, waits, allocates, many_launches]),
            st.integers(0, 3 * LONG_NS),
        ),
        max_size=4,
    )
)
def test_the_causes_add_up_to_the_idle_time(
    events: list[tuple[Between, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    def some(trace: TraceBuilder, at: int) -> None:
        if at < LONG_NS:
            for event, shift in events:
                event(trace, at + shift)

    trace = a_trace(tmp_path_factory.mktemp("trace"), some)
    step, idle = divided(trace)
    idle_ns = [
        idle_in(trace, step.steps[at].span_start, step.steps[at].span_end) for at in step.matching
    ]
    assert idle.total_ns == pytest.approx(sum(idle_ns) / len(idle_ns), rel=1e-9)
    assert all(part.ns > 0 for part in idle.parts)


GAPS = st.sampled_from([20_000, 400_000, 900_000, 1_500_000, 8_000_000])


@settings(max_examples=12, deadline=None)
@given(steps=st.lists(st.lists(GAPS, min_size=4, max_size=4), min_size=1, max_size=5))
def test_no_gain_exceeds_what_the_compute_gap_bound(
    steps: list[list[int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Steps of the same work with gaps of any length, some of them in operators that launch."""
    trace, at = TraceBuilder(), 0
    for number, gaps in enumerate(steps):
        begin = at
        for gap in gaps:
            trace.op("aten::mm", at, gap + 6_000)
            correlation = trace.runtime("cudaLaunchKernel", at + gap, 4_000)
            trace.kernel("gemm", at + gap + 5_000, 300_000, correlation=correlation)
            at += gap + 305_000
        trace.annotation(f"ProfilerStep#{number}", begin, at - begin)
    read = read_trace(trace.write(tmp_path_factory.mktemp("trace") / "trace.json"))
    check_gain(read, predicted(read))


@pytest.mark.parametrize("trace", sorted(SAMPLES.glob("*/eager/traces/replay.json.gz")))
def test_no_gain_of_a_sample_exceeds_what_its_compute_gap_bound(trace: Path) -> None:
    read = read_trace(trace)
    check_gain(read, predict(read, load_shipped_calibration()))


def check_gain(trace: Trace, prediction: Prediction | Missing) -> None:
    if isinstance(prediction, Missing) or isinstance(prediction.speedup, Missing):
        return
    assert prediction.speedup.value <= AT_MOST * compute_gap_bound(trace, prediction.step)


def idle_in(trace: Trace, begin: int, end: int) -> int:
    idle, free = 0, begin
    for start, duration in trace.gpu.select("ts", "dur").rows():
        idle += max(min(start, end) - free, 0)
        free = max(free, start + duration)
    return idle + max(end - free, 0)


def test_without_cpu_events_no_cause_is_known(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for at in (0, 2_000_000, 3_000_000):
        trace.kernel("k", at, 1_000, correlation=None)
    found = predicted_trace(trace, tmp_path)
    (part,) = found.idle.parts
    assert (part.cause, part.source) == (IdleCause.UNKNOWN, None)
    verdict = format_prediction_verdict(found)
    assert "because the trace has no CPU events" in verdict
    assert "Python" not in verdict
    assert "while the CPU launches" not in verdict


def predicted_trace(trace: TraceBuilder, folder: Path) -> Prediction:
    found = predict(read_trace(trace.write(folder / "trace.json")), load_shipped_calibration())
    assert not isinstance(found, Missing)
    return found
