"""Commands that make a run once more with something changed, from the command that made it."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Final

from graphviz_dash.model.run import Run

_PROGRAM: Final = "--"
"""What stands before the program in the command that recorded it."""
_UNKNOWN_PROGRAM: Final = ("python", "train.py")
_COLLECTORS: Final = ("collect", "collectors")
"""What a command that collects calls the collector: `graphviz-dash collect`, `-m collectors`."""
_NAME: Final = "--name"
_REPEATED: Final = "--set"
_OUTPUTS: Final = ("-o", "--output")


def recorded_with(run: Run, options: Mapping[str, str | None]) -> tuple[str, ...] | None:
    """The command that recorded ``run`` with ``options`` set, None for a flag; None where it was
    not recorded by a command that names the program. Without another name among them it has one
    that is free: no recorder writes over a run."""
    command = run.manifest.command
    if _PROGRAM not in command:
        return None
    if _NAME not in options:
        options = {**options, _NAME: again(_option(command, _NAME) or run.name)}
    split = command.index(_PROGRAM)
    kept: list[str] = []
    words = iter(command[:split])
    for word in words:
        name, joined, value = word.partition("=")
        if name in options:
            if options[name] is not None and not joined:
                next(words, None)
            continue
        if name in _OUTPUTS:
            kept += [name, _at_home(value if joined else next(words, ""))]
            continue
        kept.append(word)
    added = [
        word
        for name, value in options.items()
        for word in ((name,) if value is None else (name, value))
    ]
    return (*kept, *added, *command[split:])


def recorded_anew(run: Run, options: Mapping[str, str | None]) -> tuple[str, ...]:
    """The same for any run: where the program is not known, `python train.py` stands for it."""
    return recorded_with(run, options) or (
        *("graphviz-dash", "collect", "-o", _folder(run)),
        *(word for name, value in options.items() for word in ((name, value or ""))),
        *(_PROGRAM, *_UNKNOWN_PROGRAM),
    )


def again(name: str) -> str:
    """A name for what is recorded once more beside what is called ``name``."""
    return f"{name}-again"


def collected_in(run: Run, modes: Sequence[str], there: Container[str] = ()) -> tuple[str, ...]:
    """The command that collects the workload of ``run`` in those of ``modes`` that are not
    ``there``, into the same experiment; where all are, in all of them into another. That of a rank
    of several is begun by the launcher that began it."""
    folder, wanted = _folder(run), [mode for mode in modes if mode not in there]
    if not wanted:
        folder, wanted = again(folder), list(modes)
    return (*_collector(run), *_workload(run), "--modes", ",".join(wanted), "-o", folder)


def examined(run: Run) -> tuple[str, ...]:
    """The command by which a doctor examines the workload or the program of ``run``."""
    if not run.mode.is_recorded:
        return ("graphviz-dash", "doctor", *_workload(run), "-o", _folder(run))
    command = run.manifest.command
    known = command[command.index(_PROGRAM) + 1 :] if _PROGRAM in command else _UNKNOWN_PROGRAM
    return ("graphviz-dash", "doctor", "-o", _folder(run), _PROGRAM, *known)


def _collector(run: Run) -> tuple[str, ...]:
    command, group = run.manifest.command, run.manifest.group
    if group is not None and group.world_size > 1:
        for at, word in enumerate(command):
            if word in _COLLECTORS:
                return command[: at + 1]
    return ("graphviz-dash", "collect")


def _workload(run: Run) -> tuple[str, ...]:
    """The options that name the workload of ``run`` and set its parameters."""
    command = run.manifest.command
    options = ("--workload", _option(command, "--workload") or run.manifest.workload.factory)
    sets = (command[at : at + 2] for at, word in enumerate(command) if word == _REPEATED)
    return (*options, *(word for pair in sets for word in pair))


def _folder(run: Run) -> str:
    """The folder of the experiment, as the command that made the run names it."""
    named = (_option(run.manifest.command, name) for name in _OUTPUTS)
    return next((_at_home(folder) for folder in named if folder), run.path.parent.name)


def _at_home(folder: str) -> str:
    """A folder as whoever reads it can write it: of an absolute one, which is the recording
    machine's own, the name."""
    for kind in (PurePosixPath, PureWindowsPath):
        if (path := kind(folder)).is_absolute():
            return path.name or folder
    return folder


def _option(command: tuple[str, ...], name: str) -> str | None:
    for at, word in enumerate(command):
        if word == _PROGRAM:
            return None
        if word == name:
            return next(iter(command[at + 1 : at + 2]), None)
        if name.startswith("--") and word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None
