from __future__ import annotations

from statistics import median

import msgspec
import pytest

from graphviz_dash.features.efficiency.analysis.excess import compute_excess_series
from graphviz_dash.features.efficiency.analysis.report import (
    EfficiencyReport,
    measure_run_efficiency,
)
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.absence import Missing
from tests.features.efficiency.steps import make_ceilings
from tests.samples import SAMPLES


def test_the_series_agrees_with_the_report() -> None:
    run = load_run(SAMPLES / "gpt-train" / "graph")
    run = msgspec.structs.replace(run, ceilings=make_ceilings("NVIDIA H200"))
    series = compute_excess_series(run)
    report = measure_run_efficiency(run)
    assert not isinstance(series, Missing)
    assert isinstance(report, EfficiencyReport)
    assert len(series) > 5
    # The report has medians of nodes, the series sums of replays.
    assert median(series) == pytest.approx(report.above_ns, rel=0.05)


def test_no_series_without_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "graphviz_dash.features.efficiency.analysis.ceilings_choice.load_shipped_ceilings",
        lambda: (),
    )
    series = compute_excess_series(load_run(SAMPLES / "mlp-train" / "graph"))
    assert isinstance(series, Missing)
    assert "no measured limits" in series.reason
