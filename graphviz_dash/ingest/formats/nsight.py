"""Converter of Nsight Systems' SQLite exports to Kineto traces, one per process with GPU work.

Source of the schema: Nsight Systems user guide, "SQLite Schema Reference" (export schema 3.x; 2.x
and the first one lack some columns). Reads CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET, _RUNTIME
and _GRAPH_TRACE, NVTX_EVENTS, StringIds, TARGET_INFO_GPU and TARGET_INFO_SESSION_START_TIME.
Reports contain only tables with events, and old ones lack columns; missing data is omitted.

The file is untrusted: it is opened read-only, only plain tables are read, one at a time and without
SQL functions, and the cost of each table is limited.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, TextIO

from isal import igzip
from msgspec import Struct, field

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits

_EXPECTED: Final = "a SQLite export of Nsight Systems (nsys export --type sqlite)"
_WITH_CUDA: Final = "one recorded with --trace=cuda while the program used a GPU"
_OF_NSIGHT: Final = frozenset(
    {"TARGET_INFO_SESSION_START_TIME", "META_DATA_EXPORT", "EXPORT_META_DATA"}
)
"""Tables present in every export."""
_KERNEL: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
_MEMCPY: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
_MEMSET: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
_RUNTIME: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
_GRAPHS: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_ACTIVITIES: Final = (_KERNEL, _MEMCPY, _MEMSET, _RUNTIME, _GRAPHS)

_PUSH_POP: Final = 59  # NvtxPushPopRange; start/end ranges (60) may not nest, marks have no end
_ID_BITS: Final = 24
_ID_MASK: Final = (1 << _ID_BITS) - 1
_VERSION: Final = re.compile(r"_v\d+$")
_OPERATOR: Final = re.compile(
    r"(?P<name>[^,]+)(?:, seq = (?P<seq>\d{1,19}))?, op_id = \d+"
    r"(?:, sizes = (?P<sizes>\[[\[\], \d]*\]))?(?:, input_op_ids = .*)?"
)
_DRIVER: Final = re.compile(r"cu[A-Z]")
_COPIES: Final = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA",
                  8: "DtoD", 9: "HtoH", 10: "PtoP"}  # fmt: skip
_MEMORIES: Final = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed",
                    5: "Device Static", 6: "Managed Static"}  # fmt: skip
_LARGEST: Final = (1 << 63) - 1
_MOST_COLUMNS: Final = 2000
_ALLOWED: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ})


class NsightTrace(Struct):
    """A Kineto trace written from a report."""

    pid: int | None
    """Process id. None if the report does not contain processes."""
    path: Path
    """Path of the gzip-compressed trace."""
    kernels: int = 0
    """Number of kernels, including graphs traced as single units."""
    whole_graphs: int = 0
    """Number of graph launches traced as single units (graph level)."""
    events: int = 0
    """Number of events, except annotations and operators."""


class _Out(Struct):
    trace: NsightTrace
    file: TextIO
    first: bool = True


class _Gpu(Struct, frozen=True):
    """A row of TARGET_INFO_GPU. None for missing values."""

    id: int
    """Number of the device."""
    name: str
    """Name from the driver."""
    memory: int | None
    """Total device memory in bytes."""
    multiprocessors: int | None
    """Number of multiprocessors."""
    capability: tuple[int | None, int | None]
    """Major and minor version."""

    def kineto(self) -> dict[str, Any]:
        """Convert to an entry of deviceProperties."""
        fields = {
            "id": self.id,
            "name": self.name,
            "totalGlobalMem": self.memory,
            "numSms": self.multiprocessors,
            "computeMajor": self.capability[0],
            "computeMinor": self.capability[1],
        }
        return {key: value for key, value in fields.items() if value is not None}


def convert_nsight(
    path: Path, folder: Path, limits: Limits = DEFAULT_LIMITS
) -> tuple[NsightTrace, ...]:
    """Write a gzip-compressed Kineto trace to ``folder`` for each process of the report.

    Times are exact. Kernels have grid, block, shared memory, registers, and graph and node ids if
    the report has them (``--cuda-graph-trace=node``). A launch traced as a single unit becomes one
    GPU row named "CUDA graph". NVTX push/pop ranges become annotations.

    Raises:
        InputError: Not such a database, no supported table, a value of the wrong type, or more than
            ``limits`` allow.
    """
    try:
        with closing(_opened(path, limits)) as database:
            return _Reading(path, folder, limits, database).run()
    except (sqlite3.Error, UnicodeError, MemoryError) as error:
        # The module decodes its messages itself. A corrupted size causes a MemoryError.
        reason = str(error) or "not enough memory"
        raise InputError(path, f"invalid SQLite ({reason})", _EXPECTED) from error


def _opened(path: Path, limits: Limits) -> sqlite3.Connection:
    database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(limits.string_length, 1 << 20))
    database.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, _MOST_COLUMNS)
    database.text_factory = lambda raw: raw.decode("utf-8", "replace")

    def authorise(action: int, *_: object) -> int:
        return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY

    database.set_authorizer(authorise)
    return database


class _Reading(Struct):
    """One pass over a report."""

    path: Path
    """The report."""
    folder: Path
    """Folder for traces."""
    limits: Limits
    """Limits for reading."""
    database: sqlite3.Connection
    """The report, opened read-only."""
    strings: dict[int, str] = field(default_factory=dict)
    """Content of the table StringIds."""
    out: dict[int | None, _Out] = field(default_factory=dict)
    """Trace of each process."""
    events: int = 0
    """Number of rows read so far, of all tables."""
    processes: bool = True
    """True if GPU work contains its process."""

    def run(self) -> tuple[NsightTrace, ...]:
        """Read each table once, in its order."""
        tables = self._tables()
        if not tables & set(_ACTIVITIES):
            if tables & _OF_NSIGHT:
                raise self._without_cuda()
            listed = ", ".join(sorted(tables)[:5]) or "none"
            raise InputError(
                self.path, f"no table of CUDA activities (tables: {listed})", _EXPECTED
            )
        if "StringIds" in tables:
            for ident, value in self._rows("StringIds", ("id", "value")):
                if isinstance(ident, int) and isinstance(value, str):
                    self.strings[ident] = value
        head = self._head(tables)
        work = tables & {_KERNEL, _MEMCPY, _MEMSET, _GRAPHS}
        self.processes = all("globalPid" in self._columns(table) for table in work)
        try:
            for table, read in (
                (_KERNEL, self._kernels),
                (_MEMCPY, self._copies),
                (_MEMSET, self._sets),
                (_GRAPHS, self._whole_graphs),
                (_RUNTIME, self._calls),
                ("NVTX_EVENTS", self._ranges),
            ):
                if table in tables:
                    for pid, event in read(table):
                        self._put(pid, event, head)
        finally:
            for out in self.out.values():
                out.file.write("\n]}\n")
                out.file.close()
        traces = [out.trace for out in self.out.values() if out.trace.events]
        if not traces:
            raise self._without_cuda()
        return tuple(sorted(traces, key=lambda one: -1 if one.pid is None else one.pid))

    def _without_cuda(self) -> InputError:
        return InputError(
            self.path, "an export of Nsight Systems without any CUDA activity", _WITH_CUDA
        )

    def _tables(self) -> set[str]:
        rows = self.database.execute("SELECT type, name, sql FROM sqlite_master").fetchmany(10_000)
        return {
            str(name)
            for kind, name, sql in rows
            if kind == "table" and not str(sql).upper().lstrip().startswith("CREATE VIRTUAL")
        }

    def _head(self, tables: set[str]) -> str:
        gpus = []
        if "TARGET_INFO_GPU" in tables:
            columns = (*("id", "name", "totalMemory", "smCount", "computeMajor", "computeMinor"),)
            for row in self._rows("TARGET_INFO_GPU", columns):
                ident, name, memory, count, major, minor = row
                if isinstance(ident, int) and isinstance(name, str):
                    gpus.append(
                        _Gpu(ident, name[:200], _size(memory), _size(count),
                             (_size(major), _size(minor)))
                    )  # fmt: skip
        fields: dict[str, Any] = {"schemaVersion": 1, "displayTimeUnit": "ms"}
        if gpus:
            ordered = sorted(gpus, key=lambda one: one.id)
            fields["deviceProperties"] = [gpu.kineto() for gpu in ordered]
        if "TARGET_INFO_SESSION_START_TIME" in tables:
            for (epoch,) in self._rows("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",)):
                if isinstance(epoch, int) and 0 < epoch < _LARGEST:
                    fields["baseTimeNanoseconds"] = epoch
        return json.dumps(fields)[:-1] + ', "traceEvents": [\n'

    def _columns(self, table: str) -> set[str]:
        # LIMIT 0, because executing the statement computes the first row.
        cursor = self.database.execute(f'SELECT * FROM "{table}" LIMIT 0')
        return {column[0] for column in cursor.description}

    def _rows(self, table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Iterate over the rows of a table. A missing column is None. Reads only these columns,
        because a file can define thousands of computed ones."""
        present = self._columns(table)
        # All names are constants of this module, none comes from the file.
        selected = [f'"{column}"' if column in present else "NULL" for column in columns]
        for row in self.database.execute(f'SELECT {", ".join(selected)} FROM "{table}"'):
            self.events += 1
            if self.events > self.limits.events:
                raise self.limits.refuse(self.path, "events", "more rows")
            yield row

    def _put(self, pid: int | None, event: dict[str, Any], head: str) -> None:
        pid = pid if self.processes else None
        out = self.out.get(pid)
        if out is None:
            if event["cat"] not in ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime"):
                return  # a process with ranges only
            target = self.folder / f"nsight-{len(self.out)}.json.gz"
            file: TextIO = igzip.open(  # type: ignore[no-untyped-call]
                target, "wt", compresslevel=2, encoding="utf-8"
            )
            out = self.out[pid] = _Out(NsightTrace(pid, target), file)
            file.write(head)
        out.file.write(("" if out.first else ",\n") + _line(event))
        out.first = False
        trace = out.trace
        trace.events += event["cat"] not in ("user_annotation", "cpu_op")
        trace.kernels += event["cat"] == "kernel"
        trace.whole_graphs += event.get("whole", False)

    def _time(self, table: str, start: Any, end: Any) -> tuple[int, int]:
        if not (isinstance(start, int) and isinstance(end, int) and start <= end):
            found = f"{table} with an event from {str(start)[:30]} to {str(end)[:30]}"
            raise InputError(self.path, found, "times in nanoseconds with the end after the start")
        return start, end

    def _name(self, *idents: Any) -> str:
        """Return the text of the first known id."""
        for ident in idents:
            if isinstance(ident, int) and ident in self.strings:
                return self.strings[ident]
        return "unknown"

    def _gpu(
        self, table: str, columns: Sequence[str]
    ) -> Iterator[tuple[int | None, dict[str, Any], dict[str, Any], list[Any]]]:
        """Yield process, event without name and category, its arguments, and the values of
        ``columns``."""
        common = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid")
        ids = ("graphId", "graphNodeId")
        for row in self._rows(table, (*common, *ids, *columns)):
            start, end, device, context, stream, correlation, pid, graph, node, *values = row
            begin_ns, end_ns = self._time(table, start, end)
            args = {
                "device": _size(device) or 0,
                "context": _size(context),
                "stream": _size(stream) or 0,
                "correlation": _size(correlation),
                "graph id": _size(graph),
                "graph node id": _size(node),
            }
            event = {
                "ph": "X",
                "pid": args["device"],
                "tid": args["stream"],
                "ts": begin_ns,
                "dur": end_ns - begin_ns,
                "args": args,
            }
            yield _pid(pid), event, args, values

    def _kernels(self, table: str) -> Iterator[tuple[int | None, dict[str, Any]]]:
        columns = (
            *("demangledName", "shortName", "gridX", "gridY", "gridZ", "blockX", "blockY"),
            *("blockZ", "registersPerThread", "staticSharedMemory", "dynamicSharedMemory"),
        )
        for pid, event, args, values in self._gpu(table, columns):
            name, short, gx, gy, gz, bx, by, bz, registers, static, dynamic = values
            grid, block = [gx, gy, gz], [bx, by, bz]
            args["grid"] = grid if all(_size(extent) is not None for extent in grid) else None
            args["block"] = block if all(_size(extent) is not None for extent in block) else None
            args["registers per thread"] = _size(registers)
            shared = [_size(static), _size(dynamic)]
            args["shared memory"] = None if None in shared else sum(filter(None, shared))
            yield pid, {**event, "cat": "kernel", "name": self._name(name, short)}

    def _copies(self, table: str) -> Iterator[tuple[int | None, dict[str, Any]]]:
        columns = ("bytes", "copyKind", "srcKind", "dstKind")
        for pid, event, args, values in self._gpu(table, columns):
            size, kind, source, target = values
            args["bytes"] = _size(size)
            name = f"Memcpy {_COPIES.get(kind, 'unknown')}"
            if source in _MEMORIES and target in _MEMORIES:
                name += f" ({_MEMORIES[source]} -> {_MEMORIES[target]})"
            yield pid, {**event, "cat": "gpu_memcpy", "name": name}

    def _sets(self, table: str) -> Iterator[tuple[int | None, dict[str, Any]]]:
        for pid, event, args, (size, kind) in self._gpu(table, ("bytes", "memKind")):
            args["bytes"] = _size(size)
            name = f"Memset ({_MEMORIES[kind]})" if kind in _MEMORIES else "Memset"
            yield pid, {**event, "cat": "gpu_memset", "name": name}

    def _whole_graphs(self, table: str) -> Iterator[tuple[int | None, dict[str, Any]]]:
        for pid, event, args, (executed,) in self._gpu(table, ("graphExecId",)):
            graph_id = args["graph id"] if _size(executed) is None else executed
            args["graph id"] = graph_id
            name = f"CUDA graph {graph_id}, as a whole"
            yield pid, {**event, "cat": "kernel", "name": name, "whole": True}

    def _calls(self, table: str) -> Iterator[tuple[int | None, dict[str, Any]]]:
        columns = ("start", "end", "globalTid", "correlationId", "nameId")
        for start, end, thread, correlation, name in self._rows(table, columns):
            begin_ns, end_ns = self._time(table, start, end)
            api_name = _VERSION.sub("", self._name(name))
            yield (
                _pid(thread),
                {
                    "ph": "X",
                    "cat": "cuda_driver" if _DRIVER.match(api_name) else "cuda_runtime",
                    "name": api_name,
                    "pid": _pid(thread) or 0,
                    "tid": _tid(thread),
                    "ts": begin_ns,
                    "dur": end_ns - begin_ns,
                    "args": {"correlation": _size(correlation)},
                },
            )

    def _ranges(self, table: str) -> Iterator[tuple[int | None, dict[str, Any]]]:
        columns = ("start", "end", "eventType", "globalTid", "text", "textId")
        for start, end, kind, thread, text, ident in self._rows(table, columns):
            if end is None or (kind is not None and kind != _PUSH_POP):
                continue
            begin_ns, end_ns = self._time(table, start, end)
            name = text if isinstance(text, str) else self._name(ident)
            category, name, args = _range(name)
            yield (
                _pid(thread),
                {
                    "ph": "X",
                    "cat": category,
                    "name": name,
                    "pid": _pid(thread) or 0,
                    "tid": _tid(thread),
                    "ts": begin_ns,
                    "dur": end_ns - begin_ns,
                    "args": args,
                },
            )


def _range(name: str) -> tuple[str, str, dict[str, Any]]:
    """Parse category, name and arguments of an NVTX range.

    torch.autograd.profiler.emit_nvtx (and ``nsys profile --pytorch``) creates one per operator,
    such as "aten::mm, seq = 5, op_id = 9, sizes = [[2, 3], [3, 4]]".
    """
    match = _OPERATOR.fullmatch(name)
    if match is None:
        return "user_annotation", name, {}
    args: dict[str, Any] = {}
    if match["seq"] is not None:
        args["Sequence number"] = min(int(match["seq"]), _LARGEST)
    if match["sizes"] is not None:
        with suppress(ValueError, RecursionError):
            args["Input Dims"] = json.loads(match["sizes"])
    return "cpu_op", match["name"], args


def _line(event: dict[str, Any]) -> str:
    """Format one event in Kineto's format, with times in decimal microseconds."""
    args = {key: value for key, value in event["args"].items() if value is not None}
    fields = {
        "ph": event["ph"],
        "cat": event["cat"],
        "name": event["name"],
        "pid": event["pid"],
        "tid": event["tid"],
    }
    return (
        json.dumps(fields)[:-1]
        + f', "ts": {_microseconds(event["ts"])}, "dur": {_microseconds(event["dur"])}, "args": '
        + json.dumps(args)
        + "}"
    )


def _microseconds(ns: int) -> str:
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"


def _size(value: Any) -> int | None:
    """Return a count, size or id. None for other values."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST
    return value if is_count and isinstance(value, int) else None


def _pid(serialised: Any) -> int | None:
    """Extract the process from a serialised GlobalId (8 bits hardware, 8 virtual machine, 24
    process, 24 thread)."""
    is_integer = isinstance(serialised, int) and not isinstance(serialised, bool)
    return (serialised >> _ID_BITS) & _ID_MASK if is_integer else None


def _tid(serialised: Any) -> int:
    return serialised & _ID_MASK if isinstance(serialised, int) else 0
