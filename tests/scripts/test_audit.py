from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "audit.py"
SOUND: dict[str, Any] = {"name": "click", "version": "8.1.7", "vulns": []}
SKIPPED: dict[str, Any] = {"name": "zipp", "skip_reason": "not found"}
FLAWED: dict[str, Any] = {
    "name": "isal",
    "version": "1.0",
    "vulns": [{"id": "CVE-2026-1", "fix_versions": ["1.1"], "description": "x"}],
}


@pytest.fixture
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_flaw_fails(audit: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.report([SOUND, FLAWED, SKIPPED]) == 1
    out = capsys.readouterr().out
    assert "isal 1.0: CVE-2026-1; fixed in: 1.1" in out
    assert "2 pinned packages audited, 1 vulnerabilities; 1 packages could not be audited" in out


def test_an_environment_without_pip_uses_that_of_its_python(
    audit: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(audit.importlib.util, "find_spec", lambda _: object())
    assert "PIPAPI_PYTHON_LOCATION" not in audit.build_environment()
    monkeypatch.setattr(audit.importlib.util, "find_spec", lambda _: None)
    python = audit.build_environment()["PIPAPI_PYTHON_LOCATION"]
    code = "import sys; print(sys.prefix)"
    result = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert Path(result.stdout.strip()) == Path(sys.base_prefix)
    # That has none either.
    error = f"CalledProcessError: Command '['{python}', '-m', 'pip', '--version']' returned 1"
    failed = subprocess.CompletedProcess((), 1, "", error)
    monkeypatch.setattr(audit.subprocess, "run", lambda *_, **__: failed)
    assert audit.main() == 3
    assert "-m ensurepip" in capsys.readouterr().err


def test_none_passes(audit: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.report([SOUND]) == 0
    assert "1 pinned packages audited, 0 vulnerabilities\n" in capsys.readouterr().out


def test_without_a_service_it_says_so(
    audit: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit.report([SKIPPED]) == 3
    assert "NOT audited" in capsys.readouterr().err


@pytest.mark.parametrize("prints", ["", "not json", '{"no": 1}'])
def test_an_answer_that_is_none(
    audit: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    prints: str,
) -> None:
    fake = [sys.executable, "-c", f"import sys; print({prints!r}); sys.exit('no network')"]
    run = audit.subprocess.run
    monkeypatch.setattr(audit.subprocess, "run", lambda _, **more: run(fake, **more))
    assert audit.main() == 3
    assert audit.main(["--optional"]) == 0
    assert "NOT audited: no network" in capsys.readouterr().err


def test_the_fonts_are_those_of_the_checksums() -> None:
    folder = Path(__file__).parents[2] / "graphviz_dash" / "ui" / "assets" / "fonts"
    lines = (folder / "SHA256SUMS").read_text(encoding="ascii").splitlines()
    sums = {name: checksum for checksum, name in (line.split() for line in lines)}
    files = {path.name: path for path in folder.iterdir() if path.name != "SHA256SUMS"}
    assert sums.keys() == files.keys()
    for name, file in files.items():
        assert hashlib.sha256(file.read_bytes()).hexdigest() == sums[name]
