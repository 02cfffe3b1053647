"""A clean step divided by its traced work."""

from __future__ import annotations

from graphviz_dash.analysis.step.time_by_category import CategoryTime, time_by_category
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.analysis.trace.steps import steps
from graphviz_dash.model.trace import Trace
from tests.analysis.frames import Frames


def overlapping() -> Trace:
    """Steps of a product and an elementwise kernel of 100 ns each, that share 50 ns."""
    frames = Frames()
    for index in range(3):
        start = index * 1_000
        frames.step(index, start, start + 900)
        frames.kernel("gemm", start + 1, start + 10, 100, stream=7)
        frames.kernel("relu_elementwise", start + 2, start + 60, 100, stream=8)
    return frames.trace()


def test_overlapping_work_counts_for_what_began_first() -> None:
    trace = overlapping()
    divided = time_by_category(400, trace, steps(trace))
    assert divided.parts == (
        CategoryTime(Category.GEMM, 100),
        CategoryTime(Category.ELEMENTWISE, 50),
    )
    assert (divided.busy_ns, divided.idle_ns, divided.excess_ns) == (150, 250, None)
    assert divided.idle_fraction == 250 / 400


def test_traced_work_longer_than_the_clean_step_is_an_excess() -> None:
    trace = overlapping()
    divided = time_by_category(100, trace, steps(trace))
    assert (divided.idle_ns, divided.excess_ns, divided.idle_fraction) == (None, 50, None)
    assert sum(part.ns for part in divided.parts) == 150
