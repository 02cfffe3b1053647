"""Bars of where the time of a step goes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.absence import Missing
from graphviz_dash.ui.page.time_bars import format_time_bars
from graphviz_dash.ui.page.widgets import format_changes
from tests.samples import compared_sample


@pytest.mark.parametrize("sample", ["tp-transformer", "mlp-train"])
def test_bars_of_all_runs_share_one_scale(sample: str) -> None:
    compared = compare_runs(load_experiment(Path("sample_traces") / sample))
    steps = [
        run.time_by_category.step_ns
        for run in compared.runs
        if not isinstance(run.time_by_category, Missing)
    ]
    bars = re.findall(r'<div class="bar".*?</div>', format_time_bars(compared, "light"))
    widths = [sum(map(float, re.findall(r"width:([\d.]+)%", bar))) for bar in bars]
    assert len(bars) == len(steps) > 1
    for width, step in zip(widths, steps, strict=True):
        assert width == pytest.approx(100 * step / max(steps), abs=0.02)


def test_idle_time_is_unknown_not_zero_if_gpu_work_fills_the_step() -> None:
    compared = compared_sample("fork-join")
    assert not isinstance(compared["graph"].time_by_category, Missing)
    assert compared["graph"].time_by_category.excess_ns is not None
    assert "31.6% \N{RIGHTWARDS ARROW} unknown" in format_changes(compared, compared.best)
