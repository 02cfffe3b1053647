"""Steps: a trace in, the work and the calls of each step out."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphviz_dash.analysis.trace.steps import StepMethod, exclusive_ns, steps
from tests.analysis.frames import Frames


def names(frames: Frames) -> list[list[str]]:
    trace = frames.trace()
    gpu = trace.gpu["name"].cast(str).to_list()
    return [[gpu[row] for row in step.gpu_rows] for step in steps(trace)]


def test_steps_whose_numbers_repeat_are_known_by_their_place() -> None:
    frames = Frames()
    for at, number in enumerate((3, 4, 3, 4)):
        frames.step(number, 100 * at, 100 * at + 100)
        frames.kernel(f"k{at}", launched=100 * at + 10, ts=100 * at + 20, dur=5)
    assert [step.index for step in steps(frames.trace())] == [0, 1, 2, 3]
    assert names(frames) == [["k0"], ["k1"], ["k2"], ["k3"]]


class TestWhoseWork:
    def test_work_belongs_to_the_step_that_launched_it(self) -> None:
        # The clocks of CPU and GPU do not agree: the first kernel of step 1 seems to begin before
        # it, the last of step 0 to end after it.
        frames = Frames()
        frames.step(0, 0, 100)
        frames.step(1, 100, 200)
        frames.kernel("a", launched=10, ts=95, dur=10)
        frames.kernel("b", launched=101, ts=99, dur=5)
        assert names(frames) == [["a"], ["b"]]

    def test_work_launched_outside_of_all_steps_is_left_out(self) -> None:
        frames = Frames()
        frames.kernel("settling", launched=10, ts=60, dur=5)
        frames.step(0, 50, 100)
        frames.kernel("a", launched=55, ts=70, dur=5)
        frames.kernel("between", launched=100, ts=101, dur=5)
        frames.step(1, 110, 200)
        assert names(frames) == [["a"], []]

    def test_a_backward_thread_launches_for_the_step_too(self) -> None:
        frames = Frames()
        frames.step(0, 0, 100)
        frames.work("b", 20, 5, correlation=frames.call("cudaLaunchKernel", 10, tid=9))
        assert names(frames) == [["b"]]

    def test_one_graph_launch_brings_all_its_work(self) -> None:
        frames = Frames()
        frames.step(0, 0, 100)
        replay = frames.call("cudaGraphLaunch", 5)
        for place, stream in enumerate((7, 143, 144)):
            frames.work(f"k{place}", 10 + place, 20, stream=stream, correlation=replay)
        (step,) = steps(frames.trace())
        assert (step.kernels, step.graph_launches, step.launches) == (3, 1, 1)
        assert (step.busy_ns, step.work_ns) == (22, 60)

    def test_work_without_a_known_launch_goes_by_time_and_is_counted(self) -> None:
        frames = Frames()
        frames.step(0, 0, 100)
        frames.step(1, 100, 200)
        frames.kernel("linked", launched=10, ts=20, dur=5)
        frames.work("lost", 30, 5, correlation=999)
        frames.work("untold", 130, 5)
        found = steps(frames.trace())
        assert names(frames) == [["linked", "lost"], ["untold"]]
        assert [step.unlinked for step in found] == [1, 1]

    def test_a_trace_without_calls_goes_by_time(self) -> None:
        frames = Frames()
        frames.step(0, 0, 100)
        frames.work("a", 30, 5, correlation=3)
        assert names(frames) == [["a"]]


class TestCounts:
    def test_kinds_and_calls(self) -> None:
        frames = Frames()
        frames.step(7, 0, 100)
        for place, call in enumerate(
            ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernelEx", "cudaMemcpyAsync")
        ):
            frames.call(call, place)
        for call in ("cudaMemsetAsync", "cudaGraphLaunch", "cudaEventRecord", "cudaMalloc"):
            frames.call(call, 20)
        frames.call("cudaLaunchKernel", 100)
        for kind, count in (("kernel", 3), ("memcpy", 2), ("memset", 1)):
            for place in range(count):
                frames.work(kind, 30 + place, 0, kind=kind)
        (step,) = steps(frames.trace())
        assert step.index == 7
        assert (step.kernels, step.copies, step.sets) == (3, 2, 1)
        assert (step.kernel_launches, step.graph_launches, step.copy_calls) == (3, 1, 2)
        assert step.launches == 6
        assert step.duration_ns == 100


class TestRanges:
    def test_profiler_steps_where_nothing_is_marked(self) -> None:
        frames = Frames()
        frames.range("ProfilerStep#3", 0, 50)
        frames.range("ProfilerStep#4", 50, 90)
        frames.range("Optimizer.step#Adam.step", 10, 20)
        frames.kernel("a", launched=60, ts=95, dur=5)
        found = steps(frames.trace())
        assert [(s.index, s.method, s.kernels) for s in found] == [
            (3, StepMethod.PROFILER, 0),
            (4, StepMethod.PROFILER, 1),
        ]

    def test_marks_are_preferred(self) -> None:
        frames = Frames()
        frames.range("ProfilerStep#3", 0, 50)
        frames.step(0, 10, 40)
        assert [s.method for s in steps(frames.trace())] == [StepMethod.MARKED]

    def test_the_whole_trace_without_any(self) -> None:
        frames = Frames()
        frames.kernel("a", launched=60, ts=95, dur=5)
        frames.work("b", 200, 5, correlation=None)
        (step,) = steps(frames.trace())
        assert (step.method, step.start, step.end, step.kernels) == (StepMethod.WHOLE, 0, 205, 2)

    def test_an_empty_trace(self) -> None:
        (step,) = steps(Frames().trace())
        assert (step.method, step.kernels, step.busy_ns, step.launches) == (
            StepMethod.WHOLE,
            0,
            0,
            0,
        )

    def test_numbers_that_are_none(self) -> None:
        frames = Frames()
        for number in ("", "x", "-1", "²", "9" * 40):
            frames.range(f"graphviz_dash.step#{number}", 0, 10)
        assert [s.method for s in steps(frames.trace())] == [StepMethod.WHOLE]


intervals = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=30)


class TestBusy:
    @given(intervals)
    def test_the_union_instant_by_instant(self, found: list[tuple[int, int]]) -> None:
        found.sort()
        start = np.array([begin for begin, _ in found], dtype=np.int64)
        end = start + np.array([length for _, length in found], dtype=np.int64)
        covered = {at for begin, length in found for at in range(begin, begin + length)}
        added = exclusive_ns(start, end)
        assert added.sum() == len(covered)
        assert (added >= 0).all()

    def test_time_counts_for_the_one_that_started_first(self) -> None:
        start = np.array([0, 5, 20], dtype=np.int64)
        end = np.array([10, 15, 30], dtype=np.int64)
        assert exclusive_ns(start, end).tolist() == [10, 5, 10]
