"""The bytes of a file, decompressed as they are read, within limits, as far as they are whole."""

from __future__ import annotations

import os
import re
import stat
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol, Self

from isal import igzip_lib
from msgspec import Struct

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.limits import EXPANSION_FROM_BYTES, Limits
from graphviz_dash.progress import report

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CHUNK_BYTES = 256 << 10
"""Read at a time: large enough that splitting costs little, small enough that the events of a chunk
stay in the cache of a core while they become columns (at 2 MB it takes 1.4 times as long)."""

_OTHERS = {
    b"PK\x03\x04": "a zip archive",
    b"\xfd7zXZ": "xz-compressed data",
    b"BZh": "bzip2-compressed data",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}
_ERROR_NUMBER = re.compile(r"^Error -?\d+ ")
_INPUT_BYTES = 256 << 10
_RESCUE_INPUT = 1 << 10
_RESCUED_BYTES = 4 << 20  # more than a step, should zlib go on where isal stopped
_WITH_HEADER = 31  # zlib's way to say: gzip, of any window


class Damage(Struct, frozen=True):
    """Why a file could not be read to its end."""

    cut: bool
    """Whether it ends too early, and all before is as it was written; otherwise bytes were
    changed."""
    description: str
    """What is wrong, and where."""


class _Decompressor(Protocol):
    """What bz2, lzma and their likes have in common: one member or frame."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Format(Struct, frozen=True):
    """A way of compression."""

    name: str
    """What its files are called in errors."""
    magic: tuple[bytes, ...]
    """First bytes of a file, one of these."""
    make: Callable[[], _Decompressor]
    """A reader of one member or frame."""
    error: type[Exception]
    """What that raises for damaged data."""
    step: int
    """Bytes made at a time, those of the last being lost to damage unless ``_rescued`` gives them
    back."""


def _gunzip() -> _Decompressor:
    made: _Decompressor = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
    return made


_GZIP = _Format(
    "gzip",
    (b"\x1f\x8b",),
    _gunzip,
    igzip_lib.IsalError,  # type: ignore[arg-type]  # its stub calls the class an instance
    256 << 10,
)
_SKIPPABLE = tuple(bytes([0x50 + number]) + b"\x2a\x4d\x18" for number in range(16))
_ZSTD = _Format(
    "zstd",
    (b"\x28\xb5\x2f\xfd", *_SKIPPABLE),  # parallel compressors begin with a frame to skip
    zstd.ZstdDecompressor,
    zstd.ZstdError,
    32 << 10,
)


class ByteStream:
    """Reads ``path`` in chunks; compression is known by the first bytes, not by the file's name.

    ``read`` raises :class:`InputError` for what the operating system or a limit refuses. Data that
    are cut or damaged end the stream where they do, and ``damage`` tells it.
    """

    def __init__(
        self,
        path: Path,
        limits: Limits,
        chunk_bytes: int = CHUNK_BYTES,
        *,
        expansion_from: int = EXPANSION_FROM_BYTES,
    ) -> None:
        self.path = path
        self._expansion_from = expansion_from
        self.damage: Damage | None = None
        self._chunk_bytes = chunk_bytes
        self._limits = limits
        self._total = 0
        try:
            mode = path.stat().st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                # A pipe may never say anything, a device never end.
                raise InputError(path, "a pipe or device", "a readable trace file")
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise InputError(path, _reason(error), "a readable trace file") from error
        try:
            start = self._file.read(8)
            self._size = self._file.seek(0, os.SEEK_END)
            self._file.seek(0)
        except OSError as error:
            self._file.close()
            raise InputError(path, _reason(error), "a readable trace file") from error
        self._format = next(
            (codec for codec in (_GZIP, _ZSTD) if start.startswith(codec.magic)), None
        )
        self._members = _Members(self._file, self._format.make) if self._format else None
        for magic, kind in _OTHERS.items():
            if start.startswith(magic):
                self._file.close()
                raise InputError(path, kind, "a Kineto trace, JSON, plain or in gzip or zstd")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def read(self, size: int | None = None) -> bytes:
        """The next bytes, at most ``size`` or a chunk; empty at the end, or where damage begins.

        Raises:
            InputError: a read error, or more than the limits allow.
        """
        wanted = size or self._chunk_bytes
        parts: list[bytes] = []
        try:
            while wanted > 0 and self.damage is None and (data := self._some(wanted)):
                parts.append(data)
                wanted -= len(data)
                self._total += len(data)
                self._check()
            report(self._file.tell() / self._size if self._size else 1.0)
        except OSError as error:
            raise InputError(self.path, _reason(error), "a readable trace file") from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @property
    def progress(self) -> tuple[int, int]:
        """Bytes of the file that were taken in, and its size when it was opened."""
        return min(self._file.tell(), self._size), self._size

    def skip(self, size: int) -> None:
        """Passes over ``size`` bytes of what is decompressed, without keeping them."""
        if self._format is None:
            self._file.seek(size, 1)
            return
        while size > 0 and (passed := len(self.read(min(size, self._chunk_bytes)))):
            size -= passed

    def _some(self, wanted: int) -> bytes:
        if self._format is None or self._members is None:
            return self._file.read(wanted)
        name = self._format.name
        try:
            return self._members.read(min(wanted, self._format.step))
        except EOFError:
            description = f"{name} data that end too early, after {self._file.tell():,} bytes"
            self.damage = Damage(True, description)
        except self._format.error as error:
            extent = f"within its first {self._file.tell():,} bytes"
            self.damage = Damage(False, f"{name} data damaged {extent} ({_library_words(error)})")
            if self._format is _GZIP:
                return _rescued(self.path, self._total)
        return b""

    def _check(self) -> None:
        limits = self._limits
        if self._total > limits.decompressed_bytes:
            actual = f"more than {limits.decompressed_bytes:,} bytes of JSON"
            raise limits.refuse(self.path, "decompressed_bytes", actual)
        if self._format is not None and self._total > self._expansion_from:
            ratio = self._total // max(1, self._file.tell())
            if ratio > limits.expansion:
                actual = f"{self._format.name} data that expands {ratio:,} times"
                raise limits.refuse(self.path, "expansion", actual)


class _Members:
    """The concatenated members of a compressed file, one behind the other, as one stream."""

    def __init__(self, file: BinaryIO, make: Callable[[], _Decompressor]) -> None:
        self._file = file
        self._make = make
        self._member: _Decompressor = make()

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes, none at the end.

        Raises:
            EOFError: the file ends within a member.
        """
        while True:
            data = b""
            if self._member.eof:
                # Tapes and block devices pad with zeros, which gzip allows.
                data = self._member.unused_data.lstrip(b"\0")
                while not data:
                    read = self._file.read(_INPUT_BYTES)
                    if not read:
                        return b""
                    data = read.lstrip(b"\0")
                self._member = self._make()
            elif self._member.needs_input:
                data = self._file.read(_INPUT_BYTES)
                if not data:
                    raise EOFError
            made = self._member.decompress(data, size)
            if made:
                return made


def _rescued(path: Path, skip: int) -> bytes:
    """What is left of damaged gzip data behind the first ``skip`` bytes, to the very byte.

    isal gives nothing of a step in which it meets damage; zlib can be copied, so that its last step
    is repeated byte by byte. At most _RESCUED_BYTES.
    """
    made = bytearray()
    passed = 0
    member = zlib.decompressobj(_WITH_HEADER)
    with path.open("rb") as file:
        while len(made) < _RESCUED_BYTES and (data := file.read(_RESCUE_INPUT)):
            while data:
                before = member.copy()
                try:
                    out = member.decompress(data)
                except zlib.error:
                    out = _byte_by_byte(before, data)
                    return bytes(made + out[max(0, skip - passed) :])
                made += out[max(0, skip - passed) :]
                passed += len(out)
                data = member.unused_data.lstrip(b"\0")
                if member.eof:
                    member = zlib.decompressobj(_WITH_HEADER)
    return bytes(made)


def _byte_by_byte(member: zlib._Decompress, data: bytes) -> bytes:
    """What ``data`` decompresses to before the damage in it."""
    made = bytearray()
    try:
        while out := member.decompress(data, 1):
            made += out
            data = member.unconsumed_tail
    except zlib.error:
        pass
    return bytes(made)


def _library_words(error: Exception) -> str:
    """The library's own words, without isal's error number."""
    return _ERROR_NUMBER.sub("", str(error)).rstrip(".").lower()


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "a folder"
    return (error.strerror or "unreadable").lower()
