from __future__ import annotations

import importlib
import os
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

_COMMANDS: Final[dict[str, tuple[list[str], ...]]] = {
    "collect": (
        ["--workload", "decode", "-o", "out"],
        ["-o", "out", "--", sys.executable, "-P", "-c", "import sys"],
    ),
    "import": (["files", "-o", "out"], ["files/a.json", "-o", "out"]),
    "bench": (["launch", "-o", "out"], ["predict", "--suite", "no_such_suite", "-o", "out"]),
    "demo": (["--help"],),
    "serve": (["--help"],),
    "efficiency": ([_GRAPH],),
    "ls": ([_DECODE],),
    "compare": (["files"], [_DECODE]),
    "show": ([_GRAPH], ["files/a.json"]),
    "predict": ([f"{_DECODE}/eager"], ["files/a.json"]),
    "doctor": (
        ["--bundle", f"{_DECODE}/eager"],
        ["--workload", "decode"],
        ["--", sys.executable, "-P", "-c", "import sys"],
    ),
    "compile": ([_GRAPH],),
    "diff": ([_GRAPH, _GRAPH],),
    "memory": ([_GRAPH],),
    "ladder": ([str(SAMPLES / "recorded-server" / "vllm-sizes")],),
    "launch": ([],),
    "fleet": (["files"],),
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
    "calibrate": (["runs", "-o", "cal.json"],),
}
"""Arguments of each command. test_serve.py starts a server in such a folder."""


@pytest.mark.parametrize("name", COMMANDS_BY_NAME)
def test_no_command_runs_a_module_of_the_working_folder(name: str, tmp_path: Path) -> None:
    folder = _plant(tmp_path)
    files = folder / "files"
    files.mkdir()
    for trace in ("a.json", "b.json"):
        builder = TraceBuilder()
        builder.kernel("gemm", 2_000, 3_000, correlation=1)
        builder.write(files / trace)
    if name == "calibrate":
        for number in range(12):
            make_experiment(folder / "runs" / f"w{number}")
    environment = os.environ | {"GRAPHVIZ_DASH_CACHE": str(tmp_path / "cache")}
    environment.pop("PYTHONSAFEPATH", None)
    for arguments in _COMMANDS[name]:
        ended = subprocess.run(
            [_SCRIPT, name, *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in ended.stderr, ended.stderr
        assert not (tmp_path / "ran").exists(), (arguments, (tmp_path / "ran").read_text())


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
