"""What the process of a pass leaves in its folder for the collector, by the parts of a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from graphviz_dash.bundle.parts import JsonPart

T = TypeVar("T")


def write_result(part: JsonPart[T], content: T, folder: Path) -> None:
    """Writes ``content`` into ``folder``, as it will lie in the bundle. OSError on a full disk."""
    (folder / part.file_name).write_bytes(part.encode(content))


def read_result(part: JsonPart[T], folder: Path) -> T | None:
    """What was left of ``part`` in ``folder``; None where nothing was."""
    file = folder / part.file_name
    return part.read(file) if file.exists() else None


def read_json(file: Path, kind: type[T]) -> T:
    """What a process of ours wrote to ``file`` as JSON of type ``kind``."""
    return msgspec.json.decode(file.read_bytes(), type=kind)
