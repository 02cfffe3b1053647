from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.cache_entry import (
    DamagedEntryError,
    FallbackSource,
    load_entry,
    read_entry_info,
    write_entry,
)
from graphviz_dash.ingest.kineto.columns import SCHEMAS
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.model.trace import Trace
from tests.builders import replay_trace


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return read_trace(replay_trace().write(tmp_path / "trace.json.gz"))


@pytest.fixture
def entry(tmp_path: Path, trace: Trace) -> Path:
    (tmp_path / "entry").mkdir()
    write_entry(tmp_path / "entry", trace)
    return tmp_path / "entry"


def unused() -> Trace:
    raise AssertionError("the trace was read again")


UNUSED = FallbackSource(unused, lambda *_: pytest.fail("the entry was replaced"))


def test_a_written_entry_is_read_on_demand(entry: Path, trace: Trace) -> None:
    again = load_entry(entry, Path("moved.json"), UNUSED)
    assert again.info.source == "moved.json"
    assert "gpu" not in vars(again)
    assert all(getattr(again, name).equals(getattr(trace, name)) for name in SCHEMAS)
    assert again.offsets is not None
    assert trace.offsets is not None
    assert list(again.offsets.rows) == list(SCHEMAS)
    assert again.offsets.rows["gpu"].equals(trace.offsets.rows["gpu"])


def test_its_info_names_the_trace_and_each_file(entry: Path, trace: Trace) -> None:
    info = read_entry_info(entry)
    assert info.trace == trace.info
    assert trace.offsets is not None
    assert info.path == str(trace.offsets.path.resolve())
    assert set(info.files) == {file.name for file in entry.iterdir()} - {"info.json"}


def test_no_entry(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_entry(tmp_path / "none", Path("trace.json"), UNUSED)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda entry: (entry / "info.json").write_bytes(b"{"), "info.json: "),
        (lambda entry: (entry / "info.json").write_bytes(b"\xff"), "info.json: "),
        (
            lambda entry: (entry / "info.json").write_bytes(
                (entry / "info.json").read_bytes().replace(b"gpu.parquet", b"gpX.parquet")
            ),
            "info.json does not match its checksum",
        ),
        (lambda entry: (entry / "gpu.parquet").write_bytes(b""), "gpu.parquet has 0 of"),
    ],
)
def test_damage_that_shows_at_once(
    entry: Path, damage: Callable[[Path], object], said: str
) -> None:
    damage(entry)
    with pytest.raises(DamagedEntryError, match=said):
        load_entry(entry, Path("trace.json"), UNUSED)


def test_damage_that_shows_when_a_table_is_read(entry: Path, trace: Trace) -> None:
    damages: list[object] = []
    source = FallbackSource(lambda: trace, lambda _, damage: damages.append(damage))
    again = load_entry(entry, Path(trace.info.source), source)
    file = entry / "gpu.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert again.gpu.equals(trace.gpu)
    assert [str(damage) for damage in damages] == ["gpu.parquet does not match its checksum"]


def test_an_entry_that_was_removed_meanwhile_and_a_trace_that_changed(
    entry: Path, trace: Trace, tmp_path: Path
) -> None:
    damages: list[object] = []
    source = FallbackSource(lambda: trace, lambda _, damage: damages.append(damage))
    again = load_entry(entry, Path(trace.info.source), source)
    other = read_trace(replay_trace(steps=7).write(tmp_path / "trace.json.gz"))
    changed = load_entry(
        entry, Path(trace.info.source), FallbackSource(lambda: other, lambda *_: None)
    )
    (entry / "ops.parquet").unlink()
    assert again.ops.equals(trace.ops)
    assert damages == [None]
    with pytest.raises(InputError, match="a different trace from the one opened"):
        changed.ops  # noqa: B018
