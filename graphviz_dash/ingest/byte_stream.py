"""Stream of a file's bytes, decompressed within limits, up to any damage."""

from __future__ import annotations

import os
import re
import stat
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, Protocol, Self

from isal import igzip_lib
from msgspec import Struct

from graphviz_dash.bundle.files import check_utf8
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.limits import EXPANSION_MIN_BYTES, Limits
from graphviz_dash.progress import report_progress

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CHUNK_BYTES = 256 << 10
"""Bytes per read. Small enough that the events of a chunk stay in a core's cache (2 MB is 1.4 times
slower)."""

_UNSUPPORTED_FORMATS = {
    b"PK\x03\x04": "a zip archive",
    b"\xfd7zXZ": "xz-compressed data",
    b"BZh": "bzip2-compressed data",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}
_ERROR_NUMBER = re.compile(r"^Error -?\d+ ")
_INPUT_BYTES = 256 << 10
_RECOVERY_INPUT_BYTES = 1 << 10
_MAX_RECOVERED_BYTES = 4 << 20  # more than a step, in case zlib continues where isal stopped
_GZIP_WINDOW_BITS = 31  # zlib's code for gzip with any window size


class Damage(Struct, frozen=True):
    """Reason why a file could not be read to its end."""

    is_truncated: bool
    """True for a truncated file with intact data, False for corrupted data."""
    description: str


class _Decompressor(Protocol):
    """Common interface of bz2, lzma and similar decompressors."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Format(Struct, frozen=True):
    """A compression format."""

    name: str
    magic: tuple[bytes, ...]
    """First bytes of a file."""
    create_decompressor: Callable[[], _Decompressor]
    error: type[Exception]
    step_bytes: int
    """Maximum bytes per step. Damage loses the last step unless ``_recover_gzip`` recovers it."""


def _create_gzip_decompressor() -> _Decompressor:
    decompressor: _Decompressor = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
    return decompressor


_GZIP = _Format(
    "gzip",
    (b"\x1f\x8b",),
    _create_gzip_decompressor,
    igzip_lib.IsalError,  # type: ignore[arg-type]  # its stub calls the class an instance
    256 << 10,
)
_SKIPPABLE = tuple(bytes([0x50 + number]) + b"\x2a\x4d\x18" for number in range(16))
_ZSTD = _Format(
    "zstd",
    (b"\x28\xb5\x2f\xfd", *_SKIPPABLE),  # parallel compressors start with a skippable frame
    zstd.ZstdDecompressor,
    zstd.ZstdError,
    32 << 10,
)


_SINGLE_NUL: Final = re.compile(rb"(?<!\0)\0(?!\0)")
"""A NUL byte without a neighbour. Longer runs are damage of the disk."""


class ByteStream:
    """Reads ``path`` in chunks, detecting compression by its first bytes.

    Truncated or damaged data end the stream; ``damage`` describes the problem.

    ``replaces_nul``: replace single NUL bytes by spaces. A program that writes into Python's
    one-byte string ``b" "``, such as NeMo, changes single spaces of files written later.
    """

    def __init__(
        self,
        path: Path,
        limits: Limits,
        chunk_bytes: int = CHUNK_BYTES,
        *,
        expansion_from: int = EXPANSION_MIN_BYTES,
        replaces_nul: bool = False,
    ) -> None:
        self.path = path
        self._replaces_nul = replaces_nul
        self._expansion_from = expansion_from
        self.damage: Damage | None = None
        self._chunk_bytes = chunk_bytes
        self._limits = limits
        self._total = 0
        check_utf8(path)
        try:
            mode = path.stat().st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                # A pipe may block forever; a device may never end.
                raise InputError(path, "a pipe or device", "a readable trace file")
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise InputError(path, _format_os_error(error), "a readable trace file") from error
        try:
            start = self._file.read(8)
            self._size = self._file.seek(0, os.SEEK_END)
            self._file.seek(0)
        except OSError as error:
            self._file.close()
            raise InputError(path, _format_os_error(error), "a readable trace file") from error
        self._format = next(
            (codec for codec in (_GZIP, _ZSTD) if start.startswith(codec.magic)), None
        )
        self._members = (
            _Members(self._file, self._format.create_decompressor) if self._format else None
        )
        for magic, kind in _UNSUPPORTED_FORMATS.items():
            if start.startswith(magic):
                self._file.close()
                raise InputError(path, kind, "a Kineto trace, JSON, plain or in gzip or zstd")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int | None = None) -> bytes:
        """Read up to ``size`` bytes or a chunk. Empty at the end, or at the start of damage.

        Raises:
            InputError: A read error, or a limit is exceeded.
        """
        remaining = size or self._chunk_bytes
        parts: list[bytes] = []
        try:
            while remaining > 0 and self.damage is None and (data := self._read_some(remaining)):
                parts.append(data)
                remaining -= len(data)
                self._total += len(data)
                self._check_limits()
            report_progress(self._file.tell() / self._size if self._size else 1.0)
        except OSError as error:
            raise InputError(self.path, _format_os_error(error), "a readable trace file") from error
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        return _SINGLE_NUL.sub(b" ", data) if self._replaces_nul and b"\0" in data else data

    @property
    def progress(self) -> tuple[int, int]:
        """Bytes of the file read so far, and its size when opened."""
        return min(self._file.tell(), self._size), self._size

    def skip(self, size: int) -> None:
        """Skip ``size`` decompressed bytes."""
        if self._format is None:
            self._file.seek(size, 1)
            return
        while size > 0 and (skipped := len(self.read(min(size, self._chunk_bytes)))):
            size -= skipped

    def _read_some(self, requested: int) -> bytes:
        if self._format is None or self._members is None:
            return self._file.read(requested)
        name = self._format.name
        try:
            return self._members.read(min(requested, self._format.step_bytes))
        except EOFError:
            description = f"{name} data ends unexpectedly after {self._file.tell():,} bytes"
            self.damage = Damage(True, description)
        except self._format.error as error:
            extent = f"within its first {self._file.tell():,} bytes"
            self.damage = Damage(
                False, f"{name} data damaged {extent} ({_format_library_error(error)})"
            )
            if self._format is _GZIP:
                return _recover_gzip(self.path, self._total)
        return b""

    def _check_limits(self) -> None:
        limits = self._limits
        if self._total > limits.decompressed_bytes:
            description = f"more than {limits.decompressed_bytes:,} bytes of JSON"
            raise limits.build_error(self.path, "decompressed_bytes", description)
        if self._format is not None and self._total > self._expansion_from:
            ratio = self._total // max(1, self._file.tell())
            if ratio > limits.expansion:
                description = f"{self._format.name} data that expands {ratio:,} times"
                raise limits.build_error(self.path, "expansion", description)


class _Members:
    """Concatenated members of a compressed file as one stream."""

    def __init__(self, file: BinaryIO, make: Callable[[], _Decompressor]) -> None:
        self._file = file
        self._create_decompressor = make
        self._member: _Decompressor = make()

    def read(self, size: int) -> bytes:
        """Read up to ``size`` bytes; empty at the end.

        Raises:
            EOFError: The file ends within a member.
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
                self._member = self._create_decompressor()
            elif self._member.needs_input:
                data = self._file.read(_INPUT_BYTES)
                if not data:
                    raise EOFError
            output = self._member.decompress(data, size)
            if output:
                return output


def _recover_gzip(path: Path, skip: int) -> bytes:
    """Recover the data of a damaged gzip file after the first ``skip`` bytes.

    isal discards the step with the damage, so zlib repeats it byte by byte.
    """
    recovered = bytearray()
    position = 0
    member = zlib.decompressobj(_GZIP_WINDOW_BITS)
    with path.open("rb") as file:
        while len(recovered) < _MAX_RECOVERED_BYTES and (data := file.read(_RECOVERY_INPUT_BYTES)):
            while data:
                previous_state = member.copy()
                try:
                    out = member.decompress(data)
                except zlib.error:
                    out = _decompress_bytewise(previous_state, data)
                    return bytes(recovered + out[max(0, skip - position) :])
                recovered += out[max(0, skip - position) :]
                position += len(out)
                data = member.unused_data.lstrip(b"\0")
                if member.eof:
                    member = zlib.decompressobj(_GZIP_WINDOW_BITS)
    return bytes(recovered)


def _decompress_bytewise(member: zlib._Decompress, data: bytes) -> bytes:
    output = bytearray()
    try:
        while out := member.decompress(data, 1):
            output += out
            data = member.unconsumed_tail
    except zlib.error:
        pass
    return bytes(output)


def _format_library_error(error: Exception) -> str:
    """Format the library's message without isal's error number."""
    return _ERROR_NUMBER.sub("", str(error)).rstrip(".").lower()


def _format_os_error(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "a folder"
    return (error.strerror or "unreadable").lower()
