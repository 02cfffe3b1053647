"""Small foreign text files, plain or compressed, read whole within limits."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.limits import Limits

MOST_BYTES: Final = 1 << 30
"""More is refused whatever the limits allow: such a file is held in memory as a whole."""


def read_bytes(path: Path, limits: Limits) -> bytes:
    """The content of ``path``, decompressed.

    Raises:
        InputError: unreadable, damaged, or more than the limits allow.
    """
    parts = []
    left = MOST_BYTES
    with ByteStream(path, limits) as stream:
        while data := stream.read():
            parts.append(data)
            left -= len(data)
            if left < 0:
                raise InputError(path, "a larger text", f"at most {MOST_BYTES:,} bytes of it")
        if stream.damage is not None:
            raise InputError(path, stream.damage.description, "a whole file")
    return b"".join(parts)


def read_text(path: Path, limits: Limits) -> str:
    """The content of ``path`` as text; bytes that are not UTF-8 become the replacement character.

    Raises:
        InputError: as :func:`read_bytes`.
    """
    return read_bytes(path, limits).decode("utf-8", "replace")
