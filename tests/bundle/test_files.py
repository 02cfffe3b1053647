from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphviz_dash.app.cli.main import main
from graphviz_dash.bundle import files
from graphviz_dash.bundle.document import write_atomically
from graphviz_dash.exports.files import replace_file
from tests.samples_once import SAMPLES

DECODE = SAMPLES / "decode"
SERVER = SAMPLES / "recorded-server" / "vllm-sizes"


def _write_export(path: Path, content: bytes) -> None:
    with replace_file(path) as file:
        file.write(content)


WRITERS: dict[str, Callable[[Path, bytes], None]] = {
    "document": write_atomically,
    "export": _write_export,
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_writer_touches_no_neighbour(
    tmp_path: Path, write: Callable[[Path, bytes], None]
) -> None:
    neighbours = {
        ".cal.json": b"mine",
        ".cal.json.part": b"mine",
        f".cal.json.{os.getpid()}.part": b"",
    }
    for name, content in neighbours.items():
        (tmp_path / name).write_bytes(content)
    write(tmp_path / "cal.json", b"new")
    assert (tmp_path / "cal.json").read_bytes() == b"new"
    for name, content in neighbours.items():
        assert (tmp_path / name).read_bytes() == content
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("call", ["open", "write", "close", "replace"])
def test_a_call_that_fails_leaves_the_old_file_and_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, bytes], None], call: str
) -> None:
    target = tmp_path / "cal.json"
    target.write_bytes(b"old")
    _fail(monkeypatch, call)
    with pytest.raises(Exception, match=r"No space left|no space left") as failed:
        write(target, b"new")
    monkeypatch.undo()
    assert str(target) in str(failed.value)
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def _fail(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """Let the next call of this name fail as on a full disk."""

    def fail(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if call == "replace":
        monkeypatch.setattr(Path, "replace", fail)
        return
    real = Path.open

    class Failing:
        def __init__(self, file: Any) -> None:
            self.file = file

        def __enter__(self) -> Failing:
            return self

        def write(self, content: bytes) -> int:
            return fail() if call == "write" else int(self.file.write(content))

        def __exit__(self, *_: object) -> None:
            self.file.close()
            if call == "close":
                fail()

    def open_failing(path: Path, *arguments: Any) -> Any:
        return fail() if call == "open" else Failing(real(path, *arguments))

    monkeypatch.setattr(Path, "open", open_failing)


def test_a_pipe_or_device_is_refused_at_once(tmp_path: Path) -> None:
    pipe, link, plain = (tmp_path / name for name in ("pipe", "link", "plain"))
    os.mkfifo(pipe)
    plain.write_bytes(b"content")
    link.symlink_to(plain)
    for path in (pipe, Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError, match=r"not a regular file|Is a directory"):
            files.read_regular_file(path, 10)
    assert files.read_regular_file(link, 4) == b"cont"
    with pytest.raises(OSError, match="symbolic links"):
        files.read_regular_file(link, 4, follow_links=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ["ladder", str(SERVER), "--traffic"],
        ["gate", str(DECODE), "--baseline"],
        ["launch"],
        ["predict", str(DECODE / "eager"), "--calibration"],
    ],
    ids=lambda arguments: arguments[0],
)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_no_option_waits_for_a_pipe_or_fills_memory(
    tmp_path: Path, arguments: list[str], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    path = "/dev/zero" if kind == "device" else str(tmp_path / "pipe")
    assert main([*arguments, path]) == 2
    assert "not a regular file" in capsys.readouterr().err
