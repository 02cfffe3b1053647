"""The bytes of a file, decompressed as they are read, within limits."""

from __future__ import annotations

import zlib
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol, Self

from isal import igzip, isal_zlib

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
_DAMAGED: tuple[type[Exception], ...] = (isal_zlib.IsalError, zlib.error)  # type: ignore[assignment]
_ADVICE_CUT = "The file was cut off while it was written or copied: record or copy it anew."


class _Readable(Protocol):
    def read(self, size: int) -> bytes: ...


class ByteStream:
    """Reads ``path`` in chunks; gzip is known by its first bytes, not by the file's name.

    ``read`` raises :class:`InputError` for whatever the file or the operating system refuses.
    """

    def __init__(self, path: Path, limits: Limits, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.path = path
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
        if self.compressed:
            self._source: _Readable = igzip.IGzipFile(  # type: ignore[no-untyped-call]
                fileobj=self._file, mode="rb"
            )
        else:
            self._source = self._file
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
        """The next bytes, at least one, at most ``size`` or a chunk; empty at the end.

        Raises:
            InputError: damaged or cut gzip data, a read error, or more than the limits allow.
        """
        try:
            data = self._source.read(size or self._chunk_bytes)
        except EOFError as error:
            found = f"gzip data that ends too early, after {self._file.tell():,} bytes"
            raise InputError(self.path, found, "a whole gzip file", _ADVICE_CUT) from error
        except _DAMAGED as error:
            found = f"damaged gzip data ({error})"
            raise InputError(self.path, found, "a whole gzip file") from error
        except OSError as error:
            # gzip reports a wrong checksum or header as an OSError without an errno.
            found = _reason(error) if error.errno else f"damaged gzip data ({error})"
            raise InputError(self.path, found, "a readable trace file") from error
        self._total += len(data)
        self._check()
        return data

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


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "a folder"
    return (error.strerror or "unreadable").lower()
