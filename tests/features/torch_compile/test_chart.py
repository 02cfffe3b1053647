from __future__ import annotations

from pathlib import Path

from graphviz_dash.analysis.trace.steps import find_steps
from graphviz_dash.features.torch_compile.analysis.report import build_compile_report
from graphviz_dash.features.torch_compile.chart import draw_step_parts
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.absence import Missing

_PHONE_PX = 328


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
