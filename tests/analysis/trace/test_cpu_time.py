"""Self CPU time totals against what torch.profiler's table would add up to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphviz_dash.analysis.trace import cpu_time
from graphviz_dash.analysis.trace.cpu_time import compute_self_cpu_ns
from graphviz_dash.analysis.trace.steps import find_steps
from tests.analysis.frames import Frames


def test_nested_events_count_once_and_threads_add_up() -> None:
    frames = Frames()
    frames.step(0, 0, 1000)
    frames.op("aten::linear", 100, 200)
    frames.op("aten::addmm", 120, 180)
    frames.call("cudaLaunchKernel", 150)
    frames.range("Optimizer.step#SGD.step", 300, 340)
    frames.op("aten::add_", 330, 360)
    frames.op("MulBackward0", 110, 190, tid=2)
    frames.call("cudaDeviceSynchronize", 500)
    trace = frames.trace()
    # 100..200, 300..360 and the 2 ns of the synchronisation on one thread, 80 ns on the other.
    assert compute_self_cpu_ns(trace, find_steps(trace)).tolist() == [100 + 60 + 2 + 80]


def test_equal_thread_numbers_of_two_processes_are_two_threads() -> None:
    frames = Frames()
    frames.step(0, 0, 1000)
    frames.op("aten::linear", 100, 200)
    frames.op("aten::stack", 120, 180)
    frames.ops[-1]["pid"] = 2
    trace = frames.trace()
    assert compute_self_cpu_ns(trace, find_steps(trace)).tolist() == [100 + 60]


def test_events_belong_to_the_step_in_which_they_begin() -> None:
    frames = Frames()
    frames.op("before", 0, 90)
    for index in range(2):
        frames.step(index, 100 + index * 100, 190 + index * 100)
        for place in range(index + 1):
            frames.op("op", 110 + index * 100 + place * 20, 120 + index * 100 + place * 20)
    frames.op("between", 192, 198)
    trace = frames.trace()
    assert compute_self_cpu_ns(trace, find_steps(trace)).tolist() == [10, 20]


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(1, 3), st.booleans()),
        max_size=25,
    ),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40)), min_size=1, max_size=4),
    st.sampled_from([1, 1 << 16]),
    st.sampled_from([1, 1 << 54]),
)
def test_totals_are_what_counting_each_moment_gives(
    events: list[tuple[int, int, int, bool]],
    marked: list[tuple[int, int]],
    block: int,
    moment: int,
) -> None:
    """Steps may overlap; ``moment`` ns make one unit of time, so many that sums come near 2^63."""
    frames = Frames()
    for index, (start, length) in enumerate(marked):
        frames.step(index, start * moment, (start + length) * moment)
    for start, length, thread, op in events:
        if op:
            frames.op("op", start * moment, (start + length) * moment, tid=thread)
        else:
            frames.call("cudaLaunchKernel", start * moment, tid=thread)
            frames.runtime[-1]["dur"] = length * moment
    trace = frames.trace()
    taken = find_steps(trace)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_time, "_BLOCK_ROWS", block)
        totals = compute_self_cpu_ns(trace, taken)
    for step, total in zip(taken, totals.tolist(), strict=True):
        covered = {
            (thread, at)
            for start, length, thread, _ in events
            if step.start <= start * moment < step.end
            for at in range(start, start + length)
        }
        assert total == len(covered) * moment
