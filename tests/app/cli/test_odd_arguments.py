from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from graphviz_dash.app.cli.main import main
from tests.builders import TraceBuilder, make_run
from tests.samples_once import SAMPLES

_SCRIPT: Final = Path(sys.executable).with_name("graphviz-dash")


def test_an_unreadable_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "toy", "graph")
    (run / "manifest.json").write_text("{}", encoding="utf-8")
    assert main(["ladder", str(run.parent)]) == 2
    assert "manifest.json: " in capsys.readouterr().err


@pytest.mark.parametrize("protocol", ["reference", "dir", "jupyter"])
@pytest.mark.parametrize("command", ["import", "fleet", "compare"])
def test_a_protocol_that_needs_more_is_refused(
    protocol: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["-o", str(tmp_path / "out")] if command == "import" else []
    assert main([command, f"{protocol}://x", *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"Error: {protocol}://x: ")
    assert "; expected an address" in error


def test_an_address_of_a_local_file_is_a_path(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel("gemm", 2_000, 3_000, correlation=1)
    file = builder.write(tmp_path / "a.json")
    assert main(["import", f"file://{file}", "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "a" / "manifest.json").is_file()


@pytest.mark.parametrize(
    "arguments",
    [["show", str(SAMPLES / "decode" / "graph")], ["ls", "--json", str(SAMPLES / "decode")]],
)
def test_closed_streams_are_no_error(arguments: list[str]) -> None:
    line = 'exec "$@" >&- 2>&-'
    ended = subprocess.run(["sh", "-c", line, "sh", _SCRIPT, *arguments], check=False)
    assert ended.returncode == 0
