"""Record a program for ``graphviz-dash collect -o DIR -- python train.py``."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from collectors.program.bundle import Program, resolve_target, write_runs
from collectors.program.files import Settings
from collectors.program.launcher import (
    ProgramExit,
    describe_unhooked,
    exit_like,
    explain_unwatched,
    require_hook,
    run_program,
)
from collectors.program.recovery import (
    STAGING_NAME,
    UnfinishedRecording,
    finish_recordings,
    mark_unfinished,
)
from collectors.program.session import HOOK
from graphviz_dash.bundle.staging import Staging, remove_abandoned_folders
from graphviz_dash.errors import GraphvizDashError, escape_control_characters

_NOTHING_SEEN = "it captured no graph, and nothing in it looked like a step"
_LOSS_REASON = "it was killed before, or within 100 ms after, its first capture or step"

BUNDLE_ERRORS: Final = (GraphvizDashError, OSError, ValueError, MemoryError)
"""Errors of reading the files of a program and of writing its bundle. Incomplete JSON is a
ValueError."""

NEEDS = ("graphviz_dash", "collectors", "msgspec", "torch", "cuda")


@dataclass(frozen=True)
class RecordingRequest:
    """Program to run and settings of its recording."""

    program: tuple[str, ...]
    output: Path
    name: str
    skip: int
    steps: int
    """Steps in the traced window. 0 disables it."""
    window_replays: int
    """Maximum steps in a window that waits for more graphs of a family."""
    window_seconds: float | None
    """Maximum duration of that wait, or None."""
    window_pause: float
    """Maximum pause for the window, in seconds."""
    attribute: bool
    """True to profile captures too."""
    typed: tuple[str, ...]


def record_program(
    request: RecordingRequest, report: Callable[[str], None]
) -> tuple[tuple[Path, ...], int]:
    """Run the program once, and return the written bundles and the exit code.

    The program's output is unchanged. ``report`` receives messages after its end.

    Raises:
        InputError: The program is missing, or a run of that name exists.
        MissingRequirementError: The program's Python lacks a module that the recorder needs.
    """
    resolve_target(request.output, request.name)
    require_hook(request.program, NEEDS)
    request.output.mkdir(parents=True, exist_ok=True)
    finish_recordings(request.output, report)
    remove_abandoned_folders(request.output)
    settings = Settings(
        skip=request.skip,
        window=request.steps,
        attribute=request.attribute,
        window_replays=request.window_replays,
        window_seconds=request.window_seconds,
        window_pause_s=request.window_pause,
    )
    name = get_program_name(request.program)
    program_exit: ProgramExit | None = None
    bundles: tuple[Path, ...] = ()
    try:
        with Staging(request.output, STAGING_NAME) as staging:
            mark_unfinished(staging.path, UnfinishedRecording(request.name, request.typed, name))
            text = msgspec.json.encode(settings).decode()
            program_exit = run_program(request.program, HOOK, text, staging.path)
            refusal = _explain_refusal(staging.path)
            program = Program(
                request.typed,
                name,
                program_exit.returncode,
                describe_unhooked(program_exit),
                frozenset(process.pid for process in program_exit.processes),
                program_exit.pid,
            )
            bundles = write_runs(staging.path, request.output, request.name, program, report)
            if not bundles:
                default_reason = (
                    _LOSS_REASON if program_exit.returncode == -signal.SIGKILL else _NOTHING_SEEN
                )
                reason = refusal or explain_unwatched(program_exit) or default_reason
                report(f"Nothing was recorded: {reason}.")
    except BUNDLE_ERRORS as error:
        if program_exit is None:
            raise
        # The program's exit code takes precedence over errors of the recorder.
        report(escape_control_characters(f"Error: {str(error) or type(error).__name__}"))
    return bundles, program_exit.returncode


def _explain_refusal(scratch: Path) -> str | None:
    """Explain why the recorder cannot write into ``scratch``, or return None."""
    try:
        (scratch / "last").write_bytes(bytes(1 << 16))
    except OSError as error:
        return f"{scratch.parent} could not be written into ({error.strerror or error})"
    return None


def get_exit_code(returncode: int, written: bool) -> int:
    """Return the exit code of the command: the program's, or 1 if it succeeded without a recording.

    If a signal killed the program, the same signal kills this process.
    """
    if returncode == 0 and not written:
        return GraphvizDashError.exit_code
    return exit_like(returncode)


def get_program_name(command: Sequence[str]) -> str:
    """Return a command's script or module: ``train.py`` for ``python -u /x/train.py -v``."""
    for index, argument in enumerate(command):
        if argument.endswith(".py"):
            return Path(argument).name
        if argument == "-m" and index + 1 < len(command):
            return command[index + 1]
    return Path(command[0]).name
