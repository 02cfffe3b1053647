"""The order in which files of tests begin names files that are there, each once."""

from __future__ import annotations

from pathlib import Path

from tests.order import FIRST


def test_every_file_that_begins_early_is_there() -> None:
    files = [file for row in FIRST for file in row]
    assert [file for file in files if not (Path(__file__).parent / file).is_file()] == []
    assert len(set(files)) == len(files)
