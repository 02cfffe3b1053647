"""Reader of small foreign files, plain or compressed, within limits."""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypeVar

import msgspec

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.limits import Limits

T = TypeVar("T")

MAX_BYTES: Final = 1 << 30
"""Separate limit, because the content is held in memory."""

_EXPANSION_FROM_BYTES: Final = 4 << 20
"""Decompressed size from which ``Limits.expansion`` applies here."""

_CONTAINER_BYTES: Final = 64
_VALUE_BYTES: Final = 36
"""Minimum memory of a decoded value."""


def read_bytes(path: Path, limits: Limits) -> bytes:
    """Read and decompress a file.

    Raises:
        InputError: Unreadable, damaged, or more than the limits allow.
    """
    max_bytes = min(MAX_BYTES, limits.memory_bytes // 4)
    parts = []
    remaining = max_bytes
    with ByteStream(path, limits, expansion_from=_EXPANSION_FROM_BYTES) as stream:
        while data := stream.read():
            parts.append(data)
            remaining -= len(data)
            if remaining < 0:
                raise InputError(path, "a larger text", f"at most {max_bytes:,} bytes")
        if stream.damage is not None:
            raise InputError(path, stream.damage.description, "a complete file")
    return b"".join(parts)


def read_text(path: Path, limits: Limits) -> str:
    """Read text, with invalid UTF-8 replaced.

    Raises:
        InputError: As in :func:`read_bytes`.
    """
    return read_bytes(path, limits).decode("utf-8", "replace")


def read_json(path: Path, limits: Limits, kind: type[T], expected: str) -> T:
    """Decode the JSON in ``path`` as ``kind``, skipping unknown fields.

    Raises:
        InputError: As in :func:`read_bytes`, invalid JSON (``expected`` describes it), or more
            values than the limits allow.
    """
    data = read_bytes(path, limits)
    containers = data.count(b"{") + data.count(b"[")
    # Separators in strings count too: an upper bound before any value is created.
    values = containers + data.count(b",")
    needed = len(data) + containers * _CONTAINER_BYTES + values * _VALUE_BYTES
    if needed > limits.memory_bytes:
        raise limits.build_error(path, "memory_bytes", f"JSON of {values:,} values")
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InputError(path, str(error), expected) from error
