"""A recording of launch costs on disk: one file, launch.json, in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from graphviz_dash.bundle.document import Document, write_beside
from graphviz_dash.bundle.schema import MAX_PART_BYTES
from graphviz_dash.errors import InputError
from graphviz_dash.model.launch import (
    LAUNCH_FORMAT_NAME,
    LaunchRecording,
)

LAUNCH_FILE: Final = "launch.json"

READABLE: Final = (1, 2)
"""The versions that this tool reads; it writes the last."""


_DOCUMENT: Final = Document(
    LAUNCH_FORMAT_NAME,
    READABLE,
    LaunchRecording,
    MAX_PART_BYTES,
    "Make one with: graphviz-dash bench launch -o FOLDER.",
)


def is_launch(path: Path) -> bool:
    """Whether ``path`` is a folder with a recording in it; not where it may not be looked into."""
    try:
        return (path / LAUNCH_FILE).is_file()
    except OSError:
        return False


def find_launches(root: Path, depth: int = 3) -> list[Path]:
    """The folders at or under ``root`` that hold a recording, sorted; ``depth`` folders down, not
    into links or hidden folders. Folders that may not be entered are passed over."""
    folders = [root] if is_launch(root) else []
    if depth <= 0:
        return folders
    try:
        children = sorted(root.iterdir())
    except OSError:
        return folders
    for child in children:
        if child.is_dir() and not child.is_symlink() and not child.name.startswith("."):
            folders += find_launches(child, depth - 1)
    return folders


def write_launch(folder: Path, recording: LaunchRecording) -> None:
    """Writes ``recording`` into ``folder``, which is made if needed; never half a file.

    Raises:
        OSError: it could not be written; nothing of it stays behind.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_beside(folder / LAUNCH_FILE, msgspec.json.encode(recording))


def read_launch(path: Path) -> LaunchRecording:
    """The recording at ``path``, its folder or the file itself.

    Raises:
        InputError: no recording, not JSON, another format or version, or a field that is not as
            docs/reference/launch-format.md says.
    """
    file = path / LAUNCH_FILE if path.is_dir() else path
    recording = _DOCUMENT.read(file)
    for series in recording.series:
        if any(not samples for samples in series.samples.values()):
            raise InputError(file, "a measure without samples", "at least one, or a reason")
    return recording
