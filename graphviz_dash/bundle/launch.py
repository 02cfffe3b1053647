"""Storage of launch cost recordings: one file, launch.json, in a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from graphviz_dash.bundle.document import Document, write_atomically
from graphviz_dash.bundle.files import is_foreign_link, is_utf8
from graphviz_dash.bundle.schema import MANIFEST_FILE, MAX_PART_BYTES
from graphviz_dash.errors import InputError
from graphviz_dash.model.launch import (
    LAUNCH_FORMAT_NAME,
    LaunchRecording,
)

LAUNCH_FILE: Final = "launch.json"

SUPPORTED_VERSIONS: Final = (1, 2, 3)
"""Supported versions. The last one is written."""


_DOCUMENT: Final = Document(
    LAUNCH_FORMAT_NAME,
    SUPPORTED_VERSIONS,
    LaunchRecording,
    MAX_PART_BYTES,
    "Create one with: graphviz-dash bench launch -o FOLDER.",
)


def is_launch(path: Path) -> bool:
    """Return True if ``path`` is a readable folder with a recording."""
    try:
        file = path / LAUNCH_FILE
        return is_utf8(path) and file.is_file() and not is_foreign_link(file)
    except OSError:
        return False


def find_launches(root: Path, depth: int = 3) -> list[Path]:
    """Find the folders with a recording at or below ``root``, sorted, down to ``depth`` levels.
    Skips run bundles, links, hidden folders and inaccessible folders."""
    # Each folder is listed once, because pages search again.
    try:
        with os.scandir(root) as entries:
            kinds = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    except OSError:
        kinds = {LAUNCH_FILE: False}
    folders = [root] if LAUNCH_FILE in kinds and is_launch(root) else []
    if depth <= 0 or MANIFEST_FILE in kinds:
        return folders
    for name in sorted(kinds):
        if kinds[name] and not name.startswith("."):
            folders += find_launches(root / name, depth - 1)
    return folders


def write_launch(folder: Path, recording: LaunchRecording) -> None:
    """Write ``recording`` atomically into ``folder``, created if needed.

    Raises:
        OSError: Writing failed; no partial file remains.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / LAUNCH_FILE, msgspec.json.encode(recording))


def read_launch(path: Path) -> LaunchRecording:
    """Read the recording at ``path``, a folder or a file.

    Raises:
        InputError: No recording, not JSON, another format or version, or a field that violates
            docs/reference/launch-format.md.
    """
    file = path / LAUNCH_FILE if path.is_dir() else path
    recording = _DOCUMENT.read(file)
    for series in recording.series:
        if any(not samples for samples in series.samples.values()):
            raise InputError(file, "a measure without samples", "at least one, or a reason")
    return recording
