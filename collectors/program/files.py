"""Settings of the recorder in a program, and the files that it writes."""

from __future__ import annotations

import errno
import os
import resource
import time
from pathlib import Path
from threading import get_ident
from typing import Any, Final

import msgspec

from collectors.program.mapped_file import MappedFile
from graphviz_dash.model.recording import WINDOW_PAUSE_S, WINDOW_REPLAYS, StartMethod
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
LEDGER_FILE: Final = "ledger.json"
CODE_FILE: Final = "code.json"
"""Files with the code of kernels."""
WRITTEN_FILE: Final = "written"
"""Name of the run whose bundle is written already, in case the command is killed after it."""
GRAPHS_FOLDER: Final = "graphs"


class Identity(msgspec.Struct, frozen=True):
    """Identity of a process of the program."""

    rank: int | None
    """Rank given by torchrun, or None."""
    group: RankGroup | None
    torch: str
    python: str
    forked: bool = False
    """Forked from another process of the program: its exit code is unknown."""
    role: str = ""
    pid: int = 0
    parent_pid: int = 0
    start_method: StartMethod | None = None
    """From multiprocessing or a fork. None if unknown."""


class Problems(msgspec.Struct, frozen=True):
    """Errors of the recorder that the program did not see."""

    errors: int
    first: str
    stopped: bool = False
    """The recorder stopped because of too many errors."""


class Settings(msgspec.Struct, frozen=True):
    """Settings of the recorder: ``skip`` steps without a capture, then ``window`` profiled steps.

    ``attribute`` profiles from the first capture on, with ranges for modules and lines, so that
    nodes lead to them. Step times then include the profiler's overhead.
    """

    skip: int
    window: int
    attribute: bool = False
    window_replays: int = WINDOW_REPLAYS
    """Maximum steps in a window that waits for more graphs of a family."""
    window_pause_s: float = WINDOW_PAUSE_S
    """Estimated pause of the program at which the window closes in any case."""
    window_seconds: float | None = None
    """Maximum duration of that wait, or None."""


class _MappedFiles(dict[str, MappedFile]):
    """The mapped files of a folder, created on demand. Finding one calls no function of Python."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __missing__(self, name: str) -> MappedFile:
        file = self[name] = MappedFile(self._path / name)
        return file


class ProcessFolder:
    """Files of one process of the program: JSON, each complete or absent, and mapped numbers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.refusals = 0
        self.first_refusal: str | None = None
        self._mapped = _MappedFiles(path)
        (path / GRAPHS_FOLDER).mkdir()

    @classmethod
    def create(cls, scratch: Path) -> ProcessFolder:
        """Create a folder in ``scratch`` for this process, named by process id and time: a program
        that executes itself again keeps its id.

        Raises:
            OSError: The folder cannot be created.
        """
        path = scratch / f"{os.getpid()}-{time.time_ns()}"
        path.mkdir()
        return cls(path)

    @staticmethod
    def list_all(scratch: Path) -> list[Path]:
        """List the folders in ``scratch``, by time of their creation."""
        return sorted(
            (file.parent for file in scratch.glob(f"*-*/{IDENTITY_FILE}")),
            key=lambda folder: int(folder.name.partition("-")[2]),
        )

    def put(self, name: str, content: msgspec.Struct) -> None:
        """Write the file ``name``. Failures are counted: the disk may be full, or the command
        gone."""
        file = self.path / name
        # Another thread may write the same file.
        part = file.with_name(f".{file.name}.{get_ident()}")
        try:
            _write(part, encode_json(content))
            part.replace(file)
        except OSError as error:
            self._count_refusal(name, error)

    def append(self, name: str, content: bytes) -> None:
        """Append ``content`` to the mapped file ``name``. Failures are counted."""
        try:
            self._mapped[name].append(content)
        except OSError as error:
            self._count_refusal(name, error)

    def rewrite(self, name: str, content: bytes) -> None:
        """Replace the content of the mapped file ``name``. Failures are counted."""
        try:
            self._mapped[name].rewrite(content)
        except OSError as error:
            self._count_refusal(name, error)

    def _count_refusal(self, name: str, error: OSError) -> None:
        self.refusals += 1
        if self.first_refusal is None:
            self.first_refusal = f"{name}: {error.strerror or error}"


def _write(file: Path, content: bytes) -> None:
    _refuse_above_limit(file, len(content))
    file.write_bytes(content)


def _refuse_above_limit(file: Path, size: int) -> None:
    size_limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if size_limit != resource.RLIM_INFINITY and size > size_limit:
        # Not attempted: the signal sent on failure could end the program.
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(file))


def encode_json(content: msgspec.Struct) -> bytes:
    """Encode ``content`` as JSON, with non-text bytes of paths escaped."""
    try:
        return msgspec.json.encode(content)
    except UnicodeEncodeError:
        return msgspec.json.encode(_escape_text(msgspec.to_builtins(content)))


def _escape_text(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_escape_text(key): _escape_text(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_escape_text(item) for item in value]
    return value
