from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from graphviz_dash.app.cli.main import main
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.load import load_experiment, search_experiments
from graphviz_dash.ui.state.catalogue import Catalogue, Entry
from tests.builders import TraceBuilder, make_experiment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")

_BAD = os.fsdecode(b"bad\xff")


def test_a_bad_experiment_is_skipped_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_experiment(tmp_path / "good", ["eager"])
    make_experiment(tmp_path / "bad", ["eager"]).rename(tmp_path / _BAD)
    found = search_experiments(tmp_path)
    assert found.experiments == (tmp_path / "good",)
    (problem,) = found.problems
    assert problem.isprintable()
    assert problem.endswith(r"bad\udcff: a name that is not UTF-8; rename it")
    for command in ("ls", "validate"):
        assert main([command, str(tmp_path)]) == 0
        ended = capsys.readouterr()
        assert "good" in ended.out
        assert r"Skipped: " in ended.err
        assert r"bad\udcff" in ended.err


def test_a_bad_run_costs_its_experiment_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = make_experiment(tmp_path / "good", ["eager"])
    mixed = make_experiment(tmp_path / "mixed", ["eager", "graph"])
    (mixed / "graph").rename(mixed / _BAD)
    assert search_experiments(tmp_path).experiments == (good, mixed)
    with pytest.raises(InputError, match="a name that is not UTF-8"):
        load_experiment(mixed)
    catalogue = Catalogue({path.name: Entry(path.name, path) for path in (good, mixed)}, (), ())
    assert list(catalogue.list_runs()) == ["good/eager", "mixed/eager"]
    assert main(["ls", "--json", str(tmp_path)]) == 2
    ended = capsys.readouterr()
    assert '"eager"' in ended.out
    assert r"bad\udcff" in ended.err
    assert main(["gate", str(mixed), "--baseline", str(good)]) == 2


@pytest.mark.parametrize("command", ["import", "fleet"])
def test_a_bad_file_spoils_no_other(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.json", f"{_BAD}.json"):
        builder = TraceBuilder()
        builder.annotation("step", 0, 10_000)
        builder.kernel("gemm", 2_000, 3_000, correlation=1)
        builder.write(tmp_path / "files" / name)
    options = ["-o", str(tmp_path / "out")] if command == "import" else []
    assert main([command, str(tmp_path / "files"), *options]) in (0, 1, 2)
    ended = capsys.readouterr()
    assert r"bad\udcff.json" in ended.out + ended.err
    assert "a name that is not UTF-8" in ended.out + ended.err
    if command == "import":
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["a"]


COMMANDS: dict[str, Callable[[Path, Path], list[str]]] = {
    "show": lambda bad, _: ["show", str(bad / "eager")],
    "show of a file": lambda bad, _: ["show", str(bad / "a.json")],
    "ls": lambda bad, _: ["ls", str(bad)],
    "compare": lambda bad, _: ["compare", str(bad)],
    "validate": lambda bad, _: ["validate", str(bad)],
    "serve": lambda bad, _: ["serve", str(bad)],
    "import": lambda bad, _: ["import", str(bad / "a.json"), "-o", str(bad / "out")],
    "import to": lambda bad, good: ["import", str(good / "a.json"), "-o", str(bad / "out")],
    "export": lambda bad, good: ["export", "html", str(good), "-o", str(bad / "out.html")],
    "doctor": lambda bad, _: ["doctor", "--bundle", str(bad)],
    "predict": lambda bad, _: ["predict", str(bad / "a.json")],
    "memory": lambda bad, _: ["memory", str(bad / "eager")],
    "launch": lambda bad, _: ["launch", str(bad)],
    "gate": lambda bad, good: ["gate", str(good), "--baseline", str(bad)],
    "fleet": lambda bad, _: ["fleet", str(bad)],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_bad_argument_is_an_error_of_one_line(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    good = make_experiment(tmp_path / "good", ["eager"])
    bad = make_experiment(tmp_path / "bad", ["eager"]).rename(tmp_path / _BAD)
    for folder in (good, bad):
        builder = TraceBuilder()
        builder.kernel("gemm", 2_000, 3_000, correlation=1)
        builder.write(folder / "a.json")
    code = main(COMMANDS[name](bad, good))
    error = capsys.readouterr().err.strip().splitlines()
    if name == "export":
        assert code == 0  # a file may have any name
    else:
        assert code in (1, 2)
        assert "not UTF-8" in error[-1]
