from __future__ import annotations

import gzip
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.formats.text import read_bytes, read_json, read_text
from graphviz_dash.ingest.limits import Limits

LIMITS = Limits(memory_bytes=1 << 20)


class _Point(msgspec.Struct):
    x: int


def test_plain_and_compressed_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"caf\xe9")
    (tmp_path / "b").write_bytes(gzip.compress(b"caf\xe9"))
    assert read_bytes(tmp_path / "a", LIMITS) == read_bytes(tmp_path / "b", LIMITS) == b"caf\xe9"
    assert read_text(tmp_path / "a", LIMITS) == "caf\ufffd"


def test_more_than_a_quarter_of_the_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * (1 << 18))
    assert len(read_bytes(path, LIMITS)) == 1 << 18
    path.write_bytes(b"x" * ((1 << 18) + 1))
    with pytest.raises(InputError, match="a larger text; expected at most 262,144 bytes"):
        read_bytes(path, LIMITS)


def test_a_file_that_is_cut_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(b"x" * 10_000)[:-9])
    with pytest.raises(InputError, match=r"ends unexpectedly.*expected a complete file"):
        read_bytes(path, LIMITS)


def test_only_named_fields_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text('{"x": 3, "y": [1, 2, {"z": null}]}')
    assert read_json(path, LIMITS, _Point, "a point") == _Point(3)


@pytest.mark.parametrize("text", ["{", '{"x": "3"}', "[]", "[" * 5_000, "\xff", "9" * 5_000])
def test_invalid_json_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a"
    path.write_text(text)
    with pytest.raises(InputError, match="expected a point"):
        read_json(path, LIMITS, _Point, "a point")


def test_values_are_counted_before_they_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("[" + "[]," * 10_000 + "[]]")
    with pytest.raises(InputError, match="limit memory_bytes"):
        read_json(path, LIMITS, list[list[int]], "lists")
    more = replace(LIMITS, memory_bytes=1 << 23)
    assert len(read_json(path, more, list[list[int]], "lists")) == 10_001
