"""The parts of a run bundle: one row each, from which all are written, read and checked.

A part is a file of a fixed path, or one for each graph. To add one, write its type in ``model``, a
``FileRole``, a field of ``RunParts``, and a row here; docs/reference/bundle-format.md documents it.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from graphviz_dash.bundle.part_checks import (
    check_clean,
    check_compilation,
    check_graph_ids,
    check_loop,
    check_memory_pass,
    check_node_ids,
    check_observers,
    check_parallel,
    check_recording,
    check_updates,
)
from graphviz_dash.bundle.schema import MAX_PART_BYTES, MAX_TRACE_BYTES
from graphviz_dash.errors import InputError
from graphviz_dash.model.compilation import Compilation
from graphviz_dash.model.doctor import DoctorReport
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.loop import ProgramLoop
from graphviz_dash.model.memory import MemoryPass
from graphviz_dash.model.node_ids import GraphIds, NodeIdPass
from graphviz_dash.model.observers import ObserverPass
from graphviz_dash.model.parallel import ParallelPlan
from graphviz_dash.model.recording import Recording
from graphviz_dash.model.run import FileRole, GraphUpdates, MemoryUse
from graphviz_dash.model.timings import CleanTimings

T = TypeVar("T")

Graphs: TypeAlias = tuple[CapturedGraph, ...]


def _unchecked(_content: Any, _graphs: Graphs, _file: Path) -> None:
    """For parts that say nothing of each other or of graphs."""


class JsonPart(Struct, Generic[T], frozen=True):
    """A part that is one JSON document."""

    role: FileRole
    """What the manifest calls it; with ``_`` for ``-`` the field of ``RunParts`` that holds it."""
    path: str
    """Where it lies in the bundle (POSIX), the same in each."""
    kind: type[T]
    """What it is decoded as; every field is checked against it."""
    check: Callable[[T, Graphs, Path], None] = _unchecked
    """Refuses (InputError with the file) what the types cannot: what parts say of each other."""
    packed: bool = False
    """Whether the text is compressed with gzip."""

    @property
    def field(self) -> str:
        """The field of ``RunParts`` that holds it."""
        return self.role.value.replace("-", "_")

    @property
    def file_name(self) -> str:
        """The last component of its path."""
        return PurePosixPath(self.path).name

    def encode(self, content: T) -> bytes:
        """The bytes of its file."""
        text = msgspec.json.encode(content)
        return gzip.compress(text, mtime=0) if self.packed else text

    def read(self, file: Path) -> T:
        """What the file holds, of the right type but not yet checked against other parts.

        Raises:
            InputError: not JSON, too large, or a field that is missing, unknown or of another type.
            OSError: it cannot be read.
        """
        content = _unpacked(file) if self.packed else file.read_bytes()
        return decode(content, self.kind, file)


CLEAN: Final = JsonPart(FileRole.CLEAN, "clean.json", CleanTimings, check_clean)
MEMORY: Final = JsonPart(FileRole.MEMORY, "memory.json", MemoryUse)
MEMORY_PASS: Final = JsonPart(
    FileRole.MEMORY_PASS, "memory-pass.json", MemoryPass, check_memory_pass
)
DOCTOR: Final = JsonPart(FileRole.DOCTOR, "doctor.json", DoctorReport)
UPDATES: Final = JsonPart(FileRole.UPDATES, "updates.json", GraphUpdates, check_updates)
OBSERVERS: Final = JsonPart(FileRole.OBSERVERS, "observers.json", ObserverPass, check_observers)
REPLAY_IDS: Final = JsonPart(
    FileRole.REPLAY_IDS, "traces/replay-ids.json", tuple[GraphIds, ...], check_graph_ids
)
NODE_IDS: Final = JsonPart(
    FileRole.NODE_IDS, "node-ids.json.gz", NodeIdPass, check_node_ids, packed=True
)
RECORDING: Final = JsonPart(FileRole.RECORDING, "recording.json", Recording, check_recording)
PARALLEL: Final = JsonPart(
    FileRole.PARALLEL, "parallel.json.gz", ParallelPlan, check_parallel, packed=True
)
LOOP: Final = JsonPart(FileRole.LOOP, "loop.json.gz", ProgramLoop, check_loop, packed=True)
COMPILATION: Final = JsonPart(
    FileRole.COMPILATION, "compilation.json.gz", Compilation, check_compilation, packed=True
)

JSON_PARTS: Final[tuple[JsonPart[Any], ...]] = (
    CLEAN,
    MEMORY,
    MEMORY_PASS,
    DOCTOR,
    UPDATES,
    OBSERVERS,
    REPLAY_IDS,
    NODE_IDS,
    RECORDING,
    LOOP,
    PARALLEL,
    COMPILATION,
)
"""The parts of which a bundle has one each, or none."""

TRACE_PATHS: Final = {
    FileRole.CAPTURE_TRACE: "traces/capture.json.gz",
    FileRole.REPLAY_TRACE: "traces/replay.json.gz",
}
"""Where the Kineto traces lie, which are kept as they were made and read by ``ingest``."""

_FURTHER_CAPTURE: Final = re.compile(r"traces/capture-([1-9]\d{0,3})\.json\.gz")
"""Where the traces of further captures lie, as of engines that write one for each batch size."""

FIXED_PATHS: Final = {part.role: part.path for part in JSON_PARTS} | TRACE_PATHS
"""Where the file of each role lies; a graph lies at :func:`graph_path`."""


def graph_path(graph_id: str) -> str:
    """The path of a graph's file in the bundle."""
    return f"graphs/{graph_id}.json"


def trace_path(role: FileRole, number: int) -> str:
    """The path of the trace of ``role`` with that number, from 0; only captures have further ones
    than the first."""
    first = TRACE_PATHS[role]
    return first if number == 0 else first.replace(".json", f"-{number}.json")


def capture_number(path: str) -> int:
    """The number of a capture's trace at ``path``, from 0."""
    match = _FURTHER_CAPTURE.fullmatch(path)
    return int(match[1]) if match else 0


def is_path_of(role: FileRole, path: str) -> bool:
    """Whether a file of ``role`` may lie at ``path`` in a bundle."""
    if "\0" in path or "\\" in path:
        return False
    if role is FileRole.CAPTURE_TRACE and _FURTHER_CAPTURE.fullmatch(path):
        return True
    if role is not FileRole.GRAPH:
        return path == FIXED_PATHS[role]
    pure = PurePosixPath(path)
    return len(pure.parts) == 2 and pure.stem != "" and path == graph_path(pure.stem)


def max_bytes(role: FileRole) -> int:
    """A file of ``role`` above this is refused unread."""
    return MAX_TRACE_BYTES if role in TRACE_PATHS else MAX_PART_BYTES


def decode(content: bytes, kind: type[T], file: Path) -> T:
    """``content`` as ``kind``.

    Raises:
        InputError: not JSON, or a field that is missing, unknown or of another type.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise InputError(
            file, str(error), "the types of the bundle format", topic="bundle-format"
        ) from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(file, f"not readable as JSON ({error})", "a JSON document") from error


def _unpacked(file: Path) -> bytes:
    """The text of a gzip-compressed part, at most MAX_PART_BYTES of it."""
    try:
        with gzip.open(file) as packed:
            content = packed.read(MAX_PART_BYTES + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(file, f"not readable as gzip ({error})", "gzip-compressed JSON") from error
    if len(content) > MAX_PART_BYTES:
        raise InputError(file, "too much text", f"at most {MAX_PART_BYTES:,} bytes unpacked")
    return content
