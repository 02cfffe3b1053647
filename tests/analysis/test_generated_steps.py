from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.prediction.predict import predict
from graphviz_dash.features.perfetto.trace.perfetto import export_perfetto
from graphviz_dash.features.perfetto.trace.perfetto_check import check_trace
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import ExecutionMode, Experiment
from graphviz_dash.model.trace import Trace
from tests.analysis.predictions import CALIBRATION
from tests.experiments import make_experiment
from tests.trace_builder import TraceBuilder

Item = tuple[str, int, int]
"""Name, stream and duration of a kernel."""

ITEMS = st.lists(
    st.tuples(
        st.sampled_from(["gemm", "relu"]), st.sampled_from([7, 13]), st.sampled_from([5, 40])
    ),
    max_size=4,
)
STEPS = st.lists(
    st.tuples(st.integers(0, 2), ITEMS, st.sampled_from([0, 30_000])), min_size=1, max_size=5
)
"""Number, work and the gap behind each step."""


def built(steps: list[tuple[int, list[Item], int]], path: Path) -> Trace:
    trace = TraceBuilder()
    now = 0
    for number, items, gap in steps:
        begin = now
        for name, stream, duration in items:
            external = trace.op(f"aten::{name}", now, 900)
            correlation = trace.runtime("cudaLaunchKernel", now + 100, 300, external_id=external)
            trace.kernel(name, now + 500, duration * 1_000, correlation=correlation, stream=stream)
            now += 50_000
        trace.annotation(f"ProfilerStep#{number}", begin, now - begin + 1_000)
        now += 1_000 + gap
    return read_trace(trace.write(path))


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """An experiment whose traces get replaced."""
    return load_experiment(make_experiment(tmp_path_factory.mktemp("steps") / "toy"))


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS, others=STEPS)
def test_steps_of_any_kind(
    experiment: Experiment,
    tmp_path: Path,
    steps: list[tuple[int, list[Item], int]],
    others: list[tuple[int, list[Item], int]],
) -> None:
    traces = [built(steps, tmp_path / "a.json"), built(others, tmp_path / "b.json")]
    for trace in traces:
        prediction = predict(trace, CALIBRATION)
        assert isinstance(prediction, Missing) or prediction.step_ns.value > 0
    eager, graph = experiment.runs
    assert (eager.mode, graph.mode) == (ExecutionMode.EAGER, ExecutionMode.GRAPH)
    runs = (
        replace(eager, replay_trace=traces[0]),
        replace(graph, replay_trace=traces[1], graphs=(), capture_trace=None),
    )
    comparison = compare_runs(replace(experiment, runs=runs))
    assert [run.run.name for run in comparison.runs] == ["eager", "graph"]
    both = (runs[0], replace(eager, path=graph.path, replay_trace=traces[1]))
    assert len(compare_runs(replace(experiment, runs=both)).runs) == 2
    export_perfetto(replace(experiment, runs=both), tmp_path / "both.pftrace")
    assert not check_trace(tmp_path / "both.pftrace").problems
