from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.recorded_figures import RELATIVE_RECORDED_METRICS
from graphviz_dash.analysis.comparison.relative_metrics import (
    COMPILE_METRICS,
    PREDICTED_METRICS,
    RELATIVE_METRICS,
    WATERFALL_METRICS,
)
from graphviz_dash.analysis.memory.report import RELATIVE_MEMORY_METRICS
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.narrative.headline import build_headline
from tests.cli.fixtures import Invoke


class TestCompare:
    def test_figures_equal_those_of_the_analysis(self, folder: Path, invoke: Invoke) -> None:
        path = folder / "sample_traces" / "mlp-train"
        document = json.loads(invoke("compare", str(path), "--json").out)
        result = compare_runs(load_experiment(path))
        assert document["headline"] == build_headline(result)
        for run in result.runs:
            (found,) = [one for one in document["runs"] if one["name"] == run.name]
            assert {name: one["value"] for name, one in found["metrics"].items()} == {
                figure.metric.id: figure.value for figure in run.metrics
            }

    @pytest.mark.usefixtures("folder")
    def test_show_has_the_figures_that_need_no_baseline(self, invoke: Invoke) -> None:
        compared = json.loads(invoke("compare", "sample_traces/mlp-train", "--json").out)
        shown = json.loads(invoke("show", "sample_traces/mlp-train/graph", "--json").out)
        expected = compared["runs"][1]["metrics"]
        assert shown["metrics"] == {
            name: figure
            for name, figure in expected.items()
            if name
            not in (
                *RELATIVE_METRICS,
                *RELATIVE_MEMORY_METRICS,
                *COMPILE_METRICS,
                *WATERFALL_METRICS,
                *PREDICTED_METRICS,
                *RELATIVE_RECORDED_METRICS,
            )
        }
