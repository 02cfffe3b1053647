"""``graphviz-dash collect -o DIR -- python train.py``: what the command does for a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from collectors.program.bundle import Program, check_free, write_runs
from collectors.program.files import Settings
from collectors.program.launcher import (
    end_like,
    require_hook,
    run_program,
    unhooked,
    why_unwatched,
)
from collectors.program.recovery import (
    STAGING_NAME,
    Unfinished,
    finish_recordings,
    mark_unfinished,
)
from collectors.program.session import HOOK
from graphviz_dash.bundle.staging import Staging, remove_abandoned_folders
from graphviz_dash.errors import GraphvizDashError, escape_control_characters

_NOTHING_SEEN = "it captured no graph, and nothing in it looked like a step"

NEEDS = ("graphviz_dash", "collectors", "msgspec", "torch", "cuda")
"""What the Python of the program must have for the recorder."""


@dataclass(frozen=True)
class RecordingRequest:
    """What to run and what to record of it."""

    program: tuple[str, ...]
    """The command line of the program."""
    output: Path
    """The folder of the experiment."""
    name: str
    """The run's name in it."""
    skip: int
    """Steps that pass before the traced window, counted anew after each capture."""
    steps: int
    """Steps in the traced window; 0 for none."""
    window_replays: int
    """Steps in the traced window at most, where graphs of a family have yet to come in it."""
    window_seconds: float | None
    """Seconds that it goes on then at most; None: as long as it takes."""
    attribute: bool
    """Whether captures are profiled too."""
    typed: tuple[str, ...]
    """The whole command line, for the manifest."""


def record_program(
    request: RecordingRequest, report: Callable[[str], None]
) -> tuple[tuple[Path, ...], int]:
    """Runs the program once and writes what was seen; the bundles, and the exit code to end with.

    The program's own output is not touched; ``report`` gets a line when it has ended.

    Raises:
        InputError: the program is not there, or a run of that name is.
        MissingRequirementError: its Python lacks what the recorder needs.
    """
    check_free(request.output, request.name)
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
    )
    name = program_name(request.program)
    with Staging(request.output, STAGING_NAME) as staging:
        mark_unfinished(staging.path, Unfinished(request.name, request.typed, name))
        text = msgspec.json.encode(settings).decode()
        ended = run_program(request.program, HOOK, text, staging.path)
        refusal = _refusal(staging.path)
        refused = unhooked(ended)
        pythons = frozenset(process.pid for process in ended.processes)
        program = Program(request.typed, name, ended.returncode, refused, pythons, ended.pid)
        try:
            written = write_runs(staging.path, request.output, request.name, program, report)
        except GraphvizDashError as error:
            # The program has run: its exit code goes before any error of ours.
            report(escape_control_characters(f"Error: {error}"))
            return (), ended.returncode
    if not written:
        report(f"Nothing was recorded: {refusal or why_unwatched(ended) or _NOTHING_SEEN}.")
    return written, ended.returncode


def _refusal(scratch: Path) -> str | None:
    """Why the recorder could not write into ``scratch``; None where it can be written into."""
    try:
        (scratch / "last").write_bytes(bytes(1 << 16))
    except OSError as error:
        return f"{scratch.parent} could not be written into ({error.strerror or error})"
    return None


def finish(returncode: int, written: bool) -> int:
    """The exit code of the command: the program's, and 1 where it did well and nothing was
    recorded. Does not return when a signal killed the program: it kills this process too."""
    if returncode == 0 and not written:
        return GraphvizDashError.exit_code
    return end_like(returncode)


def program_name(command: Sequence[str]) -> str:
    """The script or module that a command runs: ``train.py`` of ``python -u /x/train.py -v``."""
    for index, argument in enumerate(command):
        if argument.endswith(".py"):
            return Path(argument).name
        if argument == "-m" and index + 1 < len(command):
            return command[index + 1]
    return Path(command[0]).name
