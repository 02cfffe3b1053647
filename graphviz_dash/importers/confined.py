"""Uploads read in a process of their own, with bounds of time and memory.

A file can be made to freeze, crash or exhaust whoever reads it, whatever care its reader takes: it
then does so to a process that nobody else needs. That is killed when it passes a bound, when the
one who waits gives up, or when this process ends, and what became of it is one line.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import msgspec
from msgspec import Struct

from graphviz_dash.errors import InputError, printable
from graphviz_dash.importers import confined_process
from graphviz_dash.importers.confined_process import (
    OUT_OF_MEMORY,
    Finished,
    Message,
    Progress,
    Refused,
    Request,
    smaller,
)
from graphviz_dash.ingest.limits import DEFAULT_LIMITS
from graphviz_dash.ingest.processes import PROCESSES_VARIABLE, module_path
from graphviz_dash.progress import report
from graphviz_dash.server_settings import memory_bound

_LOG: Final = logging.getLogger(__name__)
_LEAST_MEMORY: Final = 2 << 30
_LEAST_OPENED: Final = 512 << 20
_PATIENCE_SECONDS: Final = 0.5
"""How often who waits is asked whether it still does."""


class Bounds(Struct, frozen=True):
    """What reading one upload may take."""

    seconds: int = 120
    """By the clock, and of CPU time."""
    memory_bytes: int = max(DEFAULT_LIMITS.memory_bytes, _LEAST_MEMORY)
    """Of address space."""
    opened_bytes: int = max(memory_bound() // 4, _LEAST_OPENED)
    """Of the server's memory that opening what was made takes."""


DEFAULT_BOUNDS: Final = Bounds()


def import_confined(files: Sequence[Path], folder: Path, bounds: Bounds = DEFAULT_BOUNDS) -> str:
    """Makes run bundles of ``files`` in ``folder``, an experiment, as
    :func:`graphviz_dash.importers.bundles.import_files` does; returns the name of the first run.
    Progress is passed on to who watches.

    Raises:
        InputError: as there, or a file that took more than ``bounds`` or ended its reader.
        CancelledError: who watches wants no more of it.
    """
    return _run(files, folder, None, bounds)


def unpack_confined(
    archive: Path, folder: Path, label: str, bounds: Bounds = DEFAULT_BOUNDS
) -> str:
    """Unpacks ``archive`` into ``folder``, as
    :func:`graphviz_dash.importers.archives.unpack_experiment` does, and returns what it returns.

    Raises:
        InputError, CancelledError: as there, and as :func:`import_confined`.
    """
    return _run([archive], folder, label, bounds)


def _run(files: Sequence[Path], folder: Path, archive: str | None, bounds: Bounds) -> str:
    request = Request(
        [str(file) for file in files],
        str(folder),
        archive,
        bounds.seconds,
        bounds.memory_bytes,
        bounds.opened_bytes,
    )
    with (
        tempfile.TemporaryDirectory(prefix=".confined-", dir=folder.parent) as scratch,
        tempfile.TemporaryFile() as errors,
    ):
        # A group of its own: what it started ends with it, and it is not the terminal's to stop.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", confined_process.__name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=_environment(scratch),
            process_group=0,
        )
        try:
            return _answer(process, request, errors)
        finally:
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends the process and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _environment(scratch: str) -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(module_path()),
        "TMPDIR": scratch,  # whatever it leaves there goes with the folder
        PROCESSES_VARIABLE: "1",
        # Each thread of these takes address space, which is bounded.
        "POLARS_MAX_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _answer(process: subprocess.Popen[bytes], request: Request, errors: IO[bytes]) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.write(msgspec.json.encode(request))
        process.stdin.close()
    for message in _messages(process.stdout.fileno(), request.seconds):
        match message:
            case Progress(share=share):
                report(share)
            case Finished(name=name):
                return name
            case Refused():
                where = Path(message.where).name
                raise InputError(where, message.found, message.expected, message.advice)
            case None:
                report(0.0)
    raise _ended(process, request, errors)


def _messages(fd: int, seconds: float) -> Iterator[Message | None]:
    """The messages as they come, None while none comes; ends when the process or its time does."""
    deadline = time.monotonic() + seconds
    decoder = msgspec.json.Decoder(Message)
    waiting = b""
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([fd], [], [], min(left, _PATIENCE_SECONDS))
        if not ready:
            yield None
            continue
        data = os.read(fd, 1 << 16)
        if not data:
            return
        *lines, waiting = (waiting + data).split(b"\n")
        yield from map(decoder.decode, lines)


def _ended(process: subprocess.Popen[bytes], request: Request, errors: IO[bytes]) -> InputError:
    """What became of a process that gave no answer."""
    name = Path(request.files[0]).name if request.archive is None else request.archive
    try:
        code = process.wait(timeout=_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        code = -signal.SIGXCPU
    if code == -signal.SIGXCPU:
        actual = f"a file that takes more than {request.seconds} s to read"
    elif code == -signal.SIGKILL:
        actual = OUT_OF_MEMORY
    elif code < 0:
        actual = f"a file that crashed its reader ({signal.Signals(-code).name})"
    else:
        actual = "a file that ended its reader"
    errors.seek(0)
    said = errors.read(1 << 20).decode("utf-8", "replace").strip().rpartition("\n")[2]
    _LOG.error("%s", printable(f"{name}: {actual}, exit code {code}: {said[:200]}"))
    return InputError(name, actual, smaller(request))
