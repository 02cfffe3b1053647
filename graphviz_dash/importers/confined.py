"""Import of uploads in a separate process with limits of time and memory.

Malicious files can freeze, crash or exhaust their reader. The process is killed when it exceeds a
limit, when the user cancels, or when this process ends.
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

from graphviz_dash.errors import InputError, escape_control_characters
from graphviz_dash.importers import confined_process
from graphviz_dash.importers.confined_process import (
    OUT_OF_MEMORY,
    Finished,
    Message,
    Progress,
    Rejected,
    Request,
    format_limits,
)
from graphviz_dash.ingest.limits import DEFAULT_LIMITS
from graphviz_dash.ingest.processes import PROCESSES_VARIABLE, get_module_path
from graphviz_dash.progress import report_progress
from graphviz_dash.server_settings import get_memory_limit

_LOG: Final = logging.getLogger(__name__)
_MIN_MEMORY: Final = 2 << 30
_MIN_OPENED: Final = 512 << 20
_POLL_SECONDS: Final = 0.5
"""Interval of checks for cancellation."""
_EXIT_POLL_SECONDS: Final = 0.01
"""Interval of checks for the end of a process that has closed its output."""


class SandboxLimits(Struct, frozen=True):
    """Limits for reading one upload."""

    seconds: int = 120
    """Wall time and CPU time."""
    memory_bytes: int = max(DEFAULT_LIMITS.memory_bytes, _MIN_MEMORY)
    """Address space."""
    opened_bytes: int = max(get_memory_limit() // 4, _MIN_OPENED)
    """Server memory for opening the import."""


DEFAULT_SANDBOX_LIMITS: Final = SandboxLimits()


def import_sandboxed(
    files: Sequence[Path], folder: Path, limits: SandboxLimits = DEFAULT_SANDBOX_LIMITS
) -> str:
    """Import ``files`` as run bundles into the experiment ``folder`` and return the first run's
    name.

    Raises:
        InputError: As in :func:`graphviz_dash.importers.bundles.import_files`, or a file that
            exceeded ``limits`` or crashed the process.
        CancelledError: The user cancelled.
    """
    return _run_process(files, folder, None, limits)


def unpack_sandboxed(
    archive: Path, folder: Path, label: str, limits: SandboxLimits = DEFAULT_SANDBOX_LIMITS
) -> str:
    """Unpack ``archive`` into ``folder`` and return the result of
    :func:`graphviz_dash.importers.archives.unpack_experiment`.

    Raises:
        InputError, CancelledError: As there, and as in :func:`import_sandboxed`.
    """
    return _run_process([archive], folder, label, limits)


def _run_process(
    files: Sequence[Path], folder: Path, archive: str | None, limits: SandboxLimits
) -> str:
    request = Request(
        [str(file) for file in files],
        str(folder),
        archive,
        limits.seconds,
        limits.memory_bytes,
        limits.opened_bytes,
    )
    with (
        tempfile.TemporaryDirectory(prefix=".confined-", dir=folder.parent) as scratch,
        tempfile.TemporaryFile() as errors,
    ):
        # A separate process group: its children end with it, and the terminal does not signal it.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", confined_process.__name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=_build_environment(scratch),
            process_group=0,
        )
        try:
            return _exchange_messages(process, request, errors)
        finally:
            _kill_group(process)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    # Once the process is waited for, another group may have its number.
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _build_environment(scratch: str) -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(get_module_path()),
        "TMPDIR": scratch,  # removed together with the folder
        PROCESSES_VARIABLE: "1",
        # Each thread of these libraries uses address space, which is limited.
        "POLARS_MAX_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _exchange_messages(
    process: subprocess.Popen[bytes], request: Request, errors: IO[bytes]
) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.write(msgspec.json.encode(request))
        process.stdin.close()
    for message in _read_messages(process.stdout.fileno(), request.seconds):
        match message:
            case Progress(share=share):
                report_progress(share)
            case Finished(name=name):
                return name
            case Rejected():
                source = Path(message.where).name
                raise InputError(source, message.found, message.expected, message.advice)
            case None:
                report_progress(0.0)
    raise _build_exit_error(process, request, errors)


def _read_messages(fd: int, seconds: float) -> Iterator[Message | None]:
    """Yield messages as they arrive, and None periodically. Ends with the process or at the time
    limit."""
    deadline = time.monotonic() + seconds
    decoder = msgspec.json.Decoder(Message)
    buffer = b""
    while (remaining := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([fd], [], [], min(remaining, _POLL_SECONDS))
        if not ready:
            yield None
            continue
        data = os.read(fd, 1 << 16)
        if not data:
            return
        *lines, buffer = (buffer + data).split(b"\n")
        yield from map(decoder.decode, lines)


def _find_exit_code(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Return the exit code, or None after ``seconds``.

    The process is not waited for: it keeps its number, which is also that of the group to kill.
    """
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        with suppress(subprocess.TimeoutExpired):
            return process.wait(seconds)
        return None
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        status = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if status is not None:
            is_exit = status.si_code == os.CLD_EXITED
            return status.si_status if is_exit else -status.si_status
        time.sleep(_EXIT_POLL_SECONDS)
    return None


def _build_exit_error(
    process: subprocess.Popen[bytes], request: Request, errors: IO[bytes]
) -> InputError:
    name = Path(request.files[0]).name if request.archive is None else request.archive
    code = _find_exit_code(process, _POLL_SECONDS)
    if code is None:
        code = -signal.SIGXCPU
    if code == -signal.SIGXCPU:
        description = f"a file that needs more than {request.seconds} s to read"
    elif code == -signal.SIGKILL:
        description = OUT_OF_MEMORY
    elif code < 0:
        description = f"a file that crashed the import process ({signal.Signals(-code).name})"
    else:
        description = "a file that stopped the import process"
    errors.seek(0)
    last_line = errors.read(1 << 20).decode("utf-8", "replace").strip().rpartition("\n")[2]
    _LOG.error(
        "%s",
        escape_control_characters(f"{name}: {description}, exit code {code}: {last_line[:200]}"),
    )
    return InputError(name, description, format_limits(request))
