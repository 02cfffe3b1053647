"""What the command asks of the recorder in a program, and the files that it leaves behind."""

from __future__ import annotations

import errno
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from graphviz_dash.model.recording import StartMethod
from graphviz_dash.model.run import RankGroup

STATE_FILE: Final = "recording.json"
ENVIRONMENT_FILE: Final = "environment.json"
MEMORY_FILE: Final = "memory.json"
FAILURE_FILE: Final = "failure.json"
TRACE_FILE: Final = "trace.json"
CAPTURE_TRACE_FILE: Final = "capture.json"
IDENTITY_FILE: Final = "identity.json"
PROBLEMS_FILE: Final = "problems.json"
COMPILATION_FILE: Final = "compilation.json"
GRAPHS_FOLDER: Final = "graphs"


WINDOW_REPLAYS: Final = 200
"""Steps in the traced window at most, unless asked otherwise."""


WINDOW_EVENTS: Final = 40_000
"""Events in the traced window, about. Measured on an H100: the profiler needs 6 µs to stop for each
kernel of a graph, and another 6 µs to write it."""


class Identity(msgspec.Struct, frozen=True):
    """Which process of the program this is."""

    rank: int | None
    """torchrun's number of it; None outside of torchrun."""
    group: RankGroup | None
    """torchrun's ranks; None outside of torchrun."""
    torch: str
    """The version of the torch that it imported."""
    python: str
    """The version of its Python."""
    forked: bool = False
    """Whether it was forked from another process of the program, so that nobody has seen its exit
    code."""
    role: str = ""
    """The name that it has in the program."""
    pid: int = 0
    """The system's number of it."""
    parent_pid: int = 0
    """The number of the process that it came from."""
    started_by: StartMethod | None = None
    """How it came to be, where multiprocessing or a fork tells."""


class Problems(msgspec.Struct, frozen=True):
    """What went wrong in the recorder and was kept from the program."""

    errors: int
    """How often."""
    first: str
    """The kind of the first error, and where it came from."""
    stopped: bool = False
    """The recorder stopped because there were too many."""


class Settings(msgspec.Struct, frozen=True):
    """What to record: ``skip`` steps without a capture, then ``window`` steps under the profiler.

    ``attribute``: the profiler runs from the program's first capture on, with ranges for modules
    and lines, so that nodes lead to them; step times are then not free of it.
    """

    skip: int
    window: int
    attribute: bool = False
    window_replays: int = WINDOW_REPLAYS
    """Steps that the window has at most, where not every graph of a family has come in it yet."""
    window_events: int = WINDOW_EVENTS
    """Events, as estimated, after which it ends in any case."""
    window_seconds: float | None = None
    """How long it goes on then at most; None: as long as it takes."""


class ProcessFolder:
    """What one process of the program leaves behind: JSON files, each whole or not there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.refusals = 0
        """Writes that the system refused."""
        self.first_refusal: str | None = None
        """Why the first of them was."""
        (path / GRAPHS_FOLDER).mkdir()

    @classmethod
    def new(cls, scratch: Path) -> ProcessFolder:
        """One in ``scratch`` for this process, named by process and time: a program that executes
        itself again keeps its process. OSError where it cannot be made."""
        path = scratch / f"{os.getpid()}-{time.time_ns()}"
        path.mkdir()
        return cls(path)

    @staticmethod
    def all_in(scratch: Path) -> list[Path]:
        """Those that were left in ``scratch``, by the time at which they began."""
        return sorted(
            (file.parent for file in scratch.glob(f"*-*/{IDENTITY_FILE}")),
            key=lambda folder: int(folder.name.partition("-")[2]),
        )

    def put(self, name: str, content: msgspec.Struct) -> None:
        """Writes the file ``name``, unless that is refused: the disk is full, or the command that
        asked for it is gone. The program goes on without us then."""
        file = self.path / name
        part = file.with_name(f".{file.name}")
        with self._refusals_counted(name):
            _write(part, encoded(content))
            part.replace(file)

    def append(self, name: str, content: bytes) -> None:
        """Adds ``content`` to the file ``name``, unless that is refused, as above."""
        with self._refusals_counted(name):
            _append(self.path / name, content)

    def overwrite(self, name: str, content: bytes) -> None:
        """Write ``content`` over the start of the file ``name``, unless that is refused, as above.

        A reader may see a part of it; use it for numbers.
        """
        with self._refusals_counted(name):
            _overwrite(self.path / name, content)

    @contextmanager
    def _refusals_counted(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.refusals += 1
            if self.first_refusal is None:
                self.first_refusal = f"{name}: {error.strerror or error}"


def _append(file: Path, content: bytes) -> None:
    size = file.stat().st_size if file.exists() else 0
    _refuse_above_limit(file, size + len(content))
    with file.open("ab") as events:
        events.write(content)


def _overwrite(file: Path, content: bytes) -> None:
    _refuse_above_limit(file, len(content))
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(handle, content, 0)
        os.ftruncate(handle, len(content))
    finally:
        os.close(handle)


def _write(file: Path, content: bytes) -> None:
    _refuse_above_limit(file, len(content))
    file.write_bytes(content)


def _refuse_above_limit(file: Path, size: int) -> None:
    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if most != resource.RLIM_INFINITY and size > most:
        # Not tried: the signal that comes with the refusal could end the program.
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(file))


def encoded(content: msgspec.Struct) -> bytes:
    """``content`` as JSON, with what no JSON can hold (bytes of paths that are no text) escaped."""
    try:
        return msgspec.json.encode(content)
    except UnicodeEncodeError:
        return msgspec.json.encode(_plain(msgspec.to_builtins(content)))


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
