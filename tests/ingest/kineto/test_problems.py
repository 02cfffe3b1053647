from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.model.trace import TraceProblem
from tests.builders import GpuWork, TraceBuilder, capture_trace, replay_trace


def problems(builder: TraceBuilder, folder: Path) -> dict[str, TraceProblem]:
    loaded = read_trace(builder.write(folder / "trace.json"))
    return {problem.code: problem for problem in loaded.info.problems}


def test_sound_traces_have_none(tmp_path: Path) -> None:
    assert problems(replay_trace(), tmp_path) == {}


def test_a_capture_launches_without_work_and_that_is_no_defect(tmp_path: Path) -> None:
    assert problems(capture_trace(), tmp_path) == {}


def test_a_launch_without_work(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.runtime("cudaLaunchKernel", 0, 5)
    done = trace.runtime("cudaLaunchKernel", 10, 5)
    trace.kernel("k", 20, 5, correlation=done)
    trace.runtime("cudaGraphLaunch", 30, 5)
    for call in ("cudaMalloc", "cudaLaunchHostFunc", "cudaDeviceSynchronize"):
        trace.runtime(call, 40, 5)
    found = problems(trace, tmp_path)
    assert list(found) == ["launch-without-work"]
    assert found["launch-without-work"].text.startswith(
        "2 of 3 kernel and graph launches have no GPU work"
    )


def test_launches_after_a_capture_are_looked_at_again(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.runtime("cudaStreamBeginCapture", 0, 1)
    trace.runtime("cudaLaunchKernel", 10, 1)
    trace.runtime("cudaStreamEndCapture", 20, 1)
    assert problems(trace, tmp_path) == {}
    trace.runtime("cudaLaunchKernel", 30, 1)
    assert problems(trace, tmp_path)["launch-without-work"].text.startswith(
        "1 of 1 kernel and graph launch "
    )


def test_work_that_starts_before_its_launch(tmp_path: Path) -> None:
    trace = TraceBuilder()
    launch = trace.runtime("cudaLaunchKernel", 10_000, 5_000)
    trace.kernel("k", 7_500, 100, correlation=launch)
    found = problems(trace, tmp_path)
    assert list(found) == ["starts-before-launch"]
    assert "by up to 2.50 µs" in found["starts-before-launch"].text


def test_work_during_its_launch_call_is_sound(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.graph_launch(0, 50_000, [GpuWork("k", 0, 10), GpuWork("k", 20_000, 10)])
    assert problems(trace, tmp_path) == {}


@pytest.mark.parametrize(
    ("start", "stream", "defect"), [(99, 7, True), (100, 7, False), (50, 8, False)]
)
def test_slices_that_overlap_on_one_stream(
    tmp_path: Path, start: int, stream: int, defect: bool
) -> None:
    trace = TraceBuilder()
    trace.graph_launch(0, 1, [GpuWork("a", 0, 100), GpuWork("b", start, 100, stream=stream)])
    found = problems(trace, tmp_path)
    assert ("stream-overlap" in found) is defect
    if defect:
        assert "by up to 1 ns" in found["stream-overlap"].text


def test_a_short_slice_inside_a_long_one_counts_for_those_behind_it(tmp_path: Path) -> None:
    trace = TraceBuilder()
    work = [GpuWork("long", 0, 100), GpuWork("in", 10, 5), GpuWork("in too", 50, 5)]
    trace.graph_launch(0, 1, work)
    assert problems(trace, tmp_path)["stream-overlap"].text.startswith("2 slices ")


def test_whole_microseconds_may_overlap_by_one(tmp_path: Path) -> None:
    trace = TraceBuilder(base_ns=None, offset_ns=10**18, whole_microseconds=True)
    launch = trace.runtime("cudaGraphLaunch", 5_000, 1_000)
    trace.kernel("a", 4_000, 2_000, correlation=launch)  # a microsecond before its launch
    trace.kernel("b", 5_000, 2_000, correlation=launch)  # a microsecond before the end of a
    assert list(problems(trace, tmp_path)) == ["whole-microseconds"]
    trace.kernel("c", 5_000, 2_000, correlation=launch)  # two before the end of b
    assert list(problems(trace, tmp_path)) == ["whole-microseconds", "stream-overlap"]


def test_two_launches_with_one_correlation(tmp_path: Path) -> None:
    trace = TraceBuilder()
    launch = trace.runtime("cudaLaunchKernel", 0, 5)
    trace.runtime("cudaLaunchKernel", 10, 5, correlation=launch)
    trace.kernel("k", 20, 5, correlation=launch)
    found = problems(trace, tmp_path)
    assert list(found) == ["duplicate-correlation"]
    assert found["duplicate-correlation"].text.startswith("2 launches share 1 correlation id, so")


def test_a_single_launch_with_several_kernels(tmp_path: Path) -> None:
    trace = TraceBuilder()
    launch = trace.runtime("cudaLaunchKernel", 0, 5)
    trace.kernel("a", 10, 5, correlation=launch)
    trace.kernel("b", 20, 5, correlation=launch)
    assert list(problems(trace, tmp_path)) == ["several-kernels-per-launch"]


@pytest.mark.parametrize(("end", "late"), [(1_000, False), (1_001, True)])
def test_work_that_outlasts_the_call_that_waits_for_it(
    tmp_path: Path, end: int, late: bool
) -> None:
    trace = TraceBuilder()
    launch = trace.runtime("cudaLaunchKernel", 0, 5)
    trace.kernel("k", 900, end - 900, correlation=launch)
    trace.runtime("cudaDeviceSynchronize", 10, 990)
    after = trace.runtime("cudaLaunchKernel", 2_000, 5)
    trace.kernel("after", 2_100, 50, correlation=after)
    found = problems(trace, tmp_path)
    assert list(found) == (["ends-after-wait"] if late else [])
    if late:
        assert "by up to 1 ns" in found["ends-after-wait"].text


def test_one_of_two_gpus_may_go_on_while_the_other_is_waited_for(tmp_path: Path) -> None:
    trace = TraceBuilder(device_names=("NVIDIA H200", "NVIDIA H200"))
    for device in (0, 1):
        trace._device = device
        launch = trace.runtime("cudaLaunchKernel", device, 5)
        trace.kernel("k", 10, 100_000 if device else 10, correlation=launch, stream=7 + device)
    trace.runtime("cudaDeviceSynchronize", 20, 30)
    assert problems(trace, tmp_path) == {}


def test_steps_that_are_marked_twice(tmp_path: Path) -> None:
    trace = replay_trace()
    for step in range(3):
        trace.annotation(f"ProfilerStep#{step}", step * 100_000, 90_000)
    assert problems(trace, tmp_path) == {}
    # A mark on another thread is the same step.
    trace.annotation("ProfilerStep#1", 100_000, 90_000, tid=77)
    assert problems(trace, tmp_path) == {}
    trace.annotation("ProfilerStep#1", 400_000, 90_000)
    (problem,) = problems(trace, tmp_path).values()
    assert problem.code == "repeated-step"
    assert "(1 of 3 numbers, up to 2 marks each)" in problem.text


@pytest.mark.parametrize(("gap", "codes"), [(3, ["stitched-replays"]), (4, [])])
def test_replays_whose_times_are_stitched_together(
    tmp_path: Path, gap: int, codes: list[str]
) -> None:
    trace = TraceBuilder()
    for replay in range(2):
        at = replay * 100_000
        correlation = trace.runtime("hipGraphLaunch", at, 1_000)
        for place in range(8):
            start = at + 2_000 + place * (500 + gap)
            trace.kernel("k", start, 500, correlation=correlation)
    found = read_trace(trace.write(tmp_path / "t.json.gz"))
    assert [problem.code for problem in found.info.problems] == codes
    assert found.info.has_stitched_replays == bool(codes)


@pytest.mark.parametrize(
    ("device", "call"), [("AMD Instinct MI300X", "cudaLaunchKernel"), ("", "hipLaunchKernel")]
)
def test_kernels_that_roctracer_does_not_link_are_not_lost(
    tmp_path: Path, device: str, call: str
) -> None:
    trace = TraceBuilder(device_names=(device,))
    for number in range(3):
        launch = trace.runtime(call, number * 1_000, 100)
        is_linked = number == 0
        trace.kernel("k", number * 1_000 + 200, 100, correlation=launch if is_linked else 0)
    found = problems(trace, tmp_path)
    assert list(found) == ["work-without-id"]
    assert found["work-without-id"].text.startswith("2 kernels have no correlation id")
    trace.runtime(call, 9_000, 100)
    assert "launch-without-work" in problems(trace, tmp_path)


def test_kernels_of_id_0_on_nvidia_are_started_by_the_gpu(tmp_path: Path) -> None:
    trace = TraceBuilder()
    launch = trace.runtime("cudaLaunchKernel", 0, 100)
    trace.kernel("k", 200, 100, correlation=launch)
    trace.kernel("body", 400, 100, correlation=0)
    assert list(problems(trace, tmp_path)) == ["work-of-no-call"]
