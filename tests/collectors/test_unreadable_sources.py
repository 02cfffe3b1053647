"""Source lines that cannot be read cost a recorded program and its bundle nothing else."""

from __future__ import annotations

import errno
import linecache
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from collectors.collection import failures, source_code
from collectors.compiled.callers import add_callers
from collectors.doctor import places
from graphviz_dash.model.absence import Missing

CODE = "import sys\ndef fail():\n    # Source Nodes: [add]\n    raise ValueError(sys._getframe())\n"


@pytest.fixture(params=[OSError(errno.EIO, "failed"), MemoryError()], ids=["read", "allocation"])
def unreadable(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A file of code whose lines cannot be read; named like one that Inductor generates."""
    file = tmp_path / f"c{'a' * 51}.py"
    file.write_text(CODE, encoding="utf-8")

    def fail(*_: object) -> None:
        raise request.param

    linecache.clearcache()
    monkeypatch.setattr(linecache.tokenize, "open", fail)  # type: ignore[attr-defined]
    yield file
    linecache.clearcache()


def _raise_in(file: Path) -> ValueError:
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(CODE, str(file), "exec"), names)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is a frame
        names["fail"]()
    return caught.value


def test_lines_that_cannot_be_read_are_missing(unreadable: Path) -> None:
    result = source_code._read_file(unreadable.name, [unreadable.parent], time.time() + 60)
    assert isinstance(result, Missing)
    assert result.reason == "the file is empty or unreadable"
    assert places._read_source(str(unreadable)) == ()
    assert failures._find_source_nodes(_raise_in(unreadable)) == ""


def test_callers_without_lines_keep_their_place(
    unreadable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = _raise_in(unreadable).args[0]
    assert isinstance(frame, FrameType)
    monkeypatch.setattr("collectors.compiled.callers.is_user_file", lambda _: True)
    monkeypatch.setattr("collectors.compiled.callers._DYNAMO", "program")
    start = {"stack": [{"line": 1, "name": "f", "filename": "f.py"}]}
    result = add_callers({"dynamo_start": start}, frame)["dynamo_start"]["stack"]
    assert result[-1] == start["stack"][-1]
    assert {caller["loc"] for caller in result[:-1]} == {""}
    assert len(result) > 1
