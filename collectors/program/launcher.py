"""Run a program once, with a hook in each of its Python processes.

The program starts as its user would start it, with the same terminal. A folder on PYTHONPATH
contains a ``sitecustomize`` that calls the hook after the import of torch
(docs/decisions/0008-hook-programs-with-sitecustomize.md).
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import msgspec

from collectors.program.group_witness import GroupWitness
from graphviz_dash.errors import InputError, MissingRequirementError
from graphviz_dash.units import pluralize

HOOK = "GRAPHVIZ_DASH_HOOK"
"""Hook, ``module:function``, called without arguments in each process of the program."""

SCRATCH = "GRAPHVIZ_DASH_SCRATCH"
"""Folder for files of the hooks. Exists until the program ends."""

SETTINGS = "GRAPHVIZ_DASH_SETTINGS"
"""Text for the hook, such as JSON."""

_NOTES = "processes"
_INJECTED = Path(__file__).parent / "inject"
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_OF_TERMINALS = (signal.SIGINT, signal.SIGQUIT)
"""Signals that a terminal sends to the process group."""


class PythonProcess(msgspec.Struct, frozen=True):
    """A Python process of the program."""

    pid: int
    python: str
    torch: bool
    """The process imported torch, which triggers the hook."""
    error: str | None
    """Reason why the hook failed, or None if it succeeded or was not triggered."""


@dataclass(frozen=True)
class ProgramExit:
    """Exit code of the program, negative for a signal, and its hooked processes by start."""

    returncode: int
    processes: tuple[PythonProcess, ...]
    pid: int | None = None


def run_program(command: Sequence[str], hook: str, settings: str, scratch: Path) -> ProgramExit:
    """Run ``command`` to its end with ``hook`` in each of its Python processes.

    The program shares standard streams, working folder and process group with the caller. Call from
    the main thread: signals that would end the caller are forwarded to the program.

    Args:
        hook: ``module:function``, called without arguments right after ``import torch``, in the
            importing thread. It reads :func:`get_settings` and :func:`get_scratch_folder`. The
            result lists its errors. It runs again in a child that imports torch, but not in later
            forks.
        scratch: Existing folder for files of the hooks.

    Raises:
        InputError: The command is missing or not executable.
    """
    (scratch / _NOTES).mkdir(exist_ok=True)
    try:
        with _forward_signals() as passed_to:
            environment = build_environment(hook, settings, scratch)
            process = subprocess.Popen(_resolve_command(command), env=environment)
            passed_to.append(process)
            returncode = process.wait()
    except OSError as error:
        problem = f"cannot be started ({error.strerror or error})"
        raise InputError(command[0], problem, "an executable program") from error
    return ProgramExit(returncode, read_processes(scratch), process.pid)


def read_processes(scratch: Path) -> tuple[PythonProcess, ...]:
    """Read the hooked Python processes by start."""
    notes = (scratch / _NOTES).glob("*.json")
    return tuple(
        msgspec.json.decode(note.read_bytes(), type=PythonProcess)
        for note in sorted(notes, key=lambda note: int(note.stem.partition("-")[2]))
    )


def build_environment(hook: str, settings: str, scratch: Path) -> dict[str, str]:
    """Build the environment in which each Python calls ``hook``; see :func:`run_program`."""
    environment = os.environ | {HOOK: hook, SETTINGS: settings, SCRATCH: str(scratch.resolve())}
    before = os.environ.get("PYTHONPATH")
    environment["PYTHONPATH"] = os.pathsep.join([str(_INJECTED), *([before] if before else [])])
    return environment


def get_settings() -> str:
    """Return the text given to :func:`run_program`, in a hook."""
    return os.environ[SETTINGS]


def get_scratch_folder() -> Path:
    """Return the folder given to :func:`run_program`, in a hook."""
    return Path(os.environ[SCRATCH])


def explain_unwatched(ended: ProgramExit) -> str | None:
    """Explain in one sentence why no process could be hooked, or return None."""
    if any(process.torch and process.error is None for process in ended.processes):
        return None
    for process in ended.processes:
        if process.error is not None:
            return f"{process.python} cannot load the hook: {process.error}"
    if ended.processes:
        return "the program did not import torch"
    return "it started no Python that reads PYTHONPATH (-I, -E and -S turn that off)"


def describe_unhooked(ended: ProgramExit) -> str | None:
    """Describe processes with torch that could not be recorded, or return None."""
    torch = [process for process in ended.processes if process.torch]
    errors = [process.error for process in torch if process.error is not None]
    if not errors:
        return None
    return f"{len(errors)} of {pluralize(len(torch), 'process')} could not be, first: {errors[0]}"


def exit_like(returncode: int) -> int:
    """Return the exit code for the caller's caller. If a signal killed the program, die by it."""
    if returncode >= 0:
        return returncode
    sys.stdout.flush()
    sys.stderr.flush()
    # The program has already written its core file, if any.
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    number = -returncode
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


def format_signal(number: int) -> str:
    """Return ``SIGTERM`` for 15. Real-time signals have a number only."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _resolve_command(command: Sequence[str]) -> list[str]:
    if not command:
        raise InputError("the command line", "nothing after --", "a program and its arguments")
    executable = shutil.which(command[0])
    if executable is None:
        script = Path(command[0])
        advice = f"Put python before it: python {command[0]}" if script.suffix == ".py" else ""
        problem = "not executable" if script.exists() else "no such program"
        raise InputError(command[0], problem, "an executable on PATH", advice)
    # argv[0] stays as typed: an interpreter finds its virtual environment by it.
    return list(command)


@contextmanager
def _forward_signals() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Forward signals that would end this process to the processes in the list, unless these
    received them too.

    Ignored signals stay ignored: the program inherits that, and ``nohup`` relies on it. Handlers
    are not inherited.
    """
    processes: list[subprocess.Popen[bytes]] = []
    held = [
        number
        for number in (*_PASSED_ON, *_OF_TERMINALS)
        if signal.getsignal(number) is not signal.SIG_IGN
    ]
    with GroupWitness(held) as witness:

        def hand_on(number: int, _frame: FrameType | None) -> None:
            reached = witness.check_signal(number)
            if reached is None:
                reached = number in _OF_TERMINALS
            if not reached:
                for process in processes:
                    process.send_signal(number)

        old = {number: signal.signal(number, hand_on) for number in held}
        try:
            yield processes
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)


def require_hook(command: Sequence[str], modules: Sequence[str]) -> None:
    """Check that the program's Python, if the command names one, has the modules of the hook.

    This prevents hours of training without a recording. Launchers such as torchrun are not checked.

    Raises:
        MissingRequirementError: A module is missing in that Python.
    """
    if not command or not Path(command[0]).name.startswith("python"):
        return
    code = (
        # -c searches the working folder first. Python before 3.11 has no -P.
        "import sys\n"
        "sys.path[:] = filter(None, sys.path)\n"
        "import importlib.util\n"
        "sys.exit(' '.join(n for n in sys.argv[1:] if importlib.util.find_spec(n) is None) or 0)"
    )
    try:
        result = subprocess.run(
            [_resolve_command(command)[0], "-c", code, *modules],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return
    if result.returncode != 0:
        missing = ", ".join(result.stderr.split()) or "required module"
        raise MissingRequirementError(
            f"{command[0]} has no {missing}: install 'graphviz-dash[collect]' for the Python that "
            "runs the program."
        )
