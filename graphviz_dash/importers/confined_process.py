"""The process that reads what a stranger uploaded; ``confined.py`` starts it and speaks to it.

``python -m graphviz_dash.importers.confined_process``: a :class:`Request` in JSON comes on stdin;
on stdout go lines of JSON, each a message of :data:`Message`, the last one Finished or Refused. It
bounds itself before it reads anything, and ends with the process that started it.
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
from graphviz_dash.process_memory import forget_peak, give_back, own_memory, peak_memory
from graphviz_dash.progress import watched

_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG of prctl(2)
_NICE: Final = 10
"""So that whoever looks at pages comes first."""
_STEPS: Final = 100
"""Of progress, from nothing to all: more are not worth a message."""


class Request(msgspec.Struct):
    """What is to be read."""

    files: list[str]
    """Paths; one where it is an archive."""
    folder: str
    """Where the experiment is made."""
    archive: str | None
    """What errors call the archive; None: the files are foreign and to be imported."""
    seconds: int
    """CPU time that reading may take."""
    memory_bytes: int
    """Address space that reading may take."""
    opened_bytes: int
    """Memory that the server may need to open what was made, where its pages take it from the same
    tables."""


class Progress(msgspec.Struct, tag="progress"):
    """The share of the work that is done, 0 to 1."""

    share: float


class Finished(msgspec.Struct, tag="finished"):
    """The experiment is there; ``name`` is what it should be called, maybe empty."""

    name: str


class Refused(msgspec.Struct, tag="refused"):
    """The parts of an InputError."""

    where: str
    """The file at fault."""
    found: str
    """What is there."""
    expected: str
    """What should be there."""
    advice: str
    """What to do about it; may be empty."""


Message: TypeAlias = Progress | Finished | Refused


def main() -> None:
    """Reads the request and fulfils it."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    _confine(request)
    out = os.dup(1)
    os.dup2(2, 1)  # whatever libraries print is no message
    _send(out, _fulfilled(request, out))


def _fulfilled(request: Request, out: int) -> Finished | Refused:
    sent = 0

    def send_progress(share: float) -> None:
        nonlocal sent
        if int(share * _STEPS) != sent:
            sent = int(share * _STEPS)
            _send(out, Progress(share))

    try:
        with watched(send_progress):
            name = _read(request)
        return _opened(request) or Finished(name)
    except InputError as error:
        return Refused(error.where, error.found, error.expected, error.advice)
    except GraphvizDashError as error:
        return Refused(Path(request.files[0]).name, str(error), "a file that can be imported", "")
    except MemoryError:
        return Refused(Path(request.files[0]).name, OUT_OF_MEMORY, smaller(request), "")


OUT_OF_MEMORY: Final = "a file that takes more memory to read than an upload may"
TOO_MUCH_TO_OPEN: Final = "a file whose pages take more of the server's memory than an upload may"


def smaller(request: Request) -> str:
    """What should have been uploaded instead of a file that is too much."""
    memory = request.memory_bytes / (1 << 30)
    return f"one that is read within {memory:.1f} GiB and {request.seconds} s"


def _read(request: Request) -> str:
    from graphviz_dash.ingest.cache import VARIABLE

    os.environ[VARIABLE] = "off"  # an upload leaves nothing behind
    folder = Path(request.folder)
    most = min(DEFAULT_LIMITS.memory_bytes, request.memory_bytes // 2)
    limits = replace(DEFAULT_LIMITS, memory_bytes=most)
    if request.archive is not None:
        from graphviz_dash.importers.archives import unpack_experiment

        with Path(request.files[0]).open("rb") as archive:
            return unpack_experiment(archive, folder, request.archive, limits)
    from graphviz_dash.importers.bundles import import_files

    return import_files([Path(file) for file in request.files], folder, limits=limits)[0].path.name


def _opened(request: Request) -> Refused | None:
    """Opens what was made as the server will, and refuses what is too much for it: its memory is
    everybody's."""
    from graphviz_dash.ingest.load import load_experiment

    gc.collect()
    give_back()
    before = own_memory()
    forget_peak()
    with suppress(InputError):  # a run that cannot be read is told by pages
        load_experiment(Path(request.folder))
    peak = peak_memory()
    if before is None or peak is None or peak - before <= request.opened_bytes:
        return None
    label = request.archive or Path(request.files[0]).name
    most = f"one that is opened within {request.opened_bytes / (1 << 30):.1f} GiB"
    advice = "Open it with a server of your own: graphviz-dash serve FOLDER."
    return Refused(label, TOO_MUCH_TO_OPEN, most, advice)


def _confine(request: Request) -> None:
    """Sets the bounds, as far as this system has them, and steps back behind others."""
    if sys.platform == "win32":
        return
    import resource

    os.nice(_NICE)
    for bound, most, hard in (
        (resource.RLIMIT_AS, request.memory_bytes, request.memory_bytes),
        # At the soft bound comes SIGXCPU, which says what it was; where both are one, SIGKILL.
        (resource.RLIMIT_CPU, request.seconds, request.seconds + 1),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        with suppress(ValueError, OSError):  # macOS knows no bound of memory
            resource.setrlimit(bound, (most, hard))
    if sys.platform == "linux":
        import ctypes

        # Where the machine's memory ends nonetheless, the system is to end this process first.
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")

        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() == 1:  # it has ended already
            os._exit(1)


def _send(out: int, message: Message) -> None:
    data = msgspec.json.encode(message) + b"\n"
    while data:
        data = data[os.write(out, data) :]


if __name__ == "__main__":
    main()
