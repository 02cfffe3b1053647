"""A file is known by its content, whatever it is called."""

from __future__ import annotations

import gzip
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.formats.registry import SourceKind, require_format


def _database(path: Path) -> bytes:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE a (b)")
        database.commit()
    return path.read_bytes()


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b'{"schemaVersion": 1, "traceEvents": []}', SourceKind.KINETO),
        (b"  [\n{}]", SourceKind.KINETO),
        (b"digraph dot {\n", SourceKind.DEBUG_DOT),
        (b'{"exec_graph_id": 3, "nodes": []}', SourceKind.GRAPH_DATA),
        (b'{"segments": [], "device_traces": []}', SourceKind.MEMORY_SNAPSHOT),
        (pickle.dumps({}), SourceKind.PICKLE),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_by_content(tmp_path: Path, content: bytes, kind: SourceKind, packed: bool) -> None:
    file = tmp_path / "something.sqlite"
    file.write_bytes(gzip.compress(content) if packed else content)
    assert require_format(file).kind is kind


def test_a_database(tmp_path: Path) -> None:
    _database(tmp_path / "report.json")
    assert require_format(tmp_path / "report.json").kind is SourceKind.NSIGHT


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", b"", "an empty file"),
        ("a.txt", b"hello", "of unknown kind"),
        ("a.nsys-rep", b"\x01\x02", "nsys export --type sqlite a.nsys-rep"),
        ("a.zip", b"PK\x03\x04....", "a zip archive"),
    ],
)
def test_what_is_not_known(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        require_format(tmp_path / name)
    assert said in str(error.value)
