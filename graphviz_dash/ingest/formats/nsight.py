"""Converter of Nsight Systems' SQLite exports to Kineto traces, one per process with GPU work.

Source: Nsight Systems user guide, "SQLite Schema Reference" (export schema 3.x; older ones lack
columns). Reads CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET, _RUNTIME and _GRAPH_TRACE,
NVTX_EVENTS, StringIds, TARGET_INFO_GPU and TARGET_INFO_SESSION_START_TIME. Reports contain only
tables with events; missing data is omitted.

The file is untrusted: it is opened read-only, and only plain tables are read, without SQL functions
and at limited cost.
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
from graphviz_dash.units import pluralize

_EXPECTED: Final = "a SQLite export of Nsight Systems (nsys export --type sqlite)"
_EXPECTED_CUDA: Final = "one recorded with --trace=cuda while the program used a GPU"
_NSIGHT_TABLES: Final = frozenset(
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
    r"(?P<name>(?P<is_aten>aten::)?[^,]+)(?:, seq = (?P<seq>\d{1,19}))?(?P<op_id>, op_id = \d+)?"
    r"(?:, sizes = (?P<sizes>\[[\[\], \d]*\]))?(?:, input_op_ids = .*)?"
)
_DRIVER: Final = re.compile(r"cu[A-Z]")
_COPIES: Final = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA",
                  8: "DtoD", 9: "HtoH", 10: "PtoP"}  # fmt: skip
_MEMORIES: Final = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed",
                    5: "Device Static", 6: "Managed Static"}  # fmt: skip
_MAX_INTEGER: Final = (1 << 63) - 1
_MAX_COLUMNS: Final = 2000
_ALLOWED_ACTIONS: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ})


class NsightTrace(Struct):
    """A Kineto trace written from a report."""

    pid: int | None
    """Process id. None if the report does not contain processes."""
    path: Path
    kernels: int = 0
    """Number of kernels, including graphs traced as single units."""
    graph_launches: int = 0
    """Graph launches traced as single units."""
    events: int = 0
    """Number of events, except annotations and operators."""


class _TraceWriter(Struct):
    trace: NsightTrace
    file: TextIO
    first: bool = True


class _Gpu(Struct, frozen=True):
    """A row of TARGET_INFO_GPU. None for missing values."""

    id: int
    name: str
    memory: int | None
    """Total device memory in bytes."""
    multiprocessors: int | None
    capability: tuple[int | None, int | None]
    """Major and minor version."""

    def to_kineto(self) -> dict[str, Any]:
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
    """Write a gzip-compressed Kineto trace to ``folder`` per process of the report.

    Times are exact. Kernels have grid, block, shared memory, registers, and graph and node ids if
    the report has them (``--cuda-graph-trace=node``). A launch traced as a single unit becomes one
    GPU row named "CUDA graph". NVTX push/pop ranges become annotations.

    Raises:
        InputError: Not such a database, no supported table, a value of the wrong type, or more than
            ``limits`` allow.
    """
    try:
        with closing(_open_database(path, limits)) as database:
            return _ReportReader(path, folder, limits, database).run()
    except (sqlite3.Error, UnicodeError, MemoryError) as error:
        # The module decodes its messages itself. A corrupted size causes a MemoryError.
        reason = str(error) or "not enough memory"
        raise InputError(path, f"invalid SQLite ({reason})", _EXPECTED) from error


def _open_database(path: Path, limits: Limits) -> sqlite3.Connection:
    database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(limits.string_length, 1 << 20))
    database.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, _MAX_COLUMNS)
    database.text_factory = lambda raw: raw.decode("utf-8", "replace")

    def authorise(action: int, *_: object) -> int:
        return sqlite3.SQLITE_OK if action in _ALLOWED_ACTIONS else sqlite3.SQLITE_DENY

    database.set_authorizer(authorise)
    return database


class _ReportReader(Struct):
    """One pass over a report."""

    path: Path
    folder: Path
    limits: Limits
    database: sqlite3.Connection
    """The report, opened read-only."""
    strings: dict[int, str] = field(default_factory=dict)
    writers: dict[int | None, _TraceWriter] = field(default_factory=dict)
    events: int = 0
    """Rows read so far, of all tables."""
    has_processes: bool = True
    """True if GPU work contains its process."""

    def run(self) -> tuple[NsightTrace, ...]:
        """Read each table once, in its order."""
        tables = self._list_tables()
        if not tables & set(_ACTIVITIES):
            if tables & _NSIGHT_TABLES:
                raise self._build_no_cuda_error()
            if any(table.startswith("rocpd_") for table in tables):
                raise InputError(
                    self.path,
                    "a database of rocprofv3 (rocpd), which graphviz-dash does not read",
                    _EXPECTED,
                    "Record the program with torch.profiler instead.",
                )
            listed = ", ".join(sorted(tables)[:5]) or "none"
            raise InputError(
                self.path, f"no table of CUDA activities (tables: {listed})", _EXPECTED
            )
        if "StringIds" in tables:
            for ident, value in self._iter_rows("StringIds", ("id", "value")):
                if isinstance(ident, int) and isinstance(value, str):
                    self.strings[ident] = value
        head = self._build_head(tables)
        work = tables & {_KERNEL, _MEMCPY, _MEMSET, _GRAPHS}
        self.has_processes = all("globalPid" in self._list_columns(table) for table in work)
        try:
            for table, read in (
                (_KERNEL, self._iter_kernels),
                (_MEMCPY, self._iter_copies),
                (_MEMSET, self._iter_memsets),
                (_GRAPHS, self._iter_graph_launches),
                (_RUNTIME, self._iter_calls),
                ("NVTX_EVENTS", self._iter_ranges),
            ):
                if table in tables:
                    for pid, event in read(table):
                        self._write_event(pid, event, head)
        finally:
            for out in self.writers.values():
                out.file.write("\n]}\n")
                out.file.close()
        traces = [out.trace for out in self.writers.values() if out.trace.events]
        if not traces:
            raise self._build_no_cuda_error(self._count_calls() if _RUNTIME in tables else 0)
        return tuple(sorted(traces, key=lambda trace: -1 if trace.pid is None else trace.pid))

    def _count_calls(self) -> int:
        return sum(1 for _ in self._iter_rows(_RUNTIME, ("start",)))

    def _build_no_cuda_error(self, calls: int = 0) -> InputError:
        if calls:
            return InputError(
                self.path,
                f"an export of Nsight Systems with {pluralize(calls, 'CUDA call')} that only set "
                "up a GPU, and without work on it",
                "one recorded while the program used a GPU",
                "Check that the recorded process launches the work, and record for longer.",
            )
        return InputError(
            self.path, "an export of Nsight Systems without any CUDA activity", _EXPECTED_CUDA
        )

    def _list_tables(self) -> set[str]:
        rows = self.database.execute("SELECT type, name, sql FROM sqlite_master").fetchmany(10_000)
        return {
            str(name)
            for kind, name, sql in rows
            if kind == "table" and not str(sql).upper().lstrip().startswith("CREATE VIRTUAL")
        }

    def _build_head(self, tables: set[str]) -> str:
        gpus = []
        if "TARGET_INFO_GPU" in tables:
            columns = "id", "name", "totalMemory", "smCount", "computeMajor", "computeMinor"
            for row in self._iter_rows("TARGET_INFO_GPU", columns):
                ident, name, memory, count, major, minor = row
                if isinstance(ident, int) and isinstance(name, str):
                    gpus.append(
                        _Gpu(ident, name[:200], _parse_count(memory), _parse_count(count),
                             (_parse_count(major), _parse_count(minor)))
                    )  # fmt: skip
        fields: dict[str, Any] = {"schemaVersion": 1, "displayTimeUnit": "ms"}
        if gpus:
            ordered = sorted(gpus, key=lambda one: one.id)
            fields["deviceProperties"] = [gpu.to_kineto() for gpu in ordered]
        if "TARGET_INFO_SESSION_START_TIME" in tables:
            for (epoch,) in self._iter_rows("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",)):
                if isinstance(epoch, int) and 0 < epoch < _MAX_INTEGER:
                    fields["baseTimeNanoseconds"] = epoch
        return json.dumps(fields)[:-1] + ', "traceEvents": [\n'

    def _list_columns(self, table: str) -> set[str]:
        # LIMIT 0, because executing the statement computes the first row.
        cursor = self.database.execute(f'SELECT * FROM "{table}" LIMIT 0')
        return {column[0] for column in cursor.description}

    def _iter_rows(self, table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Iterate over a table. A missing column is None. A file can define thousands of computed
        columns, so others are not read."""
        present = self._list_columns(table)
        # All names are constants of this module, none comes from the file.
        selected = [f'"{column}"' if column in present else "NULL" for column in columns]
        for row in self.database.execute(f'SELECT {", ".join(selected)} FROM "{table}"'):
            self.events += 1
            if self.events > self.limits.events:
                raise self.limits.build_error(self.path, "events", "more rows")
            yield row

    def _write_event(self, pid: int | None, event: dict[str, Any], head: str) -> None:
        pid = pid if self.has_processes else None
        out = self.writers.get(pid)
        if out is None:
            if event["cat"] not in ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime"):
                return  # a process with ranges only
            target = self.folder / f"nsight-{len(self.writers)}.json.gz"
            file: TextIO = igzip.open(  # type: ignore[no-untyped-call]
                target, "wt", compresslevel=2, encoding="utf-8"
            )
            out = self.writers[pid] = _TraceWriter(NsightTrace(pid, target), file)
            file.write(head)
        out.file.write(("" if out.first else ",\n") + _format_event(event))
        out.first = False
        trace = out.trace
        trace.events += event["cat"] not in ("user_annotation", "cpu_op")
        trace.kernels += event["cat"] == "kernel"
        trace.graph_launches += event.get("whole", False)

    def _check_times(self, table: str, start: Any, end: Any) -> tuple[int, int]:
        if not (isinstance(start, int) and isinstance(end, int) and start <= end):
            description = f"{table} with an event from {str(start)[:30]} to {str(end)[:30]}"
            raise InputError(
                self.path, description, "times in nanoseconds with the end after the start"
            )
        return start, end

    def _find_name(self, *idents: Any) -> str:
        for ident in idents:
            if isinstance(ident, int) and ident in self.strings:
                return self.strings[ident]
        return "unknown"

    def _iter_gpu_events(
        self, table: str, columns: Sequence[str]
    ) -> Iterator[tuple[int | None, dict[str, Any], dict[str, Any], list[Any]]]:
        """Yield process, event without name and category, its arguments, and the values of
        ``columns``."""
        common = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid")
        ids = ("graphId", "graphNodeId")
        for row in self._iter_rows(table, (*common, *ids, *columns)):
            start, end, device, context, stream, correlation, pid, graph, node, *values = row
            begin_ns, end_ns = self._check_times(table, start, end)
            args = {
                "device": _parse_count(device) or 0,
                "context": _parse_count(context),
                "stream": _parse_count(stream) or 0,
                "correlation": _parse_count(correlation),
                "graph id": _parse_count(graph),
                "graph node id": _parse_count(node),
            }
            event = {
                "ph": "X",
                "pid": args["device"],
                "tid": args["stream"],
                "ts": begin_ns,
                "dur": end_ns - begin_ns,
                "args": args,
            }
            yield _extract_pid(pid), event, args, values

    def _iter_kernels(self, table: str) -> Iterator[tuple[int | None, dict[str, Any]]]:
        columns = (
            *("demangledName", "shortName", "gridX", "gridY", "gridZ", "blockX", "blockY"),
            *("blockZ", "registersPerThread", "staticSharedMemory", "dynamicSharedMemory"),
        )
        for pid, event, args, values in self._iter_gpu_events(table, columns):
            name, short, gx, gy, gz, bx, by, bz, registers, static, dynamic = values
            grid, block = [gx, gy, gz], [bx, by, bz]
            args["grid"] = (
                grid if all(_parse_count(extent) is not None for extent in grid) else None
            )
            args["block"] = (
                block if all(_parse_count(extent) is not None for extent in block) else None
            )
            args["registers per thread"] = _parse_count(registers)
            shared = [_parse_count(static), _parse_count(dynamic)]
            args["shared memory"] = None if None in shared else sum(filter(None, shared))
            yield pid, {**event, "cat": "kernel", "name": self._find_name(name, short)}

    def _iter_copies(self, table: str) -> Iterator[tuple[int | None, dict[str, Any]]]:
        columns = ("bytes", "copyKind", "srcKind", "dstKind")
        for pid, event, args, values in self._iter_gpu_events(table, columns):
            size, kind, source, target = values
            args["bytes"] = _parse_count(size)
            name = f"Memcpy {_COPIES.get(kind, 'unknown')}"
            if source in _MEMORIES and target in _MEMORIES:
                name += f" ({_MEMORIES[source]} -> {_MEMORIES[target]})"
            yield pid, {**event, "cat": "gpu_memcpy", "name": name}

    def _iter_memsets(self, table: str) -> Iterator[tuple[int | None, dict[str, Any]]]:
        for pid, event, args, (size, kind) in self._iter_gpu_events(table, ("bytes", "memKind")):
            args["bytes"] = _parse_count(size)
            name = f"Memset ({_MEMORIES[kind]})" if kind in _MEMORIES else "Memset"
            yield pid, {**event, "cat": "gpu_memset", "name": name}

    def _iter_graph_launches(self, table: str) -> Iterator[tuple[int | None, dict[str, Any]]]:
        for pid, event, args, (executed,) in self._iter_gpu_events(table, ("graphExecId",)):
            graph_id = args["graph id"] if _parse_count(executed) is None else executed
            args["graph id"] = graph_id
            name = f"CUDA graph {graph_id}, as a whole"
            yield pid, {**event, "cat": "kernel", "name": name, "whole": True}

    def _iter_calls(self, table: str) -> Iterator[tuple[int | None, dict[str, Any]]]:
        columns = ("start", "end", "globalTid", "correlationId", "nameId")
        for start, end, thread, correlation, name in self._iter_rows(table, columns):
            begin_ns, end_ns = self._check_times(table, start, end)
            api_name = _VERSION.sub("", self._find_name(name))
            yield (
                _extract_pid(thread),
                {
                    "ph": "X",
                    "cat": "cuda_driver" if _DRIVER.match(api_name) else "cuda_runtime",
                    "name": api_name,
                    "pid": _extract_pid(thread) or 0,
                    "tid": _extract_tid(thread),
                    "ts": begin_ns,
                    "dur": end_ns - begin_ns,
                    "args": {"correlation": _parse_count(correlation)},
                },
            )

    def _iter_ranges(self, table: str) -> Iterator[tuple[int | None, dict[str, Any]]]:
        columns = ("start", "end", "eventType", "globalTid", "text", "textId")
        for start, end, kind, thread, text, ident in self._iter_rows(table, columns):
            if end is None or (kind is not None and kind != _PUSH_POP):
                continue
            begin_ns, end_ns = self._check_times(table, start, end)
            name = text if isinstance(text, str) else self._find_name(ident)
            category, name, args = _parse_range(name)
            yield (
                _extract_pid(thread),
                {
                    "ph": "X",
                    "cat": category,
                    "name": name,
                    "pid": _extract_pid(thread) or 0,
                    "tid": _extract_tid(thread),
                    "ts": begin_ns,
                    "dur": end_ns - begin_ns,
                    "args": args,
                },
            )


def _parse_range(name: str) -> tuple[str, str, dict[str, Any]]:
    """Parse category, name and arguments of an NVTX range.

    torch.autograd.profiler.emit_nvtx (and ``nsys profile --pytorch``) creates one per operator,
    such as "aten::mm, seq = 5, op_id = 9, sizes = [[2, 3], [3, 4]]". Up to
    torch 1.10 they have no op_id, and operators without a gradient have only their name.
    """
    match = _OPERATOR.fullmatch(name)
    if match is None or not any(match.group("is_aten", "seq", "op_id", "sizes")):
        return "user_annotation", name, {}
    args: dict[str, Any] = {}
    if match["seq"] is not None:
        args["Sequence number"] = min(int(match["seq"]), _MAX_INTEGER)
    if match["sizes"] is not None:
        with suppress(ValueError, RecursionError):
            args["Input Dims"] = json.loads(match["sizes"])
    return "cpu_op", match["name"], args


def _format_event(event: dict[str, Any]) -> str:
    """Format an event as in Kineto, with times in decimal microseconds."""
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
        + (
            f', "ts": {_format_microseconds(event["ts"])}, "dur": '
            f'{_format_microseconds(event["dur"])}, "args": '
        )
        + json.dumps(args)
        + "}"
    )


def _format_microseconds(ns: int) -> str:
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"


def _parse_count(value: Any) -> int | None:
    """Return a count, size or id. None for other values."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_INTEGER
    return value if is_count and isinstance(value, int) else None


def _extract_pid(serialised: Any) -> int | None:
    """Extract the process from a GlobalId (8 bits hardware, 8 virtual machine, 24 process, 24
    thread)."""
    is_integer = isinstance(serialised, int) and not isinstance(serialised, bool)
    return (serialised >> _ID_BITS) & _ID_MASK if is_integer else None


def _extract_tid(serialised: Any) -> int:
    return serialised & _ID_MASK if isinstance(serialised, int) else 0
