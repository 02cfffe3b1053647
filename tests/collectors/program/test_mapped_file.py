from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.program.mapped_file import MappedFile, read_mapped_file


@pytest.fixture
def file_limit() -> Iterator[int]:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    yield 100_000
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_content_is_appended_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    file = MappedFile(path)
    file.append(b"one")
    file.append(b"two")
    assert read_mapped_file(path) == b"onetwo"
    file.rewrite(b"new")
    assert read_mapped_file(path) == b"new"
    file.append(b"er")
    assert read_mapped_file(path) == b"newer"


def test_a_file_grows_and_keeps_nothing_open(tmp_path: Path) -> None:
    path = tmp_path / "file"
    before = os.listdir("/proc/self/fd")
    file = MappedFile(path)
    portion = bytes(range(256)) * 100
    for _ in range(20):
        file.append(portion)
    assert read_mapped_file(path) == 20 * portion
    assert os.listdir("/proc/self/fd") == before


def test_a_killed_process_leaves_all_writes(tmp_path: Path) -> None:
    program = """
import os, sys
from pathlib import Path
from collectors.program.mapped_file import MappedFile
file = MappedFile(Path(sys.argv[1]))
for number in range(1000):
    file.append(number.to_bytes(8, "little"))
os.kill(os.getpid(), 9)
"""
    path = tmp_path / "file"
    killed = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert read_mapped_file(path) == b"".join(each.to_bytes(8, "little") for each in range(1000))


def test_a_file_grows_to_the_limit_of_the_process(tmp_path: Path, file_limit: int) -> None:
    path = tmp_path / "file"
    file = MappedFile(path)
    file.append(b"a" * (file_limit - 1_000))
    # Beyond the limit, the system would send a signal that ends the program.
    with pytest.raises(OSError, match="File too large"):
        file.append(b"b" * 1_000)
    assert read_mapped_file(path) == b"a" * (file_limit - 1_000)


def test_a_file_that_cannot_be_mapped_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(IsADirectoryError):
        MappedFile(tmp_path / "file").append(b"content")
    with pytest.raises(OSError, match="No such device"):
        # A device without memory.
        MappedFile(Path("/dev/full")).append(b"content")
