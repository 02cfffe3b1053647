from __future__ import annotations

import gzip
import os
from pathlib import Path
from random import Random

import pytest

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.limits import Limits
from graphviz_dash.progress import watch

TEXT = Random(1).randbytes(300_000).hex().encode()
LIMITS = Limits()


def all_of(path: Path, limits: Limits = LIMITS) -> bytes:
    with ByteStream(path, limits, expansion_from=1 << 16) as stream:
        return b"".join(iter(stream.read, b""))


@pytest.mark.parametrize("content", [b"", b"x", TEXT])
def test_plain_and_gzip_by_their_first_bytes(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.txt"
    path.write_bytes(content)
    assert all_of(path) == content
    path.write_bytes(gzip.compress(content))
    assert all_of(path) == content


def test_members_one_behind_the_other_and_the_zeros_of_tapes(tmp_path: Path) -> None:
    path = tmp_path / "tape"
    half = len(TEXT) // 2
    parts = (gzip.compress(TEXT[:half]), bytes(512), gzip.compress(TEXT[half:]), bytes(1_024))
    path.write_bytes(b"".join(parts))
    assert all_of(path) == TEXT


@pytest.mark.parametrize("packed", [False, True])
def test_reading_and_skipping_come_to_the_same_place(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(TEXT) if packed else TEXT)
    with ByteStream(path, LIMITS, 1_000) as stream:
        assert stream.read(7) == TEXT[:7]
        stream.skip(100_000)
        assert stream.read(9) == TEXT[100_007:100_016]


def test_a_cut_and_a_flipped_bit_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "file.gz"
    whole = gzip.compress(TEXT)
    path.write_bytes(whole[:-1_000])
    with ByteStream(path, LIMITS) as stream:
        read = b"".join(iter(stream.read, b""))
        assert stream.damage is not None
        assert stream.damage.is_truncated
        assert TEXT.startswith(read)
        assert len(read) > len(TEXT) // 2
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1
    path.write_bytes(damaged)
    with ByteStream(path, LIMITS) as stream:
        b"".join(iter(stream.read, b""))
        assert stream.damage is not None
        assert not stream.damage.is_truncated


def test_limits_of_size_and_expansion(tmp_path: Path) -> None:
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(bytes(1 << 20)))
    with pytest.raises(InputError, match="limit expansion"):
        all_of(path)
    with pytest.raises(InputError, match="limit decompressed_bytes"):
        all_of(path, Limits(decompressed_bytes=1 << 17, expansion=1 << 20))


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"PK\x03\x04", "zip"), (b"\xfd7zXZ", "xz"), (b"BZh", "bzip2"), (b"\xff\xfe", "UTF-16")],
)
def test_other_compressions_are_named(tmp_path: Path, content: bytes, kind: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content + bytes(100))
    with pytest.raises(InputError, match=kind):
        ByteStream(path, LIMITS)


def test_pipes_folders_and_absent_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, said in (("pipe", "a pipe"), ("none", "no such file"), (".", "a folder")):
        with pytest.raises(InputError, match=said):
            ByteStream(tmp_path / path, LIMITS)


def test_progress_is_told_up_to_the_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(TEXT)
    shares: list[float] = []
    with watch(shares.append):
        assert all_of(path) == TEXT
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
