"""Sandboxed process that reads an upload, started by ``confined.py``.

``python -m graphviz_dash.importers.confined_process`` reads a :class:`LaunchRequest` as JSON from
stdin and writes one :data:`Message` per line as JSON to stdout, the last one Finished or Refused.
It sets its limits before it reads any file, and ends with its parent.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from graphviz_dash.errors import GraphvizDashError, InputError
from graphviz_dash.ingest.limits import DEFAULT_LIMITS
from graphviz_dash.process_memory import (
    get_own_memory,
    get_peak_memory,
    release_free_memory,
    reset_peak,
)
from graphviz_dash.progress import watch

_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG of prctl(2)
_NICE: Final = 10
"""Niceness, so that page requests have priority."""
_PROGRESS_STEPS: Final = 100


class Request(msgspec.Struct):
    """An upload to read."""

    files: list[str]
    folder: str
    """Folder of the new experiment."""
    archive: str | None
    """Name in errors. None for foreign files to import."""
    seconds: int
    """CPU time limit."""
    memory_bytes: int
    """Address space limit."""
    opened_bytes: int
    """Server memory limit for opening the import."""


class Progress(msgspec.Struct, tag="progress"):
    """Progress of the import."""

    share: float
    """Completed share, 0 to 1."""


class Finished(msgspec.Struct, tag="finished"):
    """Successful end of the import."""

    name: str
    """Suggested name of the experiment. May be empty."""


class Rejected(msgspec.Struct, tag="refused"):
    """An InputError as fields."""

    where: str
    found: str
    expected: str
    advice: str
    """Advice. May be empty."""


Message: TypeAlias = Progress | Finished | Rejected


def main() -> None:
    """Process the request from stdin."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    _set_limits(request)
    out = os.dup(1)
    os.dup2(2, 1)  # keep output of libraries out of the messages
    _send_message(out, _process_request(request, out))


def _process_request(request: Request, out: int) -> Finished | Rejected:
    sent = 0

    def send_progress(share: float) -> None:
        nonlocal sent
        if int(share * _PROGRESS_STEPS) != sent:
            sent = int(share * _PROGRESS_STEPS)
            _send_message(out, Progress(share))

    try:
        with watch(send_progress):
            name = _import_upload(request)
        return _check_opening(request) or Finished(name)
    except InputError as error:
        return Rejected(error.where, error.found, error.expected, error.advice)
    except GraphvizDashError as error:
        return Rejected(Path(request.files[0]).name, str(error), "a file that can be imported", "")
    except MemoryError:
        return Rejected(Path(request.files[0]).name, OUT_OF_MEMORY, format_limits(request), "")


OUT_OF_MEMORY: Final = "a file that needs more memory to read than the upload limit"
OPENING_LIMIT: Final = "a file whose pages need more server memory than the upload limit"


def format_limits(request: Request) -> str:
    """Format the limits that an upload must meet."""
    memory = request.memory_bytes / (1 << 30)
    return f"a file that can be read within {memory:.1f} GiB and {request.seconds} s"


def _import_upload(request: Request) -> str:
    from graphviz_dash.ingest.cache_folder import CACHE_VARIABLE

    os.environ[CACHE_VARIABLE] = "off"  # uploads are not cached
    folder = Path(request.folder)
    memory_bytes = min(DEFAULT_LIMITS.memory_bytes, request.memory_bytes // 2)
    limits = replace(DEFAULT_LIMITS, memory_bytes=memory_bytes)
    if request.archive is not None:
        from graphviz_dash.importers.archives import unpack_experiment

        with Path(request.files[0]).open("rb") as archive:
            return unpack_experiment(archive, folder, request.archive, limits)
    from graphviz_dash.importers.bundles import import_files

    return import_files([Path(file) for file in request.files], folder, limits=limits)[0].path.name


def _check_opening(request: Request) -> Rejected | None:
    """Open the import like the server; reject it if it needs too much memory."""
    from graphviz_dash.ingest.load import load_experiment

    gc.collect()
    release_free_memory()
    before = get_own_memory()
    reset_peak()
    with suppress(InputError):  # pages report unreadable runs
        load_experiment(Path(request.folder))
    peak = get_peak_memory()
    if before is None or peak is None or peak - before <= request.opened_bytes:
        return None
    label = request.archive or Path(request.files[0]).name
    expected = f"a file that can be opened within {request.opened_bytes / (1 << 30):.1f} GiB"
    advice = "Open it with a separate server: graphviz-dash serve FOLDER."
    return Rejected(label, OPENING_LIMIT, expected, advice)


def _set_limits(request: Request) -> None:
    """Set the supported limits, and lower the priority."""
    if sys.platform == "win32":
        return
    import resource

    os.nice(_NICE)
    for limit, soft, hard in (
        (resource.RLIMIT_AS, request.memory_bytes, request.memory_bytes),
        # The soft limit sends SIGXCPU, which identifies the cause. With equal limits, SIGKILL is
        # sent.
        (resource.RLIMIT_CPU, request.seconds, request.seconds + 1),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        with suppress(ValueError, OSError):  # macOS has no memory limit
            resource.setrlimit(limit, (soft, hard))
    if sys.platform == "linux":
        import ctypes

        # If the machine still runs out of memory, the kernel should kill this process first.
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")

        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() == 1:  # the parent has already ended
            os._exit(1)


def _send_message(out: int, message: Message) -> None:
    data = msgspec.json.encode(message) + b"\n"
    while data:
        data = data[os.write(out, data) :]


if __name__ == "__main__":
    main()
