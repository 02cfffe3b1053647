from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from collectors.passes.trace_file import export_trace


class Profiler:
    """Writes ``text`` as its trace, and keeps the name that it was given."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.path = ""

    def export_chrome_trace(self, path: str) -> None:
        self.path = path
        Path(path).write_text(self._text, encoding="utf-8")


@pytest.mark.parametrize("name", ["replay.json.gz", "trace.json", "trace.json.gz"])
def test_the_trace_is_alone_in_its_folder_whatever_its_name(tmp_path: Path, name: str) -> None:
    profiler = Profiler('{"traceEvents": []}\n')
    export_trace(profiler, tmp_path / name)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert gzip.decompress((tmp_path / name).read_bytes()) == b'{"traceEvents": []}\n'
    assert profiler.path == "trace.json"


def test_a_trace_that_is_cut_off_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        export_trace(Profiler('{"traceEvents": [{"ph"'), tmp_path / "replay.json.gz")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
