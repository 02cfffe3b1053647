"""Self CPU time totals against what torch.profiler's table would add up to."""

from __future__ import annotations

from graphviz_dash.analysis.cpu_time import self_cpu_ns
from graphviz_dash.analysis.steps import steps
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
    assert self_cpu_ns(trace, steps(trace)).tolist() == [100 + 60 + 2 + 80]


def test_events_belong_to_the_step_in_which_they_begin() -> None:
    frames = Frames()
    frames.op("before", 0, 90)
    for index in range(2):
        frames.step(index, 100 + index * 100, 190 + index * 100)
        for place in range(index + 1):
            frames.op("op", 110 + index * 100 + place * 20, 120 + index * 100 + place * 20)
    frames.op("between", 192, 198)
    trace = frames.trace()
    assert self_cpu_ns(trace, steps(trace)).tolist() == [10, 20]
