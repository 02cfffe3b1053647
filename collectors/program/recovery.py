"""Finish recordings whose command was killed, from the files of their processes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from collectors.program.bundle import Program, write_runs
from collectors.program.launcher import SCRATCH, read_processes
from graphviz_dash.bundle.staging import STAGING_SUFFIX, UNFINISHED_FILE, adopt_folder
from graphviz_dash.errors import GraphvizDashError, escape_control_characters

STAGING_NAME: Final = "record"


class UnfinishedRecording(msgspec.Struct, frozen=True):
    """Data of an unfinished recording for its bundle, besides the files of processes."""

    name: str
    command: tuple[str, ...]
    program: str


def mark_unfinished(staging: Path, recording: UnfinishedRecording) -> None:
    """Keep ``staging`` for the next command in case this one is killed."""
    (staging / UNFINISHED_FILE).write_bytes(msgspec.json.encode(recording))


def finish_recordings(output: Path, report: Callable[[str], None]) -> None:
    """Write the runs of killed recordings in ``output``, except those whose programs still run.

    ``report`` receives a line for each.
    """
    for folder in sorted(output.glob(f".{STAGING_NAME}.*{STAGING_SUFFIX}")):
        with adopt_folder(folder) as success:
            if success and (folder / UNFINISHED_FILE).exists():
                for line in _finish(folder, output, report):
                    report(escape_control_characters(line))


def _finish(folder: Path, output: Path, report: Callable[[str], None]) -> list[str]:
    running = list_running_processes(folder)
    if running:
        return [
            f"A recording in {output} goes on without its command (process {running[0]}); the next "
            "collect into this folder writes it."
        ]
    try:
        recording = msgspec.json.decode(
            (folder / UNFINISHED_FILE).read_bytes(), type=UnfinishedRecording
        )
        pythons = frozenset(process.pid for process in read_processes(folder))
        program = Program(recording.command, recording.program, None, pythons=pythons)
        paths = write_runs(folder, output, recording.name, program, report)
    except (GraphvizDashError, msgspec.MsgspecError, OSError) as error:
        return [f"A recording in {folder} whose command was killed cannot be written: {error}"]
    shutil.rmtree(folder, ignore_errors=True)
    return [f"Recorded, although its command was killed: {path}" for path in paths]


def list_running_processes(folder: Path) -> list[int]:
    """List running processes of the recording, identified by its environment variable."""
    marker = f"{SCRATCH}={folder.resolve()}".encode()
    running = []
    for process in read_processes(folder):
        try:
            environment = Path(f"/proc/{process.pid}/environ").read_bytes()
        except OSError:
            continue
        if marker in environment.split(b"\0") and process.pid != os.getpid():
            running.append(process.pid)
    return running
