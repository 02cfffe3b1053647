from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.prediction.idle_time import IdleCause, IdlePart, IdleTime
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.run import ExecutionMode
from graphviz_dash.narrative.prediction import (
    build_idle_rows,
    describe_idle_method,
    format_idle_time,
    format_prediction_score,
    format_prediction_verdict,
    list_prediction_reasons,
)
from graphviz_dash.units import format_ns
from tests.analysis.predictions import line_trace, predicted
from tests.experiments import make_experiment


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    return make_experiment(
        tmp_path / "toy", [ExecutionMode.EAGER, ExecutionMode.GRAPH, ExecutionMode.CALLABLES]
    )


def test_the_words_say_by_how_much_and_whether_inside(toy: Path) -> None:
    run = compare_runs(load_experiment(toy))["graph"]
    found = run.prediction
    assert found is not None
    told = format_prediction_score(found, found.step_ns.value * 2)
    assert "error -50.0%, outside the interval" in told
    assert "error +0.0%, within the interval" in format_prediction_score(found, found.step_ns.value)
    assert "measured" not in format_prediction_score(found, None)


def test_rows_of_idle_time_say_what_a_graph_removes() -> None:
    parts = (
        IdlePart(IdleCause.DATA, 3_000_000, "DataLoader.__next__"),
        IdlePart(IdleCause.LAUNCHING, 1_000_000, None),
    )
    rows = build_idle_rows(IdleTime(parts, np.zeros(0)))
    assert rows == (
        ("waiting for data", "3.00 ms", "75.0%", "remains", "DataLoader.__next__"),
        ("launching", "1.00 ms", "25.0%", "removed", ""),
    )


def test_a_trace_without_steps_is_told_as_a_trace(tmp_path: Path) -> None:
    """The text has no step, no speedup and one duration."""
    trace = line_trace(tmp_path, kernels=3, steps=1, marked=False)
    found = predicted(trace)
    ends = format_ns(trace.info.end_ns)
    assert f"of {ends} and idle for" in format_prediction_verdict(found)
    assert f"of the {ends} of the trace" in list_prediction_reasons(found)[0]
    assert found.eager_ns == found.idle.total_ns + found.step.busy_ns
    assert [warning.value for warning in found.warnings] == ["unmarked steps"]
    assert not any(
        "step" in text for text in (format_idle_time(found), describe_idle_method(found))
    )
