"""A recording of launch costs on disk: one file, launch.json, in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from graphviz_dash.bundle.schema import MAX_PART_BYTES
from graphviz_dash.errors import InputError
from graphviz_dash.model.launch import (
    LAUNCH_FORMAT_NAME,
    LaunchRecording,
)

LAUNCH_FILE: Final = "launch.json"

READABLE: Final = (1, 2)
"""The versions that this tool reads; it writes the last."""


class _Envelope(msgspec.Struct):
    format: str
    version: int


def is_launch(path: Path) -> bool:
    """Whether ``path`` is a folder with a recording in it."""
    return (path / LAUNCH_FILE).is_file()


def find_launches(root: Path, depth: int = 3) -> list[Path]:
    """The folders at or under ``root`` that hold a recording, sorted; ``depth`` folders down, not
    into links or hidden folders. Folders that may not be entered are passed over."""
    found = [root] if is_launch(root) else []
    if depth <= 0:
        return found
    try:
        children = sorted(root.iterdir())
    except OSError:
        return found
    for child in children:
        if child.is_dir() and not child.is_symlink() and not child.name.startswith("."):
            found += find_launches(child, depth - 1)
    return found


def write_launch(folder: Path, recording: LaunchRecording) -> None:
    """Writes ``recording`` into ``folder``, which is made if needed; never half a file.

    Raises:
        OSError: it could not be written; nothing of it stays behind.
    """
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f".{LAUNCH_FILE}"
    try:
        beside.write_bytes(msgspec.json.encode(recording))
        beside.replace(folder / LAUNCH_FILE)
    finally:
        beside.unlink(missing_ok=True)


def read_launch(path: Path) -> LaunchRecording:
    """The recording at ``path``, its folder or the file itself.

    Raises:
        InputError: no recording, not JSON, another format or version, or a field that is not as
            docs/launch-format.md says.
    """
    file = path / LAUNCH_FILE if path.is_dir() else path
    if not file.is_file():
        raise InputError(file, "no such file", "the folder of a recording of launch costs")
    if file.stat().st_size > MAX_PART_BYTES:
        raise InputError(file, f"{file.stat().st_size} bytes", f"at most {MAX_PART_BYTES}")
    content = file.read_bytes()
    try:
        envelope = msgspec.json.decode(content, type=_Envelope)
        if envelope.format != LAUNCH_FORMAT_NAME:
            raise InputError(
                file, f"format {envelope.format[:80]!r}", f"format {LAUNCH_FORMAT_NAME!r}"
            )
        if envelope.version not in READABLE:
            raise InputError(
                file,
                f"version {envelope.version}",
                f"version {' or '.join(map(str, READABLE))}, which this graphviz-dash reads",
            )
        recording = msgspec.json.decode(content, type=LaunchRecording)
    except msgspec.MsgspecError as error:
        raise InputError(file, str(error), "a recording of launch costs") from error
    for series in recording.series:
        if any(not samples for samples in series.samples.values()):
            raise InputError(file, "a measure without samples", "at least one, or a reason")
    return recording
