from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.metrics.kernel_table import build_kernel_table
from graphviz_dash.app.cli.main import main
from graphviz_dash.app.report.report import render_report
from graphviz_dash.features.perfetto.trace.slice_arguments import build_gpu_args
from graphviz_dash.features.prediction.stream_document import build_plan_document
from graphviz_dash.features.prediction.stream_narrative import (
    describe_plan,
)
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.absence import Missing
from tests.analysis.parallel.training import chain_plan, write_parallel_experiment

PLAN = chain_plan(4)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parallel") / "training"
    return write_parallel_experiment(folder, PLAN)


@pytest.fixture(scope="module")
def result(experiment: Path) -> Comparison:
    return compare_runs(load_experiment(experiment))


def test_a_graph_of_several_streams_is_not_scored_as_one_of_one(result: Comparison) -> None:
    missing = result["parallel"].prediction
    assert isinstance(missing, Missing)
    assert "several" in missing.reason


def test_report_and_json_have_the_plan(result: Comparison) -> None:
    sentence = describe_plan("parallel", PLAN)[0]
    page = render_report(result, build_kernel_table(result.experiment, None), {}, ("", ""))
    assert sentence in page.decode()
    document = build_plan_document("parallel", PLAN)
    assert [attempt.measured for attempt in document.attempts] == [None, 800_000]
    assert document.sentences[0] == sentence


def test_the_terminal_shows_the_plans_by_streams(
    experiment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(experiment), "--kernels", "0", "--all"]) == 0
    printed = capsys.readouterr().out
    assert "parallel: the step on several streams" in printed
    assert "4, chosen" in printed


def test_slices_say_which_stream_issued_their_node(result: Comparison) -> None:
    run = result["parallel"].run
    assert run.replay_trace is not None
    (arg,) = (
        arg for arg in build_gpu_args(run, run.replay_trace) if arg.name == "issued_on_stream"
    )
    assert set(arg.values[arg.present].tolist()) == {0, 1, 2, 3}
    plain = result["graph"].run
    assert plain.replay_trace is not None
    names = {arg.name for arg in build_gpu_args(plain, plain.replay_trace)}
    assert "issued_on_stream" not in names


def test_dot_has_the_dependencies_of_the_data(experiment: Path, tmp_path: Path) -> None:
    file = tmp_path / "graph.dot"
    assert main(["export", "dot", str(experiment / "parallel"), "-o", str(file), "--by-data"]) == 0
    drawn = file.read_text(encoding="utf-8")
    assert "n0 -> n4" in drawn
    assert "n0 -> n1 " not in drawn
    assert "n0 -> n1;" not in drawn
