from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from collectors.collection import machine
from collectors.launch import processes
from collectors.predict import run
from collectors.program.launcher import require_hook
from collectors.workloads import load_factory
from graphviz_dash.app.cli.command_table import COMMANDS_BY_NAME
from tests.experiments import make_experiment
from tests.samples_once import SAMPLES
from tests.trace_builder import TraceBuilder

_SCRIPT: Final = Path(sys.executable).with_name("graphviz-dash")
_MODULES: Final = (
    *("multiprocessing", "json", "sitecustomize", "usercustomize", "collectors", "graphviz_dash"),
    *("secrets", "ctypes", "resource", "polars", "numpy", "msgspec", "isal", "torch", "logging"),
    *("typing", "signal", "collections", "importlib"),
)
_DECODE: Final = str(SAMPLES / "decode")
_GRAPH: Final = f"{_DECODE}/graph"

_SCRIPTS: Final[dict[str, tuple[list[str], ...]]] = {
    "collect": (
        ["--workload", "decode", "-o", "out"],
        ["-o", "out", "--", sys.executable, "-P", "-c", "import sys"],
    ),
    "import": (["files", "-o", "out"], ["files/a.json", "-o", "out"]),
    "bench": (["launch", "-o", "out"], ["predict", "--suite", "no_such_suite", "-o", "out"]),
    "compare": (["files"],),
    "doctor": (
        ["--workload", "decode"],
        ["--", sys.executable, "-P", "-c", "import sys"],
    ),
    "fleet": (["files"],),
    "calibrate": (["runs", "-o", "cal.json"],),
}
"""Arguments of commands that start processes. test_serve.py starts a server in such a folder."""
_CALLS: Final[dict[str, tuple[list[str], ...]]] = {
    "demo": (["--help"],),
    "serve": (["--help"],),
    "efficiency": ([_GRAPH],),
    "ls": ([_DECODE],),
    "compare": ([_DECODE],),
    "show": ([_GRAPH], ["files/a.json"]),
    "predict": ([f"{_DECODE}/eager"], ["files/a.json"]),
    "doctor": (["--bundle", f"{_DECODE}/eager"],),
    "compile": ([_GRAPH],),
    "diff": ([_GRAPH, _GRAPH],),
    "memory": ([_GRAPH],),
    "ladder": ([str(SAMPLES / "recorded-server" / "vllm-sizes")],),
    "launch": ([],),
    "export": (
        ["perfetto", _DECODE, "-o", "out.json"],
        ["html", _DECODE, "-o", "out.html"],
        ["kernels", _DECODE, "-o", "out.csv"],
    ),
    "gate": ([_DECODE, "--write-baseline", "baseline.json"],),
    "validate": ([_GRAPH],),
    "cache": ([], ["--clear"]),
    "completion": (["bash"],),
    "docs": ([],),
}
"""Arguments of commands that share a process, because its start dominates their time."""
_CALLER: Final = """
import json, os, sys

found = {}

def note(event, arguments):
    if event != "import":
        return
    for folder in arguments[2] or ():
        if folder not in found:
            found[folder] = os.path.realpath(folder) == os.getcwd()
        if found[folder]:
            with open(sys.argv[1], "a") as file:
                file.write(f"{arguments[0]} ")

sys.addaudithook(note)
from graphviz_dash.app.cli.main import main

for arguments in json.loads(sys.argv[2]):
    print(arguments[0], main(arguments), file=sys.stderr)
    # A command may have looked for no new module.
    note("import", (arguments[0], None, sys.path))
"""
"""A script like graphviz-dash for several commands. A module that is loaded already is not searched
again, so it also notes each search in the working folder."""


def test_every_command_is_tried() -> None:
    assert {*_SCRIPTS, *_CALLS} == {*COMMANDS_BY_NAME}


@pytest.mark.parametrize("name", _SCRIPTS)
def test_no_script_runs_a_module_of_the_working_folder(name: str, tmp_path: Path) -> None:
    folder = _plant_with_traces(tmp_path)
    if name == "calibrate":
        for number in range(12):
            make_experiment(folder / "runs" / f"w{number}")
    for arguments in _SCRIPTS[name]:
        _run([_SCRIPT, name, *arguments], folder)
        assert not (tmp_path / "ran").exists(), (arguments, (tmp_path / "ran").read_text())


def test_no_command_searches_the_working_folder(tmp_path: Path) -> None:
    folder = _plant_with_traces(tmp_path)
    commands = [[name, *arguments] for name, calls in _CALLS.items() for arguments in calls]
    caller = _write_caller(tmp_path)
    errors = _run([sys.executable, caller, tmp_path / "ran", json.dumps(commands)], folder)
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
    assert re.findall(r"^(\w+) [0-2]$", errors, re.M) == [name for name, *_ in commands]


@pytest.mark.parametrize("entry", ["", ".", "working"])
def test_a_search_of_the_working_folder_is_noted(tmp_path: Path, entry: str) -> None:
    folder = _plant(tmp_path)
    caller = _write_caller(tmp_path)
    path = str(folder) if entry == "working" else entry
    start = f"def main(arguments):\n    sys.path.insert(0, {path!r})\n"
    imported = "from graphviz_dash.app.cli.main import main\n"
    assert imported in _CALLER
    caller.write_text(_CALLER.replace(imported, start), encoding="utf-8")
    _run([sys.executable, caller, tmp_path / "ran", '[["ls"]]'], folder)
    assert (tmp_path / "ran").read_text() == "ls "


def _write_caller(tmp_path: Path) -> Path:
    caller = tmp_path / "bin" / "caller.py"
    caller.parent.mkdir()
    caller.write_text(_CALLER, encoding="utf-8")
    return caller


def _plant_with_traces(tmp_path: Path) -> Path:
    folder = _plant(tmp_path)
    (folder / "files").mkdir()
    for trace in ("a.json", "b.json"):
        builder = TraceBuilder()
        builder.kernel("gemm", 2_000, 3_000, correlation=1)
        builder.write(folder / "files" / trace)
    return folder


def _run(command: list[str | Path], folder: Path) -> str:
    """Run a command in a folder and return its errors."""
    environment = os.environ | {"GRAPHVIZ_DASH_CACHE": str(folder.parent / "cache")}
    environment.pop("PYTHONSAFEPATH", None)
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended.stderr


@pytest.mark.parametrize("command", [machine.WORKER, processes.COMMAND, run.WORKER])
def test_no_process_of_a_collection_runs_one_either(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    # The commands above need a GPU to start these.
    subprocess.run(
        [*command, "missing.json"], cwd=_plant(tmp_path), capture_output=True, check=False
    )
    assert not (tmp_path / "ran").exists()


def test_the_question_to_a_programs_python_runs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(_plant(tmp_path))
    require_hook([sys.executable, "train.py"], ["msgspec"])
    assert not (tmp_path / "ran").exists()


def test_a_module_beside_a_users_workload_replaces_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _plant(tmp_path)
    (folder / "theirs.py").write_text("def make(): return print\n", encoding="utf-8")
    (folder / "colorsys.py").write_text((folder / "json.py").read_text(), encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    load_factory("theirs:make")
    importlib.import_module("colorsys")
    assert not (tmp_path / "ran").exists()


def _plant(tmp_path: Path) -> Path:
    """Create a folder of modules that write their names to ``ran``."""
    folder = tmp_path / "working"
    folder.mkdir()
    for name in _MODULES:
        code = f"open({str(tmp_path / 'ran')!r}, 'a').write({f'{name} '!r})\n"
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    package = folder / "collectors"
    package.mkdir()
    (package / "__init__.py").write_text((folder / "collectors.py").read_text(), encoding="utf-8")
    return folder
