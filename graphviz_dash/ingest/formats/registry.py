"""The foreign formats, one row each: how a file of it is recognised by its content, and its reader.

A file's name is not looked at. A new format is a reader in a module of its own beside this one, a
:class:`SourceKind`, and a row of :data:`FORMATS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.formats.debug_dot import read_debug_dot
from graphviz_dash.ingest.formats.graph_data import graph_data, read_graph_data
from graphviz_dash.ingest.formats.memory_snapshot import memory_use, read_memory_snapshot
from graphviz_dash.ingest.formats.nsight import convert_nsight
from graphviz_dash.ingest.formats.pickles import read_pickle
from graphviz_dash.ingest.formats.torch_trace import HEAD, read_torch_trace
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
_EVENTS: Final = b'"traceEvents"'
_GRAPH_KEY: Final = re.compile(rb'"exec_graph_id"\s*:')
_SNAPSHOT_KEY: Final = re.compile(rb'"(?:device_traces|segments)"\s*:\s*\[')
_EXPECTED: Final = (
    "a Kineto trace, a CUDA debug DOT, an Nsight Systems SQLite export, CUDAGraph.get_graph_data "
    "as JSON or pickle, a torch.cuda.memory snapshot, or a TORCH_TRACE log"
)


class SourceKind(StrEnum):
    """The foreign files that are read; the value stands in a bundle's manifest."""

    KINETO = "Kineto trace"
    DEBUG_DOT = "CUDA debug DOT"
    NSIGHT = "Nsight Systems SQLite export"
    GRAPH_DATA = "CUDAGraph.get_graph_data"
    MEMORY_SNAPSHOT = "torch.cuda.memory snapshot"
    TORCH_TRACE = "TORCH_TRACE log"
    PICKLE = "pickle"
    """Either of the two before; its content tells, which only a reader of pickles knows."""


class ForeignContent(Struct, frozen=True):
    """What one foreign file holds of one process."""

    kind: SourceKind
    """What the file is; never PICKLE."""
    trace_file: Path | None = None
    """A Kineto trace on this disk: the file itself, or what it was converted into; None without
    a trace."""
    trace: Trace | None = None
    """The tables of ``trace_file``."""
    label: str = ""
    """What tells this process from others of the same file; empty where there is one."""
    graphs: tuple[CapturedGraph, ...] = ()
    """Captured graphs, named graph-0, graph-1 and so on."""
    ids: GraphIds | None = None
    """The ids that a trace shows of the only graph's nodes; None where the file has none."""
    memory: MemoryUse | None = None
    """What torch's allocator held; None where the file is no snapshot."""
    compilation: Compilation | None = None
    """What torch.compile did; None where the file is no log of it."""


class ForeignFormat(Struct, frozen=True):
    """A row of the registry."""

    kind: SourceKind
    """What files of this format are."""
    sniff: Callable[[bytes], bool]
    """Whether the first bytes of a file, decompressed, are of this format."""
    read: Callable[[Path, Path, Limits], tuple[ForeignContent, ...]]
    """The content of a file, for each process in it; the second argument is a folder for what is
    converted. Raises InputError."""
    method: str | None
    """How it is read, as a manifest says it; None: the bundle holds the file as it was."""


def recognised_format(path: Path, limits: Limits = DEFAULT_LIMITS) -> ForeignFormat | None:
    """The format of the file at ``path``, by its first bytes, decompressed; None: none of ours.

    Raises:
        InputError: an empty file, or one that cannot be read.
    """
    with ByteStream(path, limits) as stream:
        head = stream.read(_HEAD_BYTES)
        damage = stream.damage
    if not head:
        actual = damage.description if damage else "an empty file"
        raise InputError(path, actual, _EXPECTED)
    return next((row for row in FORMATS if row.sniff(head)), None)


def foreign_format(path: Path, limits: Limits = DEFAULT_LIMITS) -> ForeignFormat:
    """As :func:`recognised_format`.

    Raises:
        InputError: as there, or a file of no known kind.
    """
    row = recognised_format(path, limits)
    if row is None:
        advice = ""
        if path.suffix in (".nsys-rep", ".qdrep"):
            advice = f"Export it first: nsys export --type sqlite {path.name}"
        elif path.name.endswith(".xplane.pb"):
            advice = "Of the profiles of JAX and TensorFlow none is read: record with nsys instead."
        raise InputError(path, "a file of no kind that is known", _EXPECTED, advice)
    return row


def read_foreign(
    path: Path, scratch: Path, limits: Limits = DEFAULT_LIMITS
) -> tuple[ForeignContent, ...]:
    """The content of the foreign file at ``path``, for each process in it; ``scratch`` is a folder
    for what is converted.

    Raises:
        InputError: a file of no known kind, one that cannot be read, or more than ``limits`` or
            this machine's memory allow.
    """
    try:
        return foreign_format(path, limits).read(path, scratch, limits)
    except MemoryError as error:
        actual = "a file that takes more memory than there is"
        raise InputError(path, actual, "a smaller file") from error
    except RecursionError as error:
        raise InputError(path, "a file nested too deeply", "a flatter file") from error


def reading_method(kind: SourceKind) -> str | None:
    """How files of ``kind`` are read, as a manifest says it; None: they are kept as they are."""
    return next(row.method for row in FORMATS if row.kind is kind)


def _read_kineto(path: Path, _: Path, limits: Limits) -> tuple[ForeignContent, ...]:
    # With the engine of tables, which other formats do without.
    from graphviz_dash.ingest.kineto.reader import read_trace

    return (ForeignContent(SourceKind.KINETO, path, read_trace(path, limits)),)


def _read_nsight(path: Path, scratch: Path, limits: Limits) -> tuple[ForeignContent, ...]:
    """A trace for each process of the report."""
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
    """What is pickled: the data of a graph, or a memory snapshot."""
    value = read_pickle(path, limits)
    if isinstance(value, dict) and "exec_graph_id" in value:
        graph, ids = graph_data(value, path, limits)
        return (ForeignContent(SourceKind.GRAPH_DATA, graphs=(graph,), ids=ids),)
    memory = memory_use(value, path, limits)
    return (ForeignContent(SourceKind.MEMORY_SNAPSHOT, memory=memory),)


def _is_json(head: bytes) -> bool:
    return _JSON.match(head) is not None


FORMATS: Final = (
    ForeignFormat(
        SourceKind.NSIGHT,
        lambda head: head.startswith(_SQLITE),
        _read_nsight,
        "written anew as a Kineto trace; what no table of it names is left out",
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
        lambda head: _is_json(head) and _EVENTS not in head and bool(_GRAPH_KEY.search(head)),
        _read_graph_data,
        "parsed",
    ),
    ForeignFormat(
        SourceKind.MEMORY_SNAPSHOT,
        lambda head: _is_json(head) and _EVENTS not in head and bool(_SNAPSHOT_KEY.search(head)),
        _read_memory_snapshot,
        "read as plain data",
    ),
    ForeignFormat(
        SourceKind.TORCH_TRACE,
        lambda head: HEAD.match(head) is not None,
        _read_torch_trace,
        "read as a log",
    ),
    # Any other JSON: whether it holds events, only the reader can tell.
    ForeignFormat(SourceKind.KINETO, _is_json, _read_kineto, None),
)
"""The rows, in the order in which they are tried."""
