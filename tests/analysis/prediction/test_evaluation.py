from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.analysis.metrics.program_step import compute_program_step
from graphviz_dash.analysis.metrics.recorded_step import RecordedStep
from graphviz_dash.analysis.metrics.run_metrics import make_value
from graphviz_dash.analysis.prediction.calibration import load_shipped_calibration
from graphviz_dash.analysis.prediction.evaluation import compute_prediction_metrics, predict_run
from graphviz_dash.analysis.prediction.predict import Prediction, predict
from graphviz_dash.analysis.prediction.uncertainty import Estimate
from graphviz_dash.analysis.sample_statistics import SpreadKind
from graphviz_dash.ingest.load import load_experiment, load_pair, load_run
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import ExecutionMode
from tests.analysis.predictions import CALIBRATION
from tests.analysis.trace.integrity_traces import make_events, make_slice, read_events
from tests.experiments import make_experiment
from tests.samples import SAMPLES, compared_sample


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    return make_experiment(
        tmp_path / "toy", [ExecutionMode.EAGER, ExecutionMode.GRAPH, ExecutionMode.CALLABLES]
    )


def test_the_figures_are_the_prediction_and_how_far_it_is_off(toy: Path) -> None:
    run = compare_runs(load_experiment(toy))["graph"]
    figure, off = run["predicted_step_time"], run["prediction_error"]
    assert not isinstance(run.prediction, Missing)
    assert figure.value == run.prediction.step_ns.value
    assert figure.spread is not None
    assert figure.spread.kind is SpreadKind.PREDICTION
    assert (figure.spread.low, figure.spread.high) == (
        run.prediction.step_ns.low,
        run.prediction.step_ns.high,
    )
    assert run["step_time"].value is not None
    assert off.value == figure.value / run["step_time"].value - 1


def test_only_a_graph_of_the_whole_step_is_predicted(toy: Path) -> None:
    result = compare_runs(load_experiment(toy))
    assert result["callables"].prediction.reason == "only graphs of the whole step are predicted"
    assert result["eager"]["predicted_step_time"].missing.reason == "this run is the baseline"
    against_graph = compare_runs(load_experiment(toy), "callables")["graph"]
    assert against_graph["predicted_step_time"].missing.reason == "callables is not an eager run"


def test_the_graph_run_is_not_looked_at(toy: Path) -> None:
    """The same eager run predicts the same, whatever the graph run measured."""
    before = compare_runs(load_experiment(toy))["graph"].prediction
    eager = next(run for run in load_experiment(toy).runs if run.mode is ExecutionMode.EAGER)
    alone = predict_run(eager, load_shipped_calibration())
    assert not isinstance(alone, Missing)
    assert not isinstance(before, Missing)
    assert (before.step_ns, before.speedup) == (alone.step_ns, alone.speedup)


def test_the_eager_step_of_an_engine_is_that_of_the_comparison() -> None:
    """Its steps go on after the traced window, and waits for requests are most of its time."""
    lightning = load_run(SAMPLES / "recorded-lightning" / "eager")
    engine = load_run(SAMPLES / "recorded-vllm" / "default-sizes", traces=False)
    assert lightning.recording is not None
    waits = [1_000_000] * 30 + [200_000_000] * 10
    recording = replace(lightning.recording, step_ns=waits, final_wait_ns=0)
    run = replace(lightning, recording=recording, loop=engine.loop)
    step = compute_program_step(run)
    prediction = predict_run(run, load_shipped_calibration())
    assert isinstance(step, RecordedStep)
    assert isinstance(prediction, Prediction)
    assert step.main.ns != 1_000_000
    assert prediction.eager_ns == step.main.ns


def compared(name: str) -> RunComparison:
    return compared_sample(name)["graph"]


@pytest.mark.parametrize("name", ["mlp-train", "transformer-train", "decode", "gpt-train"])
def test_shipped_experiments_are_predicted(name: str) -> None:
    run = compared(name)
    assert run["prediction_error"].value is not None
    assert abs(run["prediction_error"].value) < 0.08


def test_waiting_collectives_are_not_predicted() -> None:
    result = compared_sample("tp-transformer")
    run = result["graph-rank1"]
    assert isinstance(run.prediction, Missing)
    assert "wait for other ranks" in run.prediction.reason


def test_the_trace_of_other_work_predicts_nothing() -> None:
    pair = load_pair((SAMPLES / "fork-join/eager", SAMPLES / "superset/graph"))
    eager, graph = pair.runs
    run = compare_runs(pair, eager.name)[graph.name]
    missing = Missing(Fact.SAME_WORK, f"the trace of {eager.name} has different work, fork-join")
    assert run.prediction == missing
    assert run["predicted_step_time"].missing == missing
    # One workload with other parameters is other work too.
    orders = compared_sample("creation-order")
    assert isinstance(orders["longest-copy-first"].prediction, Prediction)
    shortest = orders["shortest-copy-first"].prediction
    assert isinstance(shortest, Missing)
    assert shortest.reason == "the trace of eager has different workload parameters"


def test_the_error_is_of_the_step_that_the_speedup_uses(tmp_path: Path) -> None:
    """Without clean timings, both include the waits for data, which a graph does not remove."""
    events = make_events()
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    for mark in [event for event in events if event["cat"] == "user_annotation"]:
        events.append(make_slice("user_annotation", name, mark["ts"] + 1, 15, mark["pid"]))
    prediction = predict(read_events(events, tmp_path / "trace.json"), CALIBRATION)
    assert isinstance(prediction, Prediction)
    assert isinstance(prediction.speedup, Estimate)
    assert prediction.remaining_idle_ns > 0
    measured = make_value("step_time", prediction.step_ns.value)
    step, error = compute_prediction_metrics(prediction, measured)
    assert step.value == pytest.approx(prediction.eager_ns / prediction.speedup.value)
    assert step.value is not None
    assert error.value == pytest.approx(step.value / prediction.step_ns.value - 1)
