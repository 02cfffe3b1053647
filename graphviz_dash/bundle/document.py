"""Files that are one JSON document of a named format and version: baselines, calibrations,
recordings of launch costs. Everything is checked before any of it is believed."""

from __future__ import annotations

from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from graphviz_dash.errors import InputError

T = TypeVar("T")


class _Envelope(msgspec.Struct):
    """The two fields by which a file is known before the rest is looked at."""

    format: str
    version: int


class Document(Struct, Generic[T], frozen=True):
    """A kind of file that is one JSON document."""

    format: str
    """Its name, which the document repeats."""
    versions: tuple[int, ...]
    """Those that this tool reads, oldest first; it writes the last."""
    kind: type[T]
    """What the document is decoded as."""
    most_bytes: int
    """A larger file is refused unread."""
    advice: str
    """How to come by such a file, as a sentence."""

    def read(self, file: Path) -> T:
        """The document in ``file``.

        Raises:
            InputError: no file, not JSON, another format or version, or a field that is not known
                or of the wrong type.
        """
        expected = f"a file of format {self.format}"
        try:
            if file.stat().st_size > self.most_bytes:
                raise InputError(file, f"more than {self.most_bytes:,} bytes", expected)
            content = file.read_bytes()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(file, reason.lower(), expected, self.advice) from error
        try:
            envelope = msgspec.json.decode(content, type=_Envelope)
            if envelope.format != self.format:
                raise InputError(file, f"format {envelope.format[:80]!r}", expected, self.advice)
            if envelope.version not in self.versions:
                raise InputError(
                    file,
                    f"version {envelope.version} of {self.format}",
                    f"version {' or '.join(map(str, self.versions))}, which this graphviz-dash "
                    "reads",
                    "Install a newer graphviz-dash to read it."
                    if envelope.version > self.versions[-1]
                    else self.advice,
                )
            return msgspec.json.decode(content, type=self.kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(file, str(error), expected, self.advice) from error


def write_beside(file: Path, content: bytes) -> None:
    """Writes ``content`` to ``file``; never half a file.

    Raises:
        OSError: it could not be written, and names ``file``; nothing of it stays behind.
    """
    beside = file.with_name(f".{file.name}")
    try:
        beside.write_bytes(content)
        beside.replace(file)
    except OSError as error:
        error.filename = str(file)
        raise
    finally:
        beside.unlink(missing_ok=True)
