from __future__ import annotations

import errno
import gzip
import os
import stat
from pathlib import Path

import pytest

from graphviz_dash.errors import InputError
from graphviz_dash.exports.files import replace_file


@pytest.mark.parametrize("name", ["t.pftrace", "t.pftrace.gz"])
def test_a_failed_export_leaves_the_old_file(tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    target.write_text("old")
    with pytest.raises(TypeError), replace_file(target) as file:
        file.write("no bytes")  # type: ignore[arg-type]
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_it_replaces_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "t.json"
    target.write_text("old")
    with replace_file(target) as file:
        file.write(b"new")
        assert target.read_text() == "old"
    assert target.read_bytes() == b"new"


def test_it_is_compressed_by_its_name_and_the_same_each_time(tmp_path: Path) -> None:
    contents = []
    for name in ("a.json.gz", "b.json.gz"):
        with replace_file(tmp_path / name) as file:
            file.write(b"new" * 1_000)
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]
    assert gzip.decompress(contents[0]) == b"new" * 1_000


@pytest.mark.parametrize("path", ["missing/t.pftrace", "."])
def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path, path: str) -> None:
    with (
        pytest.raises(InputError, match="expected a file"),
        replace_file(tmp_path / path),
    ):
        pass


@pytest.mark.parametrize("is_link", [False, True])
def test_a_device_or_pipe_is_not_replaced(tmp_path: Path, is_link: bool) -> None:
    pipe, target = tmp_path / "pipe", tmp_path / "target"
    os.mkfifo(pipe)
    if is_link:
        target.symlink_to(pipe)
    else:
        target = pipe
    with pytest.raises(InputError, match="not a regular file"), replace_file(target):
        pass
    assert stat.S_ISFIFO(target.stat().st_mode)
    assert target.is_symlink() == is_link


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    target = tmp_path / "t.json"
    with pytest.raises(OSError, match="No space") as caught, replace_file(target):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.filename == str(target)
    assert list(tmp_path.iterdir()) == []
