from __future__ import annotations

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.metrics.run_metrics import compute_traced_metrics
from graphviz_dash.analysis.step_comparison.time_by_category import (
    CategoryTime,
    compute_time_by_category,
)
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.analysis.trace.steps import find_steps
from graphviz_dash.model.trace import Trace
from tests.analysis.eager_and_graph import both, eager, graphed
from tests.analysis.frames import Frames, clean_timings, make_experiment


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
    divided = compute_time_by_category(400, trace, find_steps(trace))
    assert divided.parts == (
        CategoryTime(Category.GEMM, 100),
        CategoryTime(Category.ELEMENTWISE, 50),
    )
    assert (divided.busy_ns, divided.idle_ns, divided.excess_ns) == (150, 250, None)
    assert divided.idle_fraction == 250 / 400


def test_communication_counts_where_nothing_else_runs() -> None:
    frames = Frames()
    frames.step(0, 0, 900)
    frames.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1, 10, 300, stream=9)
    frames.kernel("gemm", 2, 50, 100, stream=7)
    frames.kernel("gemm", 3, 160, 100, stream=7)
    divided = compute_time_by_category(900, frames.trace(), find_steps(frames.trace()))
    assert divided.parts == (
        CategoryTime(Category.GEMM, 200),
        CategoryTime(Category.COMMUNICATION, 100),
    )
    assert divided.idle_ns == 600


def test_traced_work_longer_than_the_clean_step_is_an_excess() -> None:
    trace = overlapping()
    divided = compute_time_by_category(100, trace, find_steps(trace))
    assert (divided.idle_ns, divided.excess_ns, divided.idle_fraction) == (None, 50, None)
    assert sum(part.ns for part in divided.parts) == 150


def test_busy_and_idle_of_uneven_profiled_steps_add_up_to_the_step() -> None:
    """The median of the steps' shares is 0.2, that of their idle times 0.89 of a median step."""
    frames = Frames()
    for index, (length, busy) in enumerate([(1_000, 100), (900, 800), (500, 100)]):
        frames.step(index, index * 2_000, index * 2_000 + length)
        frames.kernel("gemm", index * 2_000 + 1, index * 2_000 + 10, busy, stream=7)
    run = replace(eager(), replay_trace=frames.trace())
    traced = find_steps(frames.trace())
    figures = {figure.metric.id: figure for figure in compute_traced_metrics(run, traced)}
    length, share = figures["traced_step_time"].value, figures["busy_fraction"].value
    assert length is not None
    assert share == 100 / 900
    divided = compute_time_by_category(length, frames.trace(), traced, profiled=True)
    assert divided.idle_fraction is not None
    assert share + divided.idle_fraction == pytest.approx(1)


class TestInAComparison:
    def test_parts_add_up_to_the_clean_step(self) -> None:
        where = both()["graph"].time_by_category
        assert {part.category: part.ns for part in where.parts} == {
            Category.GEMM: 40_000,
            Category.ELEMENTWISE: 20_000,
            Category.COMMUNICATION: 10_000,
            Category.OTHER: 5_000,
        }
        assert where.idle_ns == 50_000
        assert where.excess_ns is None

    def test_work_longer_than_the_clean_step_is_not_cut_off(self) -> None:
        fast = graphed(clean=clean_timings([50_000] * 40))
        run = compare_runs(make_experiment(eager(), fast))["graph"]
        assert (run.time_by_category.idle_ns, run.time_by_category.excess_ns) == (None, 25_000)
        assert sum(part.ns for part in run.time_by_category.parts) == 75_000
        assert run["busy_of_clean"].value == 1.5

    def test_overlapping_work_is_counted_once(self) -> None:
        frames = Frames()
        for index in range(6):
            start = index * 1_000
            frames.step(index, start, start + 900)
            frames.kernel("gemm", start + 1, start + 10, 100, stream=7)
            frames.kernel("relu_elementwise", start + 2, start + 60, 100, stream=8)
        run = compare_runs(make_experiment(eager(trace=frames.trace()))).runs[0]
        assert [(part.category, part.ns) for part in run.time_by_category.parts] == [
            (Category.GEMM, 100),
            (Category.ELEMENTWISE, 50),
        ]
        assert run["concurrency"].value == pytest.approx(200 / 150)
