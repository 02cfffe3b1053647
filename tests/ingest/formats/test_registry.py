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
def test_a_file_of_unknown_format_is_refused(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        require_format(tmp_path / name)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ('[{"count": 20}, {"name": "conv", "averageMs": 1, "percentage": 5}]', "TensorRT"),
        ('[{"children": [], "frame": {"name": "ROOT"}, "metrics": {}}]', "Proton"),
        ('{"rocprofiler-sdk-tool": [{"metadata": {"pid": 908}}]}', "rocprofv3"),
        ('{"$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {}}', "sp"),
        ('[{"id": 1, "model_name": "m", "timestamps": []}]', "Triton Inference Server"),
        ('{"session": {}, "root_frame": {}}', "pyinstrument"),
        (
            '[{"name": "aten::relu", "ph": "X", "ts": 136.73, "dur": 184.65, "tid": 1, '
            '"pid": "CPU functions", "args": {}}]',
            "torch.autograd.profiler",
        ),
        ('{"nodes": [{"id": 1, "callFrame": {}}], "startTime": 1}', "Chrome"),
        ('{"schema": "1.1.1-chakra.0.0.4", "nodes": [{"ctrl_deps": 1}]}', "execution trace"),
    ],
)
def test_profiles_of_other_tools_are_named(tmp_path: Path, text: str, description: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(InputError, match=description):
        require_format(path)


def test_a_trace_with_fields_of_other_tools_is_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"schema": 1, "nodes": [], "inputs": [], "traceEvents": []}')
    assert require_format(path).kind is SourceKind.KINETO
