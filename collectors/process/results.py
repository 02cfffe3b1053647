"""Write and read the bundle parts that a pass leaves for the collector."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from graphviz_dash.bundle.parts import JsonPart

T = TypeVar("T")


def write_result(part: JsonPart[T], content: T, folder: Path) -> None:
    """Write ``content`` to ``folder`` in bundle format. Raises OSError on a full disk."""
    (folder / part.file_name).write_bytes(part.encode(content))


def read_result(part: JsonPart[T], folder: Path) -> T | None:
    """Read ``part`` from ``folder``, or return None if missing."""
    file = folder / part.file_name
    return part.read(file) if file.exists() else None


def read_json(file: Path, kind: type[T]) -> T:
    """Read JSON of type ``kind`` written by a worker."""
    return msgspec.json.decode(file.read_bytes(), type=kind)
