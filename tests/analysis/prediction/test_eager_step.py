from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from graphviz_dash.analysis.prediction.eager_step import EagerStep, build_eager_step
from graphviz_dash.analysis.prediction.module_prediction import compute_exclusive_busy_ns
from graphviz_dash.analysis.trace.steps import StepMethod
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.marks import STEP
from tests.trace_builder import TraceBuilder

Launch = tuple[str, int, int]  # name, stream, duration


def launches(trace: TraceBuilder, at: int, work: list[Launch | str], slow: int = 0) -> int:
    """Launches ``work`` one call every 10 µs from ``at``; a text is another call of the runtime."""
    ends: dict[int, int] = {}
    for one in work:
        if isinstance(one, str):
            trace.runtime(one, at, 1_000)
        else:
            name, stream, duration = one
            begin = max(at + 6_000, ends.get(stream, 0) + 200)
            correlation = trace.runtime("cudaLaunchKernel", at, 4_000)
            trace.kernel(name, begin, duration + slow, correlation=correlation, stream=stream)
            ends[stream] = begin + duration + slow
        at += 10_000
    return max([at, *ends.values()])


def step_of(tmp_path: Path, *steps: list[Launch | str], slow: tuple[int, ...] = ()) -> EagerStep:
    trace = TraceBuilder()
    at = 0
    for number, work in enumerate(steps):
        end = launches(trace, at + 1_000, work, slow[number] if slow else 0)
        trace.annotation(f"{STEP}{number}", at, end + 1_000 - at)
        at = end + 5_000
    found = build_eager_step(read_trace(trace.write(tmp_path / "trace.json")))
    assert isinstance(found, EagerStep), found
    return found


ONE: list[Launch | str] = [("a", 7, 2_000), ("b", 7, 3_000), ("c", 7, 4_000)]


class TestLikeSteps:
    def test_durations_are_medians_over_the_steps_that_are_alike(self, tmp_path: Path) -> None:
        found = step_of(tmp_path, ONE, ONE, ONE, slow=(0, 100, 900))
        assert found.duration.tolist() == [2_100, 3_100, 4_100]
        assert found.matching == (0, 1, 2)
        assert found.method is StepMethod.MARKED

    def test_a_step_with_other_work_is_counted_and_left_out(self, tmp_path: Path) -> None:
        other = [*ONE, ("d", 7, 1_000)]
        found = step_of(tmp_path, other, ONE, ONE)
        assert (found.matching, len(found.steps), len(found)) == ((1, 2), 3, 3)

    def test_busy_and_work_count_what_overlaps_once_and_twice(self, tmp_path: Path) -> None:
        found = step_of(tmp_path, [("a", 7, 50_000), ("b", 8, 50_000)])
        assert found.work_ns == 100_000
        assert found.busy_ns == 60_000
        assert compute_exclusive_busy_ns(found).tolist() == [50_000, 10_000]


class TestStreams:
    def test_one_stream_waits_for_no_other(self, tmp_path: Path) -> None:
        found = step_of(tmp_path, ONE)
        assert found.stream_count == 1
        assert found.predecessors == ((), (), ())

    def test_a_fork_waits_for_the_main_stream_and_a_join_for_the_others(
        self, tmp_path: Path
    ) -> None:
        work: list[Launch | str] = [
            ("a", 7, 2_000),
            "cudaEventRecord",
            "cudaStreamWaitEvent",
            ("b", 20, 2_000),
            ("c", 20, 2_000),
            "cudaEventRecord",
            "cudaStreamWaitEvent",
            ("d", 21, 2_000),
            "cudaStreamWaitEvent",
            "cudaStreamWaitEvent",
            ("e", 7, 2_000),
            ("f", 7, 2_000),
        ]
        found = step_of(tmp_path, work)
        assert found.name == ("a", "b", "c", "d", "e", "f")
        assert found.lane.tolist() == [0, 1, 1, 2, 0, 0]
        assert found.predecessors == ((), (0,), (), (0,), (2, 3), ())
        assert found.waits == 4

    def test_all_forks_at_once_are_given_to_the_streams_that_follow(self, tmp_path: Path) -> None:
        work: list[Launch | str] = [
            ("a", 7, 2_000),
            "cudaStreamWaitEvent",
            "cudaStreamWaitEvent",
            ("b", 20, 2_000),
            ("c", 21, 2_000),
        ]
        assert step_of(tmp_path, work).predecessors == ((), (0,), (0,))

    def test_a_join_does_not_wait_twice_for_the_same_work(self, tmp_path: Path) -> None:
        work: list[Launch | str] = [
            ("a", 20, 2_000),
            "cudaStreamWaitEvent",
            ("b", 7, 2_000),
            "cudaStreamWaitEvent",
            ("c", 7, 2_000),
        ]
        assert step_of(tmp_path, work).predecessors == ((), (0,), ())


class TestAlone:
    """Durations without concurrent work on other streams."""

    @staticmethod
    def crowded(folder: Path, *kernels: tuple[str, int], count: int = 1, by: str = "") -> EagerStep:
        """Kernels on one stream by name and ns.

        The first ``count`` overlap with the kernel ``by`` on another stream, which is 2 us shorter.
        """
        trace = TraceBuilder()
        begin = 10_000
        for place, (name, duration) in enumerate(kernels):
            correlation = trace.runtime("cudaLaunchKernel", begin - 9_000, 1_000)
            trace.kernel(name, begin, duration, correlation=correlation, stream=20)
            if place < count:
                correlation = trace.runtime("cudaLaunchKernel", begin - 7_000, 1_000)
                other = by or f"other_{place}"
                beside = duration - 2_000
                trace.kernel(other, begin + 1_000, beside, correlation=correlation, stream=30)
            begin += 20_000
        trace.annotation(f"{STEP}0", 0, begin)
        step = build_eager_step(read_trace(trace.write(folder / "t.json")))
        assert isinstance(step, EagerStep)
        return step

    def test_it_is_that_of_equal_work_that_ran_by_itself(self, tmp_path: Path) -> None:
        step = self.crowded(tmp_path, ("gemm", 8_000), ("gemm", 4_000), ("gemm", 4_000))
        assert step.duration.tolist() == [8_000, 6_000, 4_000, 4_000]
        assert step.exclusive_duration.tolist() == [4_000, 6_000, 4_000, 4_000]

    def test_collectives_keep_their_own(self, tmp_path: Path) -> None:
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
        step = self.crowded(tmp_path, (name, 8_000), (name, 4_000), (name, 4_000))
        assert step.exclusive_duration.tolist() == step.duration.tolist()

    def test_persistent_kernels_look_alike_whatever_their_sizes(self, tmp_path: Path) -> None:
        step = self.crowded(tmp_path, ("gemm", 8_000), ("gemm", 4_000), ("gemm", 900))
        assert step.exclusive_duration.tolist() == step.duration.tolist()

    def test_one_that_is_shorter_in_company_is_of_another_size(self, tmp_path: Path) -> None:
        kernels = ("gemm", 18_000), ("gemm", 6_000), ("gemm", 12_000)
        step = self.crowded(tmp_path, *kernels, count=2)
        assert step.exclusive_duration.tolist() == step.duration.tolist()

    def test_beside_a_collective_it_runs_in_a_replay_too(self, tmp_path: Path) -> None:
        by = "deep_ep::internode::dispatch<false>"
        step = self.crowded(tmp_path, ("gemm", 8_000), ("gemm", 4_000), ("gemm", 4_000), by=by)
        assert step.duration.tolist() == [8_000, 6_000, 4_000, 4_000]
        assert step.exclusive_duration.tolist() == step.duration.tolist()

    def test_without_equal_work_it_is_its_own(self, tmp_path: Path) -> None:
        step = self.crowded(tmp_path, ("gemm", 8_000), ("relu", 4_000))
        assert step.exclusive_duration.tolist() == step.duration.tolist()


class TestNoStep:
    def test_a_trace_without_gpu_work_says_so(self, tmp_path: Path) -> None:
        trace = TraceBuilder()
        trace.op("aten::add", 0, 1_000)
        found = build_eager_step(read_trace(trace.write(tmp_path / "t.json")))
        assert isinstance(found, Missing)
        assert "as if only the CPU was recorded" in found.reason

    def test_work_of_an_unread_accelerator_is_no_lack_of_work(self, tmp_path: Path) -> None:
        """As torch_npu writes it: slices of the process "Ascend Hardware", without a category."""
        slices = [
            {"ph": "X", "name": name, "pid": 800, "tid": 3, "ts": str(at), "dur": 1.35, "args": {}}
            for at, name in enumerate(("aclnnMm_MatMul", "aclnnAdd_AddAiCore_Add"))
        ]
        operator = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1}
        path = tmp_path / "trace_view.json"
        path.write_text(json.dumps([operator | {"ts": "0", "dur": 13.08}, *slices]))
        found = build_eager_step(read_trace(path))
        assert isinstance(found, Missing)
        assert "2 slices without a category, as of other accelerators" in found.reason
        assert "only the CPU" not in found.reason

    def test_launches_without_their_work_are_no_lack_of_an_activity(self, tmp_path: Path) -> None:
        trace = TraceBuilder()
        trace.runtime("cudaLaunchKernel", 0, 1_000)
        trace.runtime("cuLaunchKernel", 2_000, 1_000)
        trace.runtime("cudaStreamIsCapturing", 4_000, 1_000)
        found = build_eager_step(read_trace(trace.write(tmp_path / "t.json")))
        assert isinstance(found, Missing)
        assert "contains 2 launches but none of their GPU work" in found.reason
        assert "ProfilerActivity" not in found.reason

    def test_a_graphed_trace_is_no_eager_one(self, tmp_path: Path) -> None:
        from tests.trace_builder import GpuWork

        trace = TraceBuilder()
        trace.graph_launch(0, 5_000, [GpuWork("a", 9_000, 1_000), GpuWork("b", 11_000, 1_000)])
        found = build_eager_step(read_trace(trace.write(tmp_path / "t.json")))
        assert isinstance(found, Missing)
        assert "graph launches" in found.reason

    @pytest.mark.parametrize(("replayed", "is_eager"), [(1, True), (3, True), (4, False)])
    def test_graph_launches_are_refused_if_they_are_most_of_the_step(
        self, tmp_path: Path, replayed: int, is_eager: bool
    ) -> None:
        from tests.trace_builder import GpuWork

        trace = TraceBuilder()
        end = launches(trace, 1_000, ONE)
        work = [GpuWork("a", end + 9_000 + 2_000 * at, 1_000) for at in range(replayed)]
        trace.graph_launch(end, 5_000, work)
        trace.annotation(f"{STEP}0", 0, end + 50_000)
        step = build_eager_step(read_trace(trace.write(tmp_path / "t.json")))
        if is_eager:
            assert isinstance(step, EagerStep)
            assert step.graphed == replayed
            return
        assert step == Missing(
            Fact.EAGER_STEP,
            "4 of its 7 kernels, memcpys and memsets (57.1%) come from graph launches, so it is "
            "not an eager trace",
        )

    def test_a_trace_without_calls_has_a_step_all_the_same(self, tmp_path: Path) -> None:
        trace = TraceBuilder()
        for at in (0, 5_000):
            trace.kernel("a", 1_000 + at, 2_000, correlation=None)
        trace.annotation(f"{STEP}0", 0, 50_000)
        step = build_eager_step(read_trace(trace.write(tmp_path / "t.json")))
        assert isinstance(step, EagerStep)
        assert step.launches.tolist() == [-1, -1]

    def test_steps_that_capture_are_no_eager_ones(self, tmp_path: Path) -> None:
        capturing: list[Launch | str] = [
            ("a", 7, 2_000),
            "cudaStreamBeginCapture",
            "cudaStreamEndCapture",
        ]
        trace = TraceBuilder()
        end = launches(trace, 1_000, capturing)
        trace.annotation(f"{STEP}0", 0, end + 1_000)
        told = build_eager_step(read_trace(trace.write(tmp_path / "capture.json")))
        assert told == Missing(
            Fact.EAGER_STEP,
            "its steps capture graphs, and work launched during a capture does not run",
        )
        # A capture before the steps, such as that of another part of the program, is none of them.
        found = step_of(tmp_path, capturing[1:], ONE, ONE)
        assert found.matching == (1, 2)

    def test_without_marks_the_whole_trace_is_the_step(self, tmp_path: Path) -> None:
        trace = TraceBuilder()
        launches(trace, 0, ONE)
        found = build_eager_step(read_trace(trace.write(tmp_path / "t.json")))
        assert isinstance(found, EagerStep)
        assert found.method is StepMethod.WHOLE
        assert len(found) == 3

    def test_kernels_launched_before_the_trace_come_first(self, tmp_path: Path) -> None:
        """A trace can begin after the launches of its first work if the CPU runs ahead."""
        trace = TraceBuilder()
        trace.kernel("from before", 20_000, 5_000, correlation=trace.new_correlation())
        for at in (0, 5_000):
            call = trace.runtime("cudaLaunchKernel", at, 1_000)
            trace.kernel("a", 30_000 + at, 4_000, correlation=call)
        found = build_eager_step(read_trace(trace.write(tmp_path / "t.json")))
        assert isinstance(found, EagerStep)
        assert found.name == ("from before", "a", "a")
        assert not found.overlapped.any()


@pytest.mark.parametrize("early", [0, 600])
def test_overlap_with_the_previous_kernel_is_recorded(tmp_path: Path, early: int) -> None:
    trace = TraceBuilder()
    for step in range(3):
        at = step * 50_000
        for place, name in enumerate("ab"):
            correlation = trace.runtime("cudaLaunchKernelExC", at + 1_000 + place * 1_000, 500)
            begin = at + 10_000 + place * (5_000 - early)
            trace.kernel(name, begin, 5_000, correlation=correlation)
        trace.annotation(f"{STEP}{step}", at, 40_000)
    found = build_eager_step(read_trace(trace.write(tmp_path / "t.json")))
    assert isinstance(found, EagerStep)
    assert np.array_equal(found.overlapped, [0, early])
