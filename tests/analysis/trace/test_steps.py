from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphviz_dash.analysis.trace.steps import StepMethod, compute_exclusive_ns, find_steps
from tests.analysis.frames import Frames


def names(frames: Frames) -> list[list[str]]:
    trace = frames.trace()
    gpu = trace.gpu["name"].cast(str).to_list()
    return [[gpu[row] for row in step.gpu_rows] for step in find_steps(trace)]


def test_steps_whose_numbers_repeat_are_known_by_their_place() -> None:
    frames = Frames()
    for at, number in enumerate((3, 4, 3, 4)):
        frames.step(number, 100 * at, 100 * at + 100)
        frames.kernel(f"k{at}", launched=100 * at + 10, ts=100 * at + 20, dur=5)
    assert [step.index for step in find_steps(frames.trace())] == [0, 1, 2, 3]
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
        (step,) = find_steps(frames.trace())
        assert (step.kernels, step.graph_launches, step.launches) == (3, 1, 1)
        assert (step.busy_ns, step.work_ns) == (22, 60)

    def test_work_without_a_known_launch_goes_by_time_and_is_counted(self) -> None:
        frames = Frames()
        frames.step(0, 0, 100)
        frames.step(1, 100, 200)
        frames.kernel("linked", launched=10, ts=20, dur=5)
        frames.work("lost", 30, 5, correlation=999)
        frames.work("untold", 130, 5)
        found = find_steps(frames.trace())
        assert names(frames) == [["linked", "lost"], ["untold"]]
        assert [step.unlinked for step in found] == [1, 1]

    def test_a_trace_without_calls_goes_by_time(self) -> None:
        frames = Frames()
        frames.step(0, 0, 100)
        frames.work("a", 30, 5, correlation=3)
        assert names(frames) == [["a"]]

    def test_work_from_before_the_trace_is_of_no_step(self) -> None:
        # Its ids precede those of all calls, and its stream ran it before all of theirs.
        frames = Frames()
        frames.step(0, 0, 100)
        frames.work("from before", 1, 40, correlation=7)
        frames.kernel("a", launched=10, ts=50, dur=5)
        frames.work("id of a later call's", 60, 5, correlation=8)
        frames.work("on another stream", 1, 70, stream=20, correlation=9)
        (step,) = find_steps(frames.trace())
        assert names(frames) == [["a", "id of a later call's"]]
        assert (step.kernels, step.unlinked, step.busy_ns) == (2, 1, 10)

    def test_a_trace_without_marks_counts_it_too(self) -> None:
        """GPU load includes work without a known launch."""
        frames = Frames()
        frames.work("from before", 1, 40, correlation=7)
        frames.kernel("a", launched=10, ts=50, dur=5)
        (step,) = find_steps(frames.trace())
        assert names(frames) == [["from before", "a"]]
        assert (step.kernels, step.busy_ns) == (2, 45)


class TestSpan:
    def test_spans_follow_the_gpu_if_the_cpu_runs_ahead(self) -> None:
        frames = Frames()
        for at in range(3):
            frames.range(f"ProfilerStep#{at}", 10 * at, 10 * at + 10)
            frames.kernel(f"k{at}", launched=10 * at + 1, ts=5 + 100 * at, dur=90)
        found = find_steps(frames.trace())
        assert [(step.start, step.end) for step in found] == [(0, 10), (10, 20), (20, 30)]
        assert [(s.span_start, s.span_end) for s in found] == [(0, 95), (95, 195), (195, 295)]
        assert [step.busy_ns for step in found] == [90, 90, 90]

    def test_earlier_gpu_work_ends_before_the_first_step(self) -> None:
        frames = Frames()
        frames.range("ProfilerStep#0", 0, 10)
        frames.work("from before", 0, 50, correlation=7)
        frames.kernel("a", launched=5, ts=50, dur=50)
        (step,) = find_steps(frames.trace())
        assert (step.span_start, step.span_end, step.busy_ns) == (50, 100, 50)

    def test_earlier_gpu_work_is_not_part_of_a_long_queued_step(self) -> None:
        """An engine queued the step while the GPU ran the one before, which the trace does not
        show: nothing idles there."""
        frames = Frames()
        frames.range("ProfilerStep#0", 0, 26_000_000)
        frames.kernel("a", launched=5, ts=151_000_000, dur=90_000_000)
        (step,) = find_steps(frames.trace())
        assert (step.span_start, step.span_end) == (151_000_000, 241_000_000)
        # A launch takes some time to reach the GPU.
        frames = Frames()
        frames.range("ProfilerStep#0", 0, 26_000)
        frames.kernel("a", launched=5, ts=151_000, dur=90_000)
        (step,) = find_steps(frames.trace())
        assert (step.span_start, step.span_end) == (0, 241_000)

    def test_work_that_runs_beside_the_step_before_is_not_in_the_span(self) -> None:
        # An input that is copied ahead, while the GPU works on the step before.
        frames = Frames()
        frames.range("ProfilerStep#0", 0, 10)
        frames.range("ProfilerStep#1", 10, 20)
        frames.kernel("a", launched=5, ts=10, dur=90)
        frames.kernel("input", launched=11, ts=30, dur=40, stream=20)
        frames.kernel("b", launched=12, ts=100, dur=50)
        second = find_steps(frames.trace())[1]
        assert (second.span_start, second.span_end) == (100, 150)
        assert (second.kernels, second.busy_ns, second.work_ns) == (2, 50, 90)

    def test_steps_that_wait_for_their_work_last_as_long_as_their_ranges(self) -> None:
        frames = Frames()
        frames.range("ProfilerStep#0", 0, 100)
        frames.range("ProfilerStep#1", 100, 200)
        frames.kernel("a", launched=5, ts=10, dur=20)
        frames.kernel("b", launched=105, ts=110, dur=90)
        assert [s.duration_ns for s in find_steps(frames.trace())] == [100, 100]


launched_kernels = st.lists(
    st.tuples(
        st.integers(-20, 120),  # launched, before the trace began if negative
        st.integers(0, 100),  # delay
        st.integers(0, 60),  # duration
        st.sampled_from([7, 20]),
    ),
    max_size=25,
)
MARKS = ["graphviz_dash.step#", "ProfilerStep#", "step[DECODE bs=", "train_step ", None]


class TestShares:
    @given(launched_kernels, st.sampled_from(MARKS), st.integers(1, 5))
    def test_no_share_passes_the_whole(
        self, kernels: list[tuple[int, int, int, int]], mark: str | None, count: int
    ) -> None:
        frames = Frames()
        if mark is not None:
            for at in range(count):
                frames.range(f"{mark}{at}", at * 100 // count, (at + 1) * 100 // count)
        for number, (launched, delay, duration, stream) in enumerate(sorted(kernels), 1):
            if launched >= 0:
                frames.call("cudaLaunchKernel", launched, correlation=number)
            frames.work("k", max(launched + delay, 0), duration, stream=stream, correlation=number)
        found = find_steps(frames.trace())
        assert all(0 <= step.busy_ns <= step.duration_ns for step in found)
        assert all(step.busy_ns <= step.work_ns for step in found)
        before = sum(launched < 0 for launched, *_ in kernels)
        owned = [row for step in found for row in step.gpu_rows.tolist()]
        assert len(set(owned)) == len(owned) <= len(kernels)
        if any(launched >= 0 for launched, *_ in kernels) and mark is None:
            assert sum(step.kernels for step in found) >= len(kernels) - before


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
        (step,) = find_steps(frames.trace())
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
        found = find_steps(frames.trace())
        assert [(s.index, s.method, s.kernels) for s in found] == [
            (3, StepMethod.PROFILER, 0),
            (4, StepMethod.PROFILER, 1),
        ]

    def test_marks_are_preferred(self) -> None:
        frames = Frames()
        frames.range("ProfilerStep#3", 0, 50)
        frames.step(0, 10, 40)
        assert [s.method for s in find_steps(frames.trace())] == [StepMethod.MARKED]

    def test_profiler_steps_that_are_operators(self) -> None:
        # As torch of 2021 wrote them.
        frames = Frames()
        frames.op("ProfilerStep#3", 0, 50)
        frames.op("aten::add", 10, 20)
        frames.kernel("a", launched=12, ts=20, dur=5)
        assert [(s.index, s.method, s.kernels) for s in find_steps(frames.trace())] == [
            (3, StepMethod.PROFILER, 1)
        ]

    def test_the_outermost_ranges_of_inference_engines(self) -> None:
        frames = Frames()
        execute = "execute_16_context_0(sq0sk0sqsq0sqsk0)_generation_16(sq16sk8209sqsq16sqsk8209)"
        frames.range("step[EXTEND bs=1 toks=512]", 0, 50)
        frames.range("step[DECODE bs=32]", 60, 90)
        frames.range(execute, 62, 80)
        frames.kernel("a", launched=70, ts=75, dur=5)
        found = find_steps(frames.trace())
        assert [(s.index, s.method, s.start, s.end, s.kernels) for s in found] == [
            (0, StepMethod.ENGINE, 0, 50, 0),
            (1, StepMethod.ENGINE, 60, 90, 1),
        ]

    def test_ranges_that_are_named_as_steps(self) -> None:
        for name in ("step 7", "iteration_7", "train_step", "Iter: 7", "training/step/7"):
            frames = Frames()
            frames.range(name, 0, 50)
            frames.range("Optimizer.step#SGD.step", 10, 20)
            frames.range("two steps", 60, 70)
            assert [(s.method, s.end) for s in find_steps(frames.trace())] == [
                (StepMethod.NAMED, 50)
            ]

    def test_the_period_in_which_graph_launches_repeat(self) -> None:
        frames = Frames()
        for at in range(4):
            for place, name in enumerate(("first half", "second half")):
                launched = 100 * at + 30 * place
                replay = frames.call("cudaGraphLaunch", launched)
                frames.work(name, launched + 5, 20, correlation=replay)
            frames.kernel("sampling", launched=100 * at + 60, ts=100 * at + 70, dur=5)
        found = find_steps(frames.trace())
        assert {s.method for s in found} == {StepMethod.REPLAYS}
        assert [(s.start, s.end, s.kernels, s.graph_launches) for s in found] == [
            (0, 100, 3, 2),
            (100, 200, 3, 2),
            (200, 300, 3, 2),
        ]

    def test_graph_launches_that_do_not_repeat_are_no_steps(self) -> None:
        frames = Frames()
        for at, name in enumerate(("a", "b", "a", "a")):
            frames.work(
                name, 100 * at + 5, 20, correlation=frames.call("cudaGraphLaunch", 100 * at)
            )
        assert [s.method for s in find_steps(frames.trace())] == [StepMethod.WHOLE]

    def test_the_whole_trace_without_any(self) -> None:
        frames = Frames()
        frames.kernel("a", launched=60, ts=95, dur=5)
        frames.work("b", 200, 5, correlation=None)
        (step,) = find_steps(frames.trace())
        assert (step.method, step.start, step.end, step.kernels) == (StepMethod.WHOLE, 0, 205, 2)

    def test_an_empty_trace(self) -> None:
        (step,) = find_steps(Frames().trace())
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
        assert [s.method for s in find_steps(frames.trace())] == [StepMethod.WHOLE]


intervals = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=30)


class TestBusy:
    @given(intervals)
    def test_the_union_instant_by_instant(self, found: list[tuple[int, int]]) -> None:
        found.sort()
        start = np.array([begin for begin, _ in found], dtype=np.int64)
        end = start + np.array([length for _, length in found], dtype=np.int64)
        covered = {at for begin, length in found for at in range(begin, begin + length)}
        added = compute_exclusive_ns(start, end)
        assert added.sum() == len(covered)
        assert (added >= 0).all()

    def test_time_counts_for_the_one_that_started_first(self) -> None:
        start = np.array([0, 5, 20], dtype=np.int64)
        end = np.array([10, 15, 30], dtype=np.int64)
        assert compute_exclusive_ns(start, end).tolist() == [10, 5, 10]
