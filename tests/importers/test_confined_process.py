from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from graphviz_dash.importers.confined_process import Message, Request, format_limits
from tests.importers.test_bundles import replay

MODULE = "graphviz_dash.importers.confined_process"


def messages(request: Request, module: str = MODULE) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-P", "-m", module],
        input=msgspec.json.encode(request),
        capture_output=True,
        check=True,
        env={"POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PATH": ""},
        cwd=Path(__file__).parents[2],
    )
    lines = done.stdout.splitlines()
    for line in lines:
        msgspec.json.decode(line, type=Message)  # type: ignore[call-overload]
    return [json.loads(line) for line in lines]


def request(file: Path, memory_bytes: int = 2 << 30) -> Request:
    return Request([str(file)], str(file.parent / "made"), None, 60, memory_bytes, 1 << 30)


def test_progress_and_then_what_was_made(tmp_path: Path) -> None:
    *before, last = messages(request(replay(tmp_path / "m.json.gz")))
    assert last == {"type": "finished", "name": "m"}
    shares = [message["share"] for message in before]
    assert shares == sorted(shares)
    assert {message["type"] for message in before} <= {"progress"}


def test_a_bad_file_is_refused_in_its_parts(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    *_, refused = messages(request(tmp_path / "notes.txt"))
    assert refused["type"] == "refused"
    assert refused["where"] == str(tmp_path / "notes.txt")
    assert refused["found"] == "a file of unknown kind"


def test_the_limits_are_stated_as_memory_and_time(tmp_path: Path) -> None:
    assert (
        format_limits(request(tmp_path / "x")) == "a file that can be read within 2.0 GiB and 60 s"
    )


def test_the_bounds_are_those_of_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from graphviz_dash.importers import confined_process

    limits: dict[int, tuple[int, int]] = {}
    monkeypatch.setattr(resource, "setrlimit", limits.__setitem__)
    # The tests' own process keeps its priority and its control.
    monkeypatch.setattr(sys, "platform", "other")
    lowered: list[int] = []
    monkeypatch.setattr(os, "nice", lowered.append)
    confined_process._set_limits(request(tmp_path / "x"))
    assert limits == {
        resource.RLIMIT_AS: (2 << 30, 2 << 30),
        resource.RLIMIT_CPU: (60, 61),
        resource.RLIMIT_CORE: (0, 0),
    }
    assert lowered == [10]


_BUSY = f"""
from {MODULE} import Request, _set_limits
_set_limits(Request(["x"], "made", None, 1, 1 << 40, 1 << 30))
any(iter(int, 1))
"""


def test_a_process_over_its_cpu_time_ends_by_sigxcpu() -> None:
    assert subprocess.run([sys.executable, "-c", _BUSY], check=False).returncode == -signal.SIGXCPU
