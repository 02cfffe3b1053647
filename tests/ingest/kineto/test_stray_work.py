from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import GpuWork, TraceBuilder
from tests.ingest.kineto.test_problems import problems


def test_kernels_whose_call_is_not_in_the_trace(tmp_path: Path) -> None:
    trace = TraceBuilder()
    launch = trace.runtime("cudaLaunchKernel", 0, 5)
    trace.kernel("a", 10, 5, correlation=launch)
    trace.memset("Memset (Device)", 20, 5, bytes=4, correlation=77)  # by a call of the driver's
    assert problems(trace, tmp_path) == {}
    trace.kernel("b", 30, 5, correlation=78)
    found = problems(trace, tmp_path)
    assert list(found) == ["work-without-launch"]
    assert found["work-without-launch"].text.startswith("1 kernel of 2 belong to no call")


def test_kernels_that_a_busy_gpu_had_left_when_the_trace_began(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.kernel("left", 0, 50, correlation=3, stream=7)
    trace.kernel("left", 60, 50, correlation=4, stream=20)  # no known work is on this stream
    launch = trace.runtime("cudaLaunchKernel", 10, 5, correlation=9)
    trace.kernel("own", 120, 5, correlation=launch, stream=7)
    found = problems(trace, tmp_path)
    assert list(found) == ["work-from-before"]
    assert found["work-from-before"].text.startswith("2 kernels of 3 were launched before the tra")


def test_an_early_id_behind_work_of_the_trace_is_not_from_before_it(tmp_path: Path) -> None:
    """A stream runs its work in the order of the calls."""
    trace = TraceBuilder()
    launch = trace.runtime("cudaLaunchKernel", 10, 5, correlation=9)
    trace.kernel("own", 20, 5, correlation=launch, stream=7)
    trace.kernel("late", 30, 5, correlation=3, stream=7)
    assert list(problems(trace, tmp_path)) == ["work-without-launch"]


def test_work_that_the_gpu_itself_started(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.graph_launch(0, 50, [GpuWork("decide", 60, 10)])
    trace.kernel("body", 80, 5, correlation=0)
    found = problems(trace, tmp_path)
    assert list(found) == ["work-of-no-call"]
    assert found["work-of-no-call"].text.startswith("1 kernel of 2 have correlation id 0")


def test_stray_kernels_of_each_kind_are_told_apart(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.kernel("left", 0, 50, correlation=3)
    launch = trace.runtime("cudaLaunchKernel", 10, 5, correlation=9)
    trace.kernel("own", 120, 5, correlation=launch)
    trace.kernel("body", 130, 5, correlation=0)
    trace.kernel("lost", 140, 5, correlation=12)
    found = problems(trace, tmp_path)
    assert list(found) == ["work-from-before", "work-of-no-call", "work-without-launch"]
    assert all(" of 4 " in problem.text for problem in found.values())


def test_a_launch_at_the_end_and_work_from_before_are_no_matter_of_sessions(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.fields["cupti_version"] = 22
    trace.kernel("left", 0, 50, correlation=3)
    trace.graph_launch(60, 5, [GpuWork("own", 70, 10)])
    trace.runtime("cudaGraphLaunch", 1_000, 5)  # the profiler stopped before its work was done
    assert sorted(problems(trace, tmp_path)) == ["launch-without-work", "work-from-before"]


def test_bodies_of_conditional_nodes_are_no_matter_of_sessions(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.fields["cupti_version"] = 22
    trace.graph_launch(0, 5, [GpuWork("own", 10, 10)])
    trace.kernel("body", 30, 5, correlation=0)
    trace.runtime("cudaGraphLaunch", 1_000, 5)
    assert sorted(problems(trace, tmp_path)) == ["launch-without-work", "work-of-no-call"]


def test_a_trace_of_the_gpu_alone_lacks_no_calls(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.kernel("a", 10, 5, correlation=3)
    assert problems(trace, tmp_path) == {}


@pytest.mark.parametrize(("cupti", "told"), [(26, True), (130001, True), (130101, False)])
def test_graph_launches_of_a_second_session_have_the_ids_of_none_of_their_kernels(
    tmp_path: Path, cupti: int, told: bool
) -> None:
    trace = TraceBuilder()
    trace.fields["cupti_version"] = cupti
    for replay in range(3):
        at = replay * 1_000
        trace.runtime("cudaGraphLaunch", at, 5, correlation=100 + replay)
        trace.kernel("a", at + 10, 5, correlation=50 + replay)
        trace.kernel("b", at + 20, 5, correlation=50 + replay)
    found = problems(trace, tmp_path)
    assert {"launch-without-work", "work-without-launch"} <= found.keys()
    assert ("session-correlation" in found) is told
    if told:
        text = found["session-correlation"].text
        assert text.startswith("3 graph launches have no work while kernels without a launch run")
        assert f"CUPTI {cupti} " in text


def test_a_dropped_kernel_alone_is_no_matter_of_sessions(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.runtime("cudaGraphLaunch", 0, 5)
    assert list(problems(trace, tmp_path)) == ["launch-without-work"]
