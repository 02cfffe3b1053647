"""Small foreign files, plain or compressed, read whole within limits."""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypeVar

import msgspec

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.limits import Limits

T = TypeVar("T")

MOST_BYTES: Final = 1 << 30
"""More is refused whatever the limits allow: such a file is held in memory as a whole."""

_EXPANSION_FROM_BYTES: Final = 4 << 20
"""Decompressed size from which ``Limits.expansion`` is looked at here: all of it is held at once.
"""

_CONTAINER_BYTES: Final = 64
_VALUE_BYTES: Final = 36
"""What an array or object, and a number or text in it, take at least when they are decoded."""


def read_bytes(path: Path, limits: Limits) -> bytes:
    """The content of ``path``, decompressed.

    Raises:
        InputError: unreadable, damaged, or more than the limits allow.
    """
    most = min(MOST_BYTES, limits.memory_bytes // 4)
    parts = []
    left = most
    with ByteStream(path, limits, expansion_from=_EXPANSION_FROM_BYTES) as stream:
        while data := stream.read():
            parts.append(data)
            left -= len(data)
            if left < 0:
                raise InputError(path, "a larger text", f"at most {most:,} bytes of it")
        if stream.damage is not None:
            raise InputError(path, stream.damage.description, "a whole file")
    return b"".join(parts)


def read_text(path: Path, limits: Limits) -> str:
    """The content of ``path`` as text; bytes that are not UTF-8 become the replacement character.

    Raises:
        InputError: as :func:`read_bytes`.
    """
    return read_bytes(path, limits).decode("utf-8", "replace")


def read_json(path: Path, limits: Limits, kind: type[T], expected: str) -> T:
    """The JSON in ``path`` as a ``kind``; fields that this does not name are passed over unmade.

    Raises:
        InputError: as :func:`read_bytes`, no such JSON (``expected`` says what it should be), or
            more values than the limits allow.
    """
    data = read_bytes(path, limits)
    containers = data.count(b"{") + data.count(b"[")
    # Counted in strings too: an upper bound, found before a single value is made.
    values = containers + data.count(b",")
    needed = len(data) + containers * _CONTAINER_BYTES + values * _VALUE_BYTES
    if needed > limits.memory_bytes:
        raise limits.refuse(path, "memory_bytes", f"JSON of {values:,} values")
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InputError(path, str(error), expected) from error
