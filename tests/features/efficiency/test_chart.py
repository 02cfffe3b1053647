from __future__ import annotations

import pytest

from graphviz_dash.features.efficiency.analysis.ceilings_choice import (
    CeilingsChoice,
    CeilingsOrigin,
)
from graphviz_dash.features.efficiency.analysis.report import EfficiencyReport, measure_items
from graphviz_dash.features.efficiency.chart import NO_ARITHMETIC, draw_roofline
from graphviz_dash.model.absence import Fact, Missing
from tests.features.efficiency.steps import StepBuilder, make_ceilings, tensor

BF16 = "c10::BFloat16"
MIB = 1 << 20
CHOICE = CeilingsChoice(make_ceilings(), CeilingsOrigin.FILE)


def report_of(step: StepBuilder, choice: CeilingsChoice | Missing = CHOICE) -> EfficiencyReport:
    report = measure_items(tuple(step.items), choice)
    assert isinstance(report, EfficiencyReport)
    return report


def test_points_are_under_the_roof() -> None:
    step = StepBuilder()
    matrix = tensor(4096, 4096, dtype=BF16)
    step.add("nvjet_tst", 200_000, "mm", matrix, matrix)
    step.add("vectorized_elementwise_kernel", 100_000, "neg", tensor(16 * MIB))
    figure = draw_roofline(report_of(step), "light")
    assert figure is not None
    product, copy = (trace for trace in figure.data if trace.mode == "markers")
    flops, size = 2 * 4096**3, 3 * 4096**2 * 2
    assert product.x[0] == pytest.approx(flops / size)
    assert product.y[0] == pytest.approx(flops / 200e-6)
    assert product.marker.size[0] > copy.marker.size[0]
    # 128 MiB in 100 µs; the roof above is the bandwidth at the same intensity.
    assert copy.x[0] == NO_ARITHMETIC
    assert copy.y[0] == pytest.approx(NO_ARITHMETIC * 128 * MIB / 100e-6)
    assert "model.py:7" in copy.hovertemplate[0]
    assert ["".join(trace.text) for trace in figure.data if trace.mode == "lines+text"] == [
        "device memory",
        "L2 cache",
        "bf16",
    ]


def test_names_are_text() -> None:
    step = StepBuilder()
    step.add("<script>alert(1)</script>", 100_000, operands=[(0, 16 * MIB)])
    figure = draw_roofline(report_of(step), "dark")
    assert figure is not None
    hover = next(trace for trace in figure.data if trace.mode == "markers").hovertemplate[0]
    assert "<script>" not in hover


def test_no_chart_without_limits() -> None:
    step = StepBuilder()
    step.add("vectorized_elementwise_kernel", 100_000, "neg", tensor(16 * MIB))
    assert draw_roofline(report_of(step, Missing(Fact.CEILINGS, "no")), "light") is None
    alone = StepBuilder()
    alone.add("custom", 5_000)
    assert draw_roofline(report_of(alone), "light") is None
