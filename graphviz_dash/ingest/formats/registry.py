"""Registry of foreign formats: detection by content, and reader.

To add one, write a reader in a separate module, a :class:`SourceKind`, and a row of
:data:`FORMATS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.formats.debug_dot import read_debug_dot
from graphviz_dash.ingest.formats.graph_data import convert_graph_data, read_graph_data
from graphviz_dash.ingest.formats.memory_snapshot import convert_memory_use, read_memory_snapshot
from graphviz_dash.ingest.formats.nsight import convert_nsight
from graphviz_dash.ingest.formats.pickles import read_pickle
from graphviz_dash.ingest.formats.torch_trace import HEAD_PATTERN, read_torch_trace
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.model.compilation import Compilation
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.node_ids import GraphIds
from graphviz_dash.model.run import MemoryUse
from graphviz_dash.model.trace import Trace

_HEAD_BYTES: Final = 64 << 10
_SQLITE: Final = b"SQLite format 3\0"
_PICKLE: Final = re.compile(rb"\x80[\x02-\x05]")
_DOT: Final = re.compile(rb"\s*(?:strict\s+)?digraph\b")
_JSON: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*[\[{]")
_EVENTS_KEY: Final = b'"traceEvents"'
_GRAPH_KEY: Final = re.compile(rb'"exec_graph_id"\s*:')
_SNAPSHOT_KEY: Final = re.compile(rb'"(?:device_traces|segments)"\s*:\s*\[')
_EXPECTED: Final = (
    "a Kineto trace, a CUDA debug DOT, an Nsight Systems SQLite export, CUDAGraph.get_graph_data "
    "as JSON or pickle, a torch.cuda.memory snapshot, or a TORCH_TRACE log"
)


class SourceKind(StrEnum):
    """Supported foreign files. The values are stored in bundle manifests."""

    KINETO = "Kineto trace"
    DEBUG_DOT = "CUDA debug DOT"
    NSIGHT = "Nsight Systems SQLite export"
    GRAPH_DATA = "CUDAGraph.get_graph_data"
    MEMORY_SNAPSHOT = "torch.cuda.memory snapshot"
    TORCH_TRACE = "TORCH_TRACE log"
    PICKLE = "pickle"
    """Graph data or a memory snapshot; only the content distinguishes them."""


class ForeignContent(Struct, frozen=True):
    """Content of one foreign file for one process."""

    kind: SourceKind
    """Kind of file; never PICKLE."""
    trace_file: Path | None = None
    """The file itself, or its conversion. None without a trace."""
    trace: Trace | None = None
    label: str = ""
    """Distinguishes processes of the same file. Empty for one process."""
    graphs: tuple[CapturedGraph, ...] = ()
    """Captured graphs, with ids graph-0, graph-1, ..."""
    ids: GraphIds | None = None
    """Node ids of the only graph in traces. None if not included."""
    memory: MemoryUse | None = None
    """None if the file is not a snapshot."""
    compilation: Compilation | None = None
    """None if the file is not a torch.compile log."""


class ForeignFormat(Struct, frozen=True):
    """A row of the registry."""

    kind: SourceKind
    sniff: Callable[[bytes], bool]
    """Tests the first decompressed bytes of a file."""
    read: Callable[[Path, Path, Limits], tuple[ForeignContent, ...]]
    """Reads a file for each of its processes, converted to the folder in the second argument.
    Raises InputError."""
    method: str | None
    """Reading method in the manifest. None if the bundle contains the file unchanged."""


def detect_format(path: Path, limits: Limits = DEFAULT_LIMITS) -> ForeignFormat | None:
    """Detect the format of a file by its first decompressed bytes. None if unsupported.

    Raises:
        InputError: An empty or unreadable file.
    """
    head = _read_head(path, limits)
    return next((row for row in FORMATS if row.sniff(head)), None)


def _read_head(path: Path, limits: Limits) -> bytes:
    with ByteStream(path, limits) as stream:
        head = stream.read(_HEAD_BYTES)
        damage = stream.damage
    if not head:
        description = damage.description if damage else "an empty file"
        raise InputError(path, description, _EXPECTED)
    return head


def require_format(path: Path, limits: Limits = DEFAULT_LIMITS) -> ForeignFormat:
    """Detect the format of a file.

    Raises:
        InputError: As in :func:`detect_format`, or a file of unknown kind.
    """
    row = detect_format(path, limits)
    if row is None:
        advice = ""
        if path.suffix in (".nsys-rep", ".qdrep"):
            advice = f"Export it first: nsys export --type sqlite {path.name}"
        elif path.name.endswith(".xplane.pb"):
            advice = "Profiles of JAX and TensorFlow are not supported. Record with nsys instead."
        raise InputError(path, "a file of unknown kind", _EXPECTED, advice)
    other = row.kind is SourceKind.KINETO and detect_other_tool(_read_head(path, limits))
    if other:
        raise InputError(path, other.description, _EXPECTED, other.advice)
    return row


def read_foreign(
    path: Path, scratch: Path, limits: Limits = DEFAULT_LIMITS
) -> tuple[ForeignContent, ...]:
    """Read a foreign file for each of its processes, converted to ``scratch`` if needed.

    Raises:
        InputError: Unknown kind, unreadable, or more than ``limits`` or this machine's memory
            allow.
    """
    try:
        return require_format(path, limits).read(path, scratch, limits)
    except MemoryError as error:
        description = "a file that needs more memory than available"
        raise InputError(path, description, "a smaller file") from error
    except RecursionError as error:
        raise InputError(path, "a file nested too deeply", "a flatter file") from error


def get_reading_method(kind: SourceKind) -> str | None:
    """Return the manifest's reading method. None if files are stored unchanged."""
    return next(row.method for row in FORMATS if row.kind is kind)


def _read_kineto(path: Path, scratch: Path, limits: Limits) -> tuple[ForeignContent, ...]:
    # Imports Polars, which other formats do not need.
    from graphviz_dash.ingest.kineto.merged import InseparableError, separate_processes
    from graphviz_dash.ingest.kineto.reader import read_trace

    trace = read_trace(path, limits)
    if trace.runtime["pid"].n_unique() > 1:
        with suppress(InseparableError):
            return tuple(
                ForeignContent(
                    SourceKind.KINETO,
                    process.path,
                    read_trace(process.path, limits),
                    process.label,
                )
                for process in separate_processes(path, scratch, limits)
            )
    return (ForeignContent(SourceKind.KINETO, path, trace),)


def _read_nsight(path: Path, scratch: Path, limits: Limits) -> tuple[ForeignContent, ...]:
    from graphviz_dash.ingest.kineto.reader import read_trace

    processes = convert_nsight(path, scratch, limits)
    return tuple(
        ForeignContent(
            SourceKind.NSIGHT,
            process.path,
            read_trace(process.path, limits),
            f"-pid{process.pid}" if len(processes) > 1 else "",
        )
        for process in processes
    )


def _read_debug_dot(path: Path, _: Path, limits: Limits) -> tuple[ForeignContent, ...]:
    return (ForeignContent(SourceKind.DEBUG_DOT, graphs=read_debug_dot(path, limits)),)


def _read_graph_data(path: Path, _: Path, limits: Limits) -> tuple[ForeignContent, ...]:
    graph, ids = read_graph_data(path, limits)
    return (ForeignContent(SourceKind.GRAPH_DATA, graphs=(graph,), ids=ids),)


def _read_memory_snapshot(path: Path, _: Path, limits: Limits) -> tuple[ForeignContent, ...]:
    memory = read_memory_snapshot(path, limits)
    return (ForeignContent(SourceKind.MEMORY_SNAPSHOT, memory=memory),)


def _read_torch_trace(path: Path, _: Path, limits: Limits) -> tuple[ForeignContent, ...]:
    compilation = read_torch_trace(path, limits)
    return (ForeignContent(SourceKind.TORCH_TRACE, compilation=compilation),)


def _read_pickle(path: Path, _: Path, limits: Limits) -> tuple[ForeignContent, ...]:
    value = read_pickle(path, limits)
    if isinstance(value, dict) and "exec_graph_id" in value:
        graph, ids = convert_graph_data(value, path, limits)
        return (ForeignContent(SourceKind.GRAPH_DATA, graphs=(graph,), ids=ids),)
    memory = convert_memory_use(value, path, limits)
    return (ForeignContent(SourceKind.MEMORY_SNAPSHOT, memory=memory),)


def _is_json(head: bytes) -> bool:
    return _JSON.match(head) is not None


FORMATS: Final = (
    ForeignFormat(
        SourceKind.NSIGHT,
        lambda head: head.startswith(_SQLITE),
        _read_nsight,
        "converted to a Kineto trace without unsupported tables",
    ),
    ForeignFormat(
        SourceKind.PICKLE,
        lambda head: _PICKLE.match(head) is not None,
        _read_pickle,
        "read as plain data",
    ),
    ForeignFormat(
        SourceKind.DEBUG_DOT,
        lambda head: _DOT.match(head) is not None,
        _read_debug_dot,
        "parsed",
    ),
    ForeignFormat(
        SourceKind.GRAPH_DATA,
        lambda head: _is_json(head) and _EVENTS_KEY not in head and bool(_GRAPH_KEY.search(head)),
        _read_graph_data,
        "parsed",
    ),
    ForeignFormat(
        SourceKind.MEMORY_SNAPSHOT,
        lambda head: (
            _is_json(head) and _EVENTS_KEY not in head and bool(_SNAPSHOT_KEY.search(head))
        ),
        _read_memory_snapshot,
        "read as plain data",
    ),
    ForeignFormat(
        SourceKind.TORCH_TRACE,
        lambda head: HEAD_PATTERN.match(head) is not None,
        _read_torch_trace,
        "read as a log",
    ),
    # Any other JSON: only the reader can detect events.
    ForeignFormat(SourceKind.KINETO, _is_json, _read_kineto, None),
)
"""Formats in the order of detection."""


class OtherTool(Struct, frozen=True):
    """A kind of unsupported file."""

    description: str
    fields: tuple[str, ...]
    advice: str


_RECORD: Final = "Record the program with torch.profiler or nsys instead."
_TOOLS: Final = (
    OtherTool(
        "a TensorRT layer profile, which has no times of starts",
        ("averageMs", "percentage"),
        _RECORD,
    ),
    OtherTool(
        "a call tree of Triton's Proton, which has sums instead of times",
        ("children", "frame", "metrics"),
        "Record with proton.start(..., data='trace'), or with torch.profiler.",
    ),
    OtherTool(
        "a speedscope profile, which has no GPU work", ("\\$schema", "profiles|shared"), _RECORD
    ),
    OtherTool(
        "a trace of Triton Inference Server, which has no kernels",
        ("model_name", "timestamps|activity"),
        _RECORD,
    ),
    OtherTool(
        "a JSON profile of rocprofv3, which graphviz-dash does not read",
        ("rocprofiler-sdk-tool",),
        "Record the program with torch.profiler instead.",
    ),
    OtherTool("a pyinstrument profile, which has no GPU work", ("root_frame",), _RECORD),
    OtherTool(
        "a CPU profile of Chrome or Node.js, which has no GPU work",
        ("nodes", "callFrame"),
        _RECORD,
    ),
    OtherTool(
        "an execution trace of PyTorch, which has no times",
        ("schema", "nodes", "ctrl_deps|inputs"),
        "Import the Kineto trace that was recorded with it.",
    ),
)


_AUTOGRAD: Final = OtherTool(
    "an export of torch.autograd.profiler, which has neither calls of the GPU's API nor streams",
    (),
    "Record the program with torch.profiler instead.",
)
_AUTOGRAD_PROCESS: Final = re.compile(r'"pid"\s*:\s*"(?:CPU|CUDA) functions"')


def detect_other_tool(head: bytes) -> OtherTool | None:
    """Detect an unsupported file. None if unknown."""
    text = head.decode("utf-8", "replace")
    if _AUTOGRAD_PROCESS.search(text):
        return _AUTOGRAD
    if '"traceEvents"' in text or '"ph"' in text:
        return None
    return next(
        (
            tool
            for tool in _TOOLS
            if all(re.search(rf'"(?:{field})"\s*:', text) for field in tool.fields)
        ),
        None,
    )
