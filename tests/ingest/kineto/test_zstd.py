from __future__ import annotations

import sys
from pathlib import Path

import pytest

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.limits import Limits
from tests.builders import replay_trace

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def text() -> bytes:
    return replay_trace(steps=300).text().encode()


def write(folder: Path, content: bytes) -> Path:
    path = folder / "trace.json.zst"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("frames", [1, 3])
def test_frames_one_behind_the_other(tmp_path: Path, frames: int) -> None:
    step = len(text()) // frames + 1
    parts = [text()[at : at + step] for at in range(0, len(text()), step)]
    skippable = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"note"
    content = skippable + b"".join(zstd.compress(part) for part in parts)
    plain = tmp_path / "plain.json"
    plain.write_bytes(text())
    loaded, expected = read_trace(write(tmp_path, content)), read_trace(plain)
    assert loaded.gpu.equals(expected.gpu)
    assert loaded.runtime.equals(expected.runtime)
    assert loaded.info.completeness_problems == ()


def test_a_cut_file_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    content = zstd.compress(text())
    trace = read_trace(write(tmp_path, content[: len(content) * 3 // 4]))
    (problem,) = trace.info.completeness_problems
    assert problem.code == "cut-off"
    assert "zstd data ends unexpectedly" in problem.text
    assert trace.info.events > 100


def test_a_damaged_file_tells(tmp_path: Path) -> None:
    options = {zstd.CompressionParameter.checksum_flag: 1}
    content = bytearray(zstd.compress(text(), options=options))
    content[-2] ^= 0xFF
    (problem,) = read_trace(write(tmp_path, bytes(content))).info.completeness_problems
    assert problem.code == "damaged"
    assert "zstd data damaged" in problem.text


def test_limits_hold(tmp_path: Path) -> None:
    path = write(tmp_path, zstd.compress(b'{"traceEvents": [' + b" " * (70 << 20)))
    with pytest.raises(InputError, match=r"zstd data that expands .* times.*limit expansion"):
        read_trace(path, Limits(event_bytes=1 << 30))
