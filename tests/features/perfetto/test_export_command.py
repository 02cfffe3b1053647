from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.app.cli.main import main
from graphviz_dash.model.run import Failure, Pass
from tests.builders import make_experiment, make_run
from tests.exports.reading import read_chrome, read_perfetto


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_experiment(tmp_path_factory.mktemp("cli") / "toy")


def test_a_checked_native_trace(
    toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "toy.pftrace"
    assert main(["export", "perfetto", str(toy), "-o", str(file), "--check"]) == 0
    told = capsys.readouterr()
    assert told.out == f"{file}\n"
    assert "eager, graph: 11 tracks" in told.err
    assert "66 flows" in told.err
    assert "packets are consistent" in told.err
    assert read_perfetto(file).processes == ["eager", "graph"]


@pytest.mark.parametrize(
    ("name", "options", "is_json"),
    [
        ("t.json", [], True),
        ("t.JSON.gz", [], True),
        ("t.trace", ["--format", "json"], True),
        ("t.pftrace.gz", [], False),
        ("t.json", ["--format", "proto"], False),
        ("noname", [], False),
    ],
)
def test_the_format_follows_the_name_unless_it_is_given(
    toy: Path, tmp_path: Path, name: str, options: list[str], is_json: bool
) -> None:
    file = tmp_path / name
    assert main(["export", "perfetto", str(toy), "-o", str(file), *options]) == 0
    read = read_chrome if is_json else read_perfetto
    assert read(file).processes == ["eager", "graph"]


def test_a_run_that_failed_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path / "toy", "eager")
    failure = Failure(Pass.TRACED, "Cuda\x1b[2JError", "not permitted", None, "")
    make_run(tmp_path / "toy", "graph", failure=failure)
    assert main(["export", "perfetto", str(tmp_path / "toy"), "-o", str(tmp_path / "t")]) == 0
    assert r"omitted graph: the traced pass failed: Cuda\x1b[2JError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["missing", "-o", "t"], 2, "no such folder"),
        (["toy", "-o", "no/such/t"], 2, "no such file or directory"),
        (["toy", "-o", "."], 2, "a folder"),
        (["toy"], 2, "Missing option"),
        (["toy", "-o", "t.json", "--check"], 2, "not JSON"),
        (["toy", "-o", "t", "--format", "xml"], 2, "xml"),
        (["toy/eager", "-o", "t"], 2, "a single run"),
    ],
)
def test_an_invalid_export_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    told: str,
) -> None:
    make_experiment(tmp_path / "toy")
    monkeypatch.chdir(tmp_path)
    assert main(["export", "perfetto", *arguments]) == code
    text = capsys.readouterr()
    assert text.out == ""
    assert told in text.err
    assert "Traceback" not in text.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["toy"]
