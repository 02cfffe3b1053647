"""The bytes of a file, decompressed as they are read, within limits, as far as they are whole."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol, Self

from isal import igzip_lib

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.limits import EXPANSION_FROM_BYTES, Limits

CHUNK_BYTES = 2 << 20
"""Read at a time: large enough that splitting costs nothing, small enough to stay in cache."""

_GZIP = b"\x1f\x8b"
_OTHERS = {
    b"PK\x03\x04": "a zip archive",
    b"\x28\xb5\x2f\xfd": "zstd-compressed data",
    b"\xfd7zXZ": "xz-compressed data",
    b"BZh": "bzip2-compressed data",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}
# isal's stub calls its exception class an instance.
_Damaged: type[Exception] = igzip_lib.IsalError  # type: ignore[assignment]
_STEP_BYTES = 256 << 10  # decompressed at a time
_INPUT_BYTES = 256 << 10
_RESCUE_INPUT = 1 << 10
_RESCUED_BYTES = 4 << 20  # more than a step, should zlib go on where isal stopped
_WITH_HEADER = 31  # zlib's way to say: gzip, of any window


@dataclass(frozen=True)
class Damage:
    """Why a file could not be read to its end. ``cut``: it ends too early, and all before is as it
    was written; otherwise bytes were changed. ``found`` says what is wrong, and where."""

    cut: bool
    found: str


class _Decompressor(Protocol):
    """What bz2, lzma and their likes have in common: one member or frame."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class ByteStream:
    """Reads ``path`` in chunks; compression is known by the first bytes, not by the file's name.

    ``read`` raises :class:`InputError` for what the operating system or a limit refuses. Data that
    are cut or damaged end the stream where they do, and ``damage`` tells it.
    """

    def __init__(self, path: Path, limits: Limits, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.path = path
        self.damage: Damage | None = None
        self._chunk_bytes = chunk_bytes
        self._limits = limits
        self._total = 0
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise InputError(path, _reason(error), "a readable trace file") from error
        try:
            start = self._file.read(8)
            self._file.seek(0)
        except OSError as error:
            self._file.close()
            raise InputError(path, _reason(error), "a readable trace file") from error
        self.compressed = start.startswith(_GZIP)
        self._members = _Members(self._file, _gunzip) if self.compressed else None
        if not self.compressed:
            for magic, kind in _OTHERS.items():
                if start.startswith(magic):
                    self._file.close()
                    raise InputError(path, kind, "a Kineto trace, JSON, plain or gzip-compressed")

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
        except OSError as error:
            raise InputError(self.path, _reason(error), "a readable trace file") from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _some(self, wanted: int) -> bytes:
        if self._members is None:
            return self._file.read(wanted)
        try:
            return self._members.read(min(wanted, _STEP_BYTES))
        except EOFError:
            found = f"gzip data that end too early, after {self._file.tell():,} bytes"
            self.damage = Damage(True, found)
        except _Damaged as error:
            place = f"within its first {self._file.tell():,} bytes"
            self.damage = Damage(False, f"gzip data damaged {place} ({_told(error)})")
            return _rescued(self.path, self._total)
        return b""

    def _check(self) -> None:
        limits = self._limits
        if self._total > limits.decompressed_bytes:
            found = f"more than {limits.decompressed_bytes:,} bytes of JSON"
            raise limits.refuse(self.path, "decompressed_bytes", found)
        if self.compressed and self._total > EXPANSION_FROM_BYTES:
            ratio = self._total // max(1, self._file.tell())
            if ratio > limits.expansion:
                found = f"gzip data that expands {ratio:,} times"
                raise limits.refuse(self.path, "expansion", found)


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


def _gunzip() -> _Decompressor:
    made: _Decompressor = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
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


def _told(error: Exception) -> str:
    """The library's own words, without its error number."""
    words = str(error)
    return words.partition(" ")[2].lstrip("-0123456789 ").lower() or "unreadable"


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "a folder"
    return (error.strerror or "unreadable").lower()
