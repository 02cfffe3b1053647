from __future__ import annotations

from pathlib import Path

from graphviz_dash.analysis.trace.steps import find_steps
from graphviz_dash.features.torch_compile.analysis.report import build_compile_report
from graphviz_dash.features.torch_compile.chart import draw_step_parts
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import format_ns

_PHONE_PX = 328


def test_a_traced_step_has_its_name() -> None:
    """Without a comparable clean step, the bar is the step under the profiler."""
    report = build_compile_report(load_run(Path("sample_traces/recorded-sglang/default-sizes")))
    assert not isinstance(report, Missing)
    assert not isinstance(report.time, Missing)
    chart = draw_step_parts(report, "light")
    assert chart is not None
    assert chart.layout.yaxis.categoryarray[-1] == "traced step"
    assert chart.data[-1].hovertemplate.startswith(
        f"traced step<br>{format_ns(report.time.median_ns)}"
    )
    assert "step" not in chart.layout.yaxis.categoryarray


def test_names_of_parts_leave_a_phone_room_for_bars() -> None:
    run = load_run(Path("sample_traces/compile-fixes/fixed-0"))
    assert run.replay_trace is not None
    report = build_compile_report(run, find_steps(run.replay_trace))
    assert not isinstance(report, Missing)
    chart = draw_step_parts(report, "light")
    assert chart is not None
    margin = chart.layout.margin
    assert _PHONE_PX - margin.l - margin.r > 100
    assert chart.layout.yaxis.tickvals == chart.layout.yaxis.categoryarray
