"""Files with one JSON document of a named format and version.

Covers baselines, calibrations and recordings of launch costs. Files are validated completely before
use.
"""

from __future__ import annotations

from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from graphviz_dash.bundle.files import open_replacement, read_regular_file
from graphviz_dash.bundle.renamed_fields import rename_fields
from graphviz_dash.errors import InputError

T = TypeVar("T")


class _Envelope(msgspec.Struct):
    """The two fields that identify a file before the rest is decoded."""

    format: str
    version: int


class Document(Struct, Generic[T], frozen=True):
    """A kind of file with one JSON document."""

    format: str
    """Name of the format, repeated in the document."""
    versions: tuple[int, ...]
    """Supported versions, oldest first. The last one is written."""
    kind: type[T]
    """Type of the document."""
    max_bytes: int
    """Maximum file size in bytes. Larger files are rejected unread."""
    advice: str
    """Instruction for creating such a file, as a sentence."""

    def read(self, file: Path) -> T:
        """Read the document in ``file``.

        Raises:
            InputError: File not found, not JSON, another format or version, or a field that is
                unknown or of the wrong type.
        """
        expected = f"a file of format {self.format}"
        try:
            content = read_regular_file(file, self.max_bytes + 1)
            if len(content) > self.max_bytes:
                raise InputError(file, f"more than {self.max_bytes:,} bytes", expected)
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
                    "supports",
                    "Install a newer graphviz-dash to read it."
                    if envelope.version > self.versions[-1]
                    else self.advice,
                )
            if envelope.version < self.versions[-1]:
                content = rename_fields(content, self.kind)
            return msgspec.json.decode(content, type=self.kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(file, str(error), expected, self.advice) from error


def write_atomically(file: Path, content: bytes) -> None:
    """Write ``content`` atomically to ``file``.

    Raises:
        OSError: Writing failed (names ``file``); no partial file remains.
    """
    with open_replacement(file) as target:
        target.write(content)
