"""Table of the parts of a run bundle.

A part is a file with a fixed path, or one file per graph. To add a part, define its type in
``model``, a ``FileRole``, a field of ``RunParts``, a row here, and document it in
docs/reference/bundle-format.md.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from graphviz_dash.bundle.part_checks import (
    check_ceilings,
    check_clean,
    check_compilation,
    check_graph_ids,
    check_ledger,
    check_loop,
    check_memory_pass,
    check_node_ids,
    check_observers,
    check_parallel,
    check_recording,
    check_source_code,
    check_updates,
)
from graphviz_dash.bundle.renamed_fields import rename_fields
from graphviz_dash.bundle.schema import MAX_PART_BYTES, MAX_TRACE_BYTES
from graphviz_dash.errors import InputError
from graphviz_dash.model.ceilings import Ceilings
from graphviz_dash.model.compilation import Compilation
from graphviz_dash.model.doctor import DoctorReport
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.ledger import Ledger
from graphviz_dash.model.loop import ProgramLoop
from graphviz_dash.model.memory import MemoryPass
from graphviz_dash.model.node_ids import GraphIds, NodeIdPass
from graphviz_dash.model.observers import ObserverPass
from graphviz_dash.model.parallel import ParallelPlan
from graphviz_dash.model.recording import Recording
from graphviz_dash.model.replay_check import ReplayCheck
from graphviz_dash.model.run import FORMAT_VERSION, FileRole, GraphUpdates, MemoryUse
from graphviz_dash.model.source_code import SourceCode
from graphviz_dash.model.timings import CleanTimings

T = TypeVar("T")

Graphs: TypeAlias = tuple[CapturedGraph, ...]


def _accept_any(_content: Any, _graphs: Graphs, _file: Path) -> None:
    """Accept any content of a part without references."""


class JsonPart(Struct, Generic[T], frozen=True):
    """A part with one JSON document."""

    role: FileRole
    """Role in the manifest. With ``_`` for ``-``, the field of ``RunParts``."""
    path: str
    """Path in the bundle (POSIX)."""
    content_type: type[T]
    validate: Callable[[T, Graphs, Path], None] = _accept_any
    """Check beyond the types; raises InputError with the file."""
    is_compressed: bool = False

    @property
    def field(self) -> str:
        """Name of the field of ``RunParts``."""
        return self.role.value.replace("-", "_")

    @property
    def file_name(self) -> str:
        """Last component of the path."""
        return PurePosixPath(self.path).name

    def encode(self, content: T) -> bytes:
        """Encode the content of the file."""
        text = msgspec.json.encode(content)
        return gzip.compress(text, mtime=0) if self.is_compressed else text

    def read(self, file: Path, version: int = FORMAT_VERSION) -> T:
        """Read and decode a file of the format's ``version``, without checks against other parts.

        Raises:
            InputError: Not JSON, too large, or a field that is missing, unknown or of another type.
            OSError: The file is unreadable.
        """
        content = file.read_bytes()
        if self.is_compressed:
            content = _decompress(content, file)
        return decode(content, self.content_type, file, version)


CLEAN: Final = JsonPart(FileRole.CLEAN, "clean.json", CleanTimings, check_clean)
MEMORY: Final = JsonPart(FileRole.MEMORY, "memory.json", MemoryUse)
MEMORY_PASS: Final = JsonPart(
    FileRole.MEMORY_PASS, "memory-pass.json", MemoryPass, check_memory_pass
)
DOCTOR: Final = JsonPart(FileRole.DOCTOR, "doctor.json", DoctorReport)
REPLAY_CHECK: Final = JsonPart(FileRole.REPLAY_CHECK, "replay-check.json", ReplayCheck)
UPDATES: Final = JsonPart(FileRole.UPDATES, "updates.json", GraphUpdates, check_updates)
OBSERVERS: Final = JsonPart(FileRole.OBSERVERS, "observers.json", ObserverPass, check_observers)
REPLAY_IDS: Final = JsonPart(
    FileRole.REPLAY_IDS, "traces/replay-ids.json", tuple[GraphIds, ...], check_graph_ids
)
NODE_IDS: Final = JsonPart(
    FileRole.NODE_IDS, "node-ids.json.gz", NodeIdPass, check_node_ids, is_compressed=True
)
RECORDING: Final = JsonPart(FileRole.RECORDING, "recording.json", Recording, check_recording)
PARALLEL: Final = JsonPart(
    FileRole.PARALLEL, "parallel.json.gz", ParallelPlan, check_parallel, is_compressed=True
)
LOOP: Final = JsonPart(FileRole.LOOP, "loop.json.gz", ProgramLoop, check_loop, is_compressed=True)
COMPILATION: Final = JsonPart(
    FileRole.COMPILATION, "compilation.json.gz", Compilation, check_compilation, is_compressed=True
)
CEILINGS: Final = JsonPart(FileRole.CEILINGS, "ceilings.json", Ceilings, check_ceilings)
LEDGER: Final = JsonPart(
    FileRole.LEDGER, "ledger.json.gz", Ledger, check_ledger, is_compressed=True
)
SOURCE_CODE: Final = JsonPart(
    FileRole.SOURCE_CODE,
    "source-code.json.gz",
    SourceCode,
    check_source_code,
    is_compressed=True,
)

JSON_PARTS: Final[tuple[JsonPart[Any], ...]] = (
    CLEAN,
    MEMORY,
    MEMORY_PASS,
    DOCTOR,
    REPLAY_CHECK,
    UPDATES,
    OBSERVERS,
    REPLAY_IDS,
    NODE_IDS,
    RECORDING,
    LOOP,
    PARALLEL,
    COMPILATION,
    CEILINGS,
    LEDGER,
    SOURCE_CODE,
)
"""Parts that occur at most once per bundle."""

TRACE_PATHS: Final = {
    FileRole.CAPTURE_TRACE: "traces/capture.json.gz",
    FileRole.REPLAY_TRACE: "traces/replay.json.gz",
}
"""Kineto traces are stored unchanged and read by ``ingest``."""

_ADDITIONAL_CAPTURE: Final = re.compile(r"traces/capture-([1-9]\d{0,3})\.json\.gz")
"""Further capture traces, one per batch size of an engine."""

_GRAPH_PATH: Final = re.compile(r"graphs/([^/]+)\.json(?:\.gz)?", re.S)
"""Path of a graph; the group is its id."""

PATHS_BY_ROLE: Final = {part.role: part.path for part in JSON_PARTS} | TRACE_PATHS
"""Path by role, except for graphs (:func:`format_graph_path`)."""


def format_graph_path(graph_id: str) -> str:
    """Format the path of a graph's file."""
    return f"graphs/{graph_id}.json"


def parse_graph_id(path: str) -> str | None:
    """Parse the graph id in ``path``; None for other files."""
    match = _GRAPH_PATH.fullmatch(path)
    return match[1] if match else None


def unpack_graph(content: bytes, file: Path) -> bytes:
    """Return the JSON of a graph from its file's content, compressed or not.

    Raises:
        InputError: Invalid gzip, or too large.
    """
    return _decompress(content, file) if file.suffix == ".gz" else content


def format_trace_path(role: FileRole, number: int) -> str:
    """Format the path of trace ``number`` (from 0) of ``role``. Only captures have several."""
    first_path = TRACE_PATHS[role]
    return first_path if number == 0 else first_path.replace(".json", f"-{number}.json")


def parse_capture_number(path: str) -> int:
    """Parse the number of a capture trace from its path, from 0."""
    match = _ADDITIONAL_CAPTURE.fullmatch(path)
    return int(match[1]) if match else 0


def is_valid_path(role: FileRole, path: str) -> bool:
    """Return True if a bundle may contain a file of ``role`` at ``path``."""
    if "\0" in path or "\\" in path:
        return False
    if role is FileRole.CAPTURE_TRACE and _ADDITIONAL_CAPTURE.fullmatch(path):
        return True
    if role is not FileRole.GRAPH:
        return path == PATHS_BY_ROLE[role]
    return parse_graph_id(path) is not None


def get_max_bytes(role: FileRole) -> int:
    """Return the size limit of a file; larger ones are rejected unread."""
    return MAX_TRACE_BYTES if role in TRACE_PATHS else MAX_PART_BYTES


def decode(content: bytes, kind: type[T], file: Path, version: int = FORMAT_VERSION) -> T:
    """Decode ``content``, written in the bundle format's ``version``, as ``kind``.

    Raises:
        InputError: Not JSON, or a field that is missing, unknown or of another type.
    """
    try:
        if version < FORMAT_VERSION:
            content = rename_fields(content, kind)
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise InputError(
            file, str(error), "the types of the bundle format", topic="bundle-format"
        ) from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(file, f"invalid JSON ({error})", "a JSON document") from error


def _decompress(compressed: bytes, file: Path) -> bytes:
    """Decompress a gzip-compressed part of at most MAX_PART_BYTES."""
    try:
        with gzip.GzipFile(fileobj=BytesIO(compressed)) as stream:
            content = stream.read(MAX_PART_BYTES + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(file, f"invalid gzip ({error})", "gzip-compressed JSON") from error
    if len(content) > MAX_PART_BYTES:
        raise InputError(
            file, "content too large", f"at most {MAX_PART_BYTES:,} bytes uncompressed"
        )
    return content
