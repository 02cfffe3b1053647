from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.analysis.ledger.report import list_ledger_reports
from graphviz_dash.analysis.metrics.kernel_table import build_kernel_table
from graphviz_dash.analysis.nodes.concurrency import analyze_run
from graphviz_dash.analysis.nodes.node_table import build_tables
from graphviz_dash.analysis.ranks.ranks import compare_ranks
from graphviz_dash.app.cli.command_table import COMMANDS_BY_NAME
from graphviz_dash.app.cli.main import main
from graphviz_dash.app.compare.documents.comparison import build_comparison_document
from graphviz_dash.app.compare.documents.run import SingleRunDocument, build_run_document
from graphviz_dash.app.documents.schemas import build_schema
from graphviz_dash.exports.documents.envelope import VERSIONS, add_version
from graphviz_dash.features.launch.document import build_launch_document
from graphviz_dash.features.memory.comparison import compare_memory
from graphviz_dash.features.memory.document import build_memory_document
from graphviz_dash.features.prediction.analysis.stream_prediction import predict_run_parallel
from graphviz_dash.ingest.load import load_experiment
from scripts.document_schemas import build_schema_files
from tests.importers.fleets import work_in_threads
from tests.samples import compared_sample

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "docs" / "schemas"
GOLD = sorted((ROOT / "tests" / "cli" / "gold").glob("*.json"))
SAMPLES = sorted(
    path.name
    for path in (ROOT / "sample_traces").iterdir()
    if path.is_dir() and path.name != "launch-h200"
)


def closed(schema: Any) -> Any:
    """The schema, with no field allowed that it does not name."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(part) for key, part in schema.items()}
    return inner | ({"additionalProperties": False} if "properties" in schema else {})


VALIDATORS = {name: Draft202012Validator(closed(build_schema(name))) for name in VERSIONS}


def problems(text: str) -> list[str]:
    document = json.loads(text)
    errors = VALIDATORS[document["schema"].partition("/")[2]].iter_errors(document)
    return [f"{error.json_path}: {error.message[:200]}" for error in errors]


def test_the_published_schemas_are_current() -> None:
    assert {path.name: path.read_text() for path in PUBLISHED.iterdir()} == build_schema_files()


@pytest.mark.parametrize("name", VERSIONS)
def test_a_schema_is_one(name: str) -> None:
    Draft202012Validator.check_schema(build_schema(name))


def test_schema_violations_are_reported() -> None:
    text = (ROOT / "tests" / "cli" / "gold" / "ls.json").read_text()
    document = json.loads(text)
    assert problems(text) == []
    del document["experiments"][0]["baseline"]
    document["experiments"][0]["more"] = 1
    document["experiments"][0]["runs"][0]["rank"] = "first"
    assert len(problems(json.dumps(document))) == 3


@pytest.mark.parametrize("path", GOLD, ids=lambda path: path.stem)
def test_gold_documents_are_valid(path: Path) -> None:
    assert problems(path.read_text()) == []


Printed = Callable[..., str]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Printed:
    """A command's document as text, run at the root of the repository."""
    monkeypatch.chdir(ROOT)
    work_in_threads(monkeypatch)

    def run(*arguments: str) -> str:
        capsys.readouterr()
        main([*arguments, "--json"])
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("sample", SAMPLES)
def test_documents_of_the_samples_are_valid(sample: str) -> None:
    result = compared_sample(sample)
    experiment = load_experiment(ROOT / "sample_traces" / sample)
    kernels = build_kernel_table(experiment, result.baseline)
    ranks = compare_ranks(experiment)
    documents = {
        "compare": [build_comparison_document(result, kernels, ranks)],
        "launch": [build_launch_document({}, None, {sample: experiment}, {}, None, ())],
        "memory": [
            build_memory_document(
                experiment,
                compare_memory(result),
                [(report, None) for report in list_ledger_reports(experiment.runs)],
                10,
            )
        ],
        "show": [shown_document(run) for run in result.runs],
    }
    for name, contents in documents.items():
        for content in contents:
            assert problems(json.dumps(add_version(name, content))) == [], name


def shown_document(result: RunComparison) -> SingleRunDocument:
    run = result.run
    tables = list(build_tables(run).values())
    measured = analyze_run(run, tables)
    parallel = predict_run_parallel(run, measured, tables)
    return build_run_document(result, result.metrics, tables, measured, parallel, 10)


@pytest.mark.parametrize(
    "arguments",
    [
        ("ls", "sample_traces"),
        ("fleet", "sample_traces/tp-transformer"),
        ("predict", "sample_traces/mlp-train"),
        ("predict", "sample_traces/sync-in-step"),
        ("predict", "sample_traces/tp-transformer"),
        ("gate", "sample_traces/mlp-train", "--baseline", "sample_traces/mlp-train"),
        ("doctor", "--bundle", "sample_traces/sync-in-step/graph"),
        ("doctor", "--bundle", "sample_traces/moved-inputs/doctor"),
        ("launch", "sample_traces/launch-h200", "sample_traces/launch-h200", "--published"),
        (
            "diff",
            "sample_traces/creation-order/longest-copy-first",
            "sample_traces/creation-order/shortest-copy-first",
        ),
        (
            "diff",
            "sample_traces/graph-update/graph:graph-0",
            "sample_traces/graph-update/graph:graph-5",
        ),
        ("diff", "sample_traces/all-nodes/graph:graph-0", "sample_traces/superset/graph:graph-0"),
        ("compile", "sample_traces/mlp-train/compile"),
    ],
)
def test_documents_of_other_commands_are_valid(
    arguments: tuple[str, ...], printed: Printed
) -> None:
    assert problems(printed(*arguments)) == []


def test_the_document_of_an_import_is_valid(printed: Printed, tmp_path: Path) -> None:
    trace = "sample_traces/mlp-train/eager/traces/replay.json.gz"
    assert problems(printed("import", trace, "-o", str(tmp_path / "out"))) == []


def test_every_document_of_a_command_has_a_schema() -> None:
    # graphviz-dash doctor --replays prints a second document.
    assert set(VERSIONS) - {"replay-check"} <= COMMANDS_BY_NAME.keys()
