"""Commands that repeat a run with changes."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Final

from graphviz_dash.model.run import Run

_PROGRAM_SEPARATOR: Final = "--"
_UNKNOWN_PROGRAM: Final = ("python", "train.py")
_COLLECTORS: Final = ("collect", "collectors")
"""Names of the collector in a command: `graphviz-dash collect`, `-m collectors`."""
_NAME: Final = "--name"
_REPEATED: Final = "--set"
_OUTPUTS: Final = ("-o", "--output")


def build_recording_command(run: Run, options: Mapping[str, str | None]) -> tuple[str, ...] | None:
    """Return the command that recorded ``run`` with ``options`` changed; a flag has the value None.

    None if no command with a program recorded it. Without a name in ``options`` the run gets a new
    one, because recorders never overwrite.
    """
    command = run.manifest.command
    if _PROGRAM_SEPARATOR not in command:
        return None
    if _NAME not in options:
        options = {**options, _NAME: make_rerun_name(get_option(command, _NAME) or run.name)}
    split = command.index(_PROGRAM_SEPARATOR)
    unchanged: list[str] = []
    words = iter(command[:split])
    for word in words:
        name, separator, value = word.partition("=")
        if name in options:
            if options[name] is not None and not separator:
                next(words, None)
            continue
        if name in _OUTPUTS:
            unchanged += [name, _shorten_absolute_path(value if separator else next(words, ""))]
            continue
        unchanged.append(word)
    added = [
        word
        for name, value in options.items()
        for word in ((name,) if value is None else (name, value))
    ]
    return (*unchanged, *added, *command[split:])


def build_any_recording_command(run: Run, options: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return the same for any run, with `python train.py` for an unknown program."""
    return build_recording_command(run, options) or (
        *("graphviz-dash", "collect", "-o", _get_output_folder(run)),
        *(word for name, value in options.items() for word in ((name, value or ""))),
        *(_PROGRAM_SEPARATOR, *_UNKNOWN_PROGRAM),
    )


def make_rerun_name(name: str) -> str:
    """Return a name for a repetition of the run ``name``."""
    return f"{name}-again"


def build_collect_command(
    run: Run, modes: Sequence[str], existing_modes: Container[str] = ()
) -> tuple[str, ...]:
    """Return the command that collects the workload of ``run`` in the missing ``modes``.

    It adds to the same experiment. If all are in ``existing_modes``, it collects all of them into a
    new one. A rank of several keeps its launcher.
    """
    folder, requested = (
        _get_output_folder(run),
        [mode for mode in modes if mode not in existing_modes],
    )
    if not requested:
        folder, requested = make_rerun_name(folder), list(modes)
    return (
        *_get_collector_command(run),
        *_get_workload_options(run),
        "--modes",
        ",".join(requested),
        "-o",
        folder,
    )


def build_doctor_command(run: Run) -> tuple[str, ...]:
    """Return the command that runs the doctor on the workload or program of ``run``."""
    if not run.mode.is_recorded:
        return (
            "graphviz-dash",
            "doctor",
            *_get_workload_options(run),
            "-o",
            _get_output_folder(run),
        )
    command = run.manifest.command
    recorded_flags = (
        command[command.index(_PROGRAM_SEPARATOR) + 1 :]
        if _PROGRAM_SEPARATOR in command
        else _UNKNOWN_PROGRAM
    )
    return (
        "graphviz-dash",
        "doctor",
        "-o",
        _get_output_folder(run),
        _PROGRAM_SEPARATOR,
        *recorded_flags,
    )


def _get_collector_command(run: Run) -> tuple[str, ...]:
    command, group = run.manifest.command, run.manifest.group
    if group is not None and group.world_size > 1:
        for index, word in enumerate(command):
            if word in _COLLECTORS:
                return command[: index + 1]
    return ("graphviz-dash", "collect")


def _get_workload_options(run: Run) -> tuple[str, ...]:
    command = run.manifest.command
    options = ("--workload", get_option(command, "--workload") or run.manifest.workload.factory)
    sets = (command[index : index + 2] for index, word in enumerate(command) if word == _REPEATED)
    return (*options, *(word for pair in sets for word in pair))


def _get_output_folder(run: Run) -> str:
    """Return the experiment's folder as in the original command."""
    named = (get_option(run.manifest.command, name) for name in _OUTPUTS)
    return next(
        (_shorten_absolute_path(folder) for folder in named if folder), run.path.parent.name
    )


def _shorten_absolute_path(folder: str) -> str:
    """Shorten an absolute path, specific to one machine, to its name."""
    for kind in (PurePosixPath, PureWindowsPath):
        if (path := kind(folder)).is_absolute():
            return path.name or folder
    return folder


def get_option(command: tuple[str, ...], name: str) -> str | None:
    """Return the value of an option of a collector's command. None without it."""
    for index, word in enumerate(command):
        if word == _PROGRAM_SEPARATOR:
            return None
        if word == name:
            return next(iter(command[index + 1 : index + 2]), None)
        if name.startswith("--") and word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None
