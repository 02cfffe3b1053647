"""Kineto traces, as torch.profiler exports them, into the tables of model/trace.py.

This and its two neighbours (``kineto_events``, ``kineto_tables``) are the one place that knows
Kineto's keys. Source of the format: pytorch/kineto ``libkineto/src/output_json.cpp`` and Google's
"Trace Event Format".
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.json_stream import ArrayReader
from graphviz_dash.ingest.kineto_events import ABSENT, NO_RAW, Args, Event, EventDecoder
from graphviz_dash.ingest.kineto_tables import (
    LATEST_NS,
    NeedsExactTimesError,
    Table,
    graph_ids,
    shapes,
)
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.ingest.problems import find_problems, missing_rest, unreadable_text
from graphviz_dash.model.trace import (
    ANNOTATION_COLUMNS,
    GPU_COLUMNS,
    OP_COLUMNS,
    PYTHON_COLUMNS,
    RUNTIME_COLUMNS,
    EventPlaces,
    Trace,
    TraceInfo,
    TraceProblem,
)

_KERNEL, _MEMCPY, _MEMSET = range(3)
_KINDS = ("kernel", "memcpy", "memset")

# Kineto's categories, those of torch before 1.12 among them.
_TABLE_OF = {
    "kernel": "gpu",
    "Kernel": "gpu",
    "gpu_memcpy": "gpu",
    "Memcpy": "gpu",
    "gpu_memset": "gpu",
    "Memset": "gpu",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "Runtime": "runtime",
    "xpu_runtime": "runtime",
    "xpu_driver": "runtime",
    "privateuse1_runtime": "runtime",
    "privateuse1_driver": "runtime",
    "cpu_op": "ops",
    "Operator": "ops",
    "user_annotation": "annotations",
    "python_function": "python",
    "Python": "python",
}
_KIND_OF = {
    "kernel": _KERNEL,
    "Kernel": _KERNEL,
    "gpu_memcpy": _MEMCPY,
    "Memcpy": _MEMCPY,
    "gpu_memset": _MEMSET,
    "Memset": _MEMSET,
}
_PHASES = {"M": "metadata", "i": "instant", "I": "instant", "C": "counter"}
_MOST_CATEGORIES = 64
"""Categories counted by name; a trace with more has the rest counted together."""


def read_trace(path: Path, limits: Limits = DEFAULT_LIMITS) -> Trace:
    """Reads a Kineto trace, ``.json`` or gzip-compressed.

    Times are exact nanoseconds since the first event that a table holds: a decimal microsecond is
    never rounded, however large. Python's garbage collector rests meanwhile.

    A file that is cut or damaged is read up to there; ``Trace.info.incomplete`` says so.

    Raises:
        InputError: no such file, data damaged before the first slice, JSON that is no trace, an
            event of the wrong type, an absurd number, or more than ``limits`` allow.
    """
    with _no_collection():
        try:
            return _Reading(path, limits, exact=False).run()
        except NeedsExactTimesError:
            # Nearly always met in the first piece: such traces have no baseTimeNanoseconds.
            return _Reading(path, limits, exact=True).run()


class _Reading:
    """One pass over one file."""

    def __init__(self, path: Path, limits: Limits, *, exact: bool) -> None:
        self.path = path
        self.limits = limits
        self.exact = exact
        self.decoder = EventDecoder(path)
        self.decoder.exact = exact
        self.tables = {name: Table(path, limits) for name in SCHEMAS}
        self.skipped: Counter[str] = Counter()
        self.events = 0
        self.pieces: list[tuple[int, int, int]] = []  # as EventPlaces.pieces

    def run(self) -> Trace:
        with ByteStream(self.path, self.limits) as stream:
            reader = ArrayReader(
                stream, "traceEvents", self.decoder.strict, self.decoder.lenient, self.limits
            )
            for events in reader:
                self.pieces.append((self.events, *reader.span))
                self._add(events)
        return self._finish(reader)

    def _add(self, events: list[Event]) -> None:
        before = self.events
        self.events += len(events)
        if self.events > self.limits.events:
            found = f"more than {self.limits.events:,} events"
            raise self.limits.refuse(self.path, "events", found)
        number_of = _NUMBER_OF.get
        numbers = np.fromiter(
            (number_of(event.cat, -1) if event.ph == "X" else -1 for event in events),
            np.int8,
            len(events),
        )
        rows: dict[str, list[Event]] = {}
        for number, (name, table) in enumerate(self.tables.items()):
            places = np.flatnonzero(numbers == number)
            rows[name] = [events[place] for place in places.tolist()]
            if places.size:
                table.put("place", places + before)
        self._count_skipped([events[place] for place in np.flatnonzero(numbers < 0).tolist()])
        if rows["gpu"]:
            self._gpu(rows["gpu"])
        if rows["runtime"]:
            self._runtime(rows["runtime"])
        if rows["ops"]:
            self._ops(rows["ops"])
        if rows["annotations"]:
            self._annotations(rows["annotations"])
        if rows["python"]:
            self._python(rows["python"])

    def _count_skipped(self, events: list[Event]) -> None:
        seen = Counter(map(attrgetter("cat"), events))
        if seen.pop("", 0):
            seen.update(_PHASES.get(e.ph) or f"phase {e.ph!r}" for e in events if not e.cat)
        for label, number in seen.items():
            known = label in self.skipped or len(self.skipped) < _MOST_CATEGORIES
            self.skipped[label[:80] if known else "other"] += number

    def _gpu(self, events: list[Event]) -> None:
        table = self.tables["gpu"]
        args = list(map(attrgetter("args"), events))
        table.add(events, self.exact)
        table.put(
            "kind", np.fromiter((_KIND_OF[event.cat] for event in events), np.int64, len(events))
        )
        # Old traces name device and stream only by the process and thread they draw them in.
        for column, thread in (("device", "pid"), ("stream", "tid")):
            values = table.integers(args, column)
            if (values == ABSENT).any():
                fallback = table.integers(events, thread)
                values = np.where(values == ABSENT, fallback, values)
            table.put(column, values)
        table.arguments(args, ("correlation", "shared", "registers", "bytes"))
        table.put("external_id", _external_ids(table, args))
        for name in ("grid", "block"):
            for axis, extent in zip("xyz", shapes(args, name, table), strict=True):
                table.put(f"{name}_{axis}", extent)
        graph, node = graph_ids(args, self.path)
        table.put("graph_id", graph)
        table.put("graph_node_id", node)

    def _runtime(self, events: list[Event]) -> None:
        table = self.tables["runtime"]
        args = list(map(attrgetter("args"), events))
        table.add(events, self.exact)
        table.threads(events)
        table.arguments(args, ("correlation",))
        table.put("external_id", _external_ids(table, args))

    def _ops(self, events: list[Event]) -> None:
        table = self.tables["ops"]
        args = list(map(attrgetter("args"), events))
        table.add(events, self.exact)
        table.threads(events)
        table.arguments(args, ("sequence", "forward_tid"))
        table.put("external_id", _external_ids(table, args))
        dims = [
            arg.input_dims if arg.input_dims is not NO_RAW else arg.old_input_dims for arg in args
        ]
        table.raws("input_dims", dims)
        table.raws("input_types", list(map(attrgetter("input_types"), args)))

    def _annotations(self, events: list[Event]) -> None:
        table = self.tables["annotations"]
        table.add(events, self.exact)
        table.threads(events)

    def _python(self, events: list[Event]) -> None:
        table = self.tables["python"]
        args = list(map(attrgetter("args"), events))
        table.add(events, self.exact)
        table.threads(events)
        table.arguments(args, ("python_id", "python_parent_id"))

    def _finish(self, reader: ArrayReader[Event]) -> Trace:
        fields = reader.fields
        filled = [table for table in self.tables.values() if table.rows]
        if not filled and reader.damage is not None:
            raise reader.refused(reader.damage)
        if not filled:
            raise InputError(
                self.path,
                f"traceEvents without any slice of a CPU or GPU ({self.events:,} events)",
                "a Kineto trace, as torch.profiler exports it",
            )
        origin = min(int(table.column("ts").min()) for table in filled)
        end = max(int((table.column("ts") + table.column("dur")).max()) for table in filled)
        frames = {
            name: self.tables[name].frame(
                schema | _WHILE_READING[name], origin, name not in ("gpu", "runtime")
            )
            for name, schema in SCHEMAS.items()
        }
        rows = {name: frame.drop_in_place("place") for name, frame in frames.items()}
        pieces = pl.DataFrame(self.pieces, schema=PIECES, orient="row")
        kinds = pl.Series(_KINDS, dtype=pl.Categorical)
        gpu = frames["gpu"].with_columns(kinds.gather(frames["gpu"]["kind"]).alias("kind"))
        base = _integer_field(fields, "baseTimeNanoseconds", self.path) or 0
        # torch wrote integers before 2.2.
        whole = all(table.whole_microseconds for table in filled)
        problems = find_problems(gpu, frames["runtime"], whole_microseconds=whole)
        info = TraceInfo(
            source=self.path.name,
            events=self.events,
            skipped=dict(self.skipped),
            origin_ns=base + origin,
            end_ns=end - origin,
            cupti_version=_integer_field(fields, "cupti_version", self.path),
            cuda_runtime_version=_integer_field(fields, "cuda_runtime_version", self.path),
            cuda_driver_version=_integer_field(fields, "cuda_driver_version", self.path),
            device_names=_device_names(fields),
            with_stack=bool(fields.get("with_stack")),
            record_shapes=bool(fields.get("record_shapes")),
            problems=(*self._missing(reader, end - origin), *problems, *self._argument_problems()),
        )
        return Trace(
            info=info,
            gpu=gpu,
            runtime=frames["runtime"],
            ops=frames["ops"],
            annotations=frames["annotations"],
            python=frames["python"],
            places=EventPlaces(self.path, pieces, rows),
        )

    def _missing(self, reader: ArrayReader[Event], end: int) -> Iterator[TraceProblem]:
        """What the trace lacks because its file is cut or damaged."""
        damage = reader.damage
        if damage is not None:
            yield missing_rest(
                damage,
                events=self.events,
                read_bytes=reader.read_bytes,
                end=end,
                base_time="baseTimeNanoseconds" in reader.fields,
            )
        if reader.repaired:
            yield unreadable_text()

    def _argument_problems(self) -> Iterator[TraceProblem]:
        unreadable = self.decoder.unreadable
        if unreadable:
            total = sum(unreadable.values())
            named = ", ".join(sorted(unreadable))
            yield TraceProblem(
                "argument-unreadable",
                f"{total:,} arguments ({named}) hold something else than they should; "
                "they count as not recorded.",
            )


SCHEMAS: Final = {
    "gpu": GPU_COLUMNS,
    "runtime": RUNTIME_COLUMNS,
    "ops": OP_COLUMNS,
    "annotations": ANNOTATION_COLUMNS,
    "python": PYTHON_COLUMNS,
}
"""Columns of each table of :class:`Trace`, by its name."""


# kind is a number until the table is whole; place goes into Trace.places.
_WHILE_READING: Final = {name: {"place": "int64"} for name in SCHEMAS} | {
    "gpu": {"place": "int64", "kind": "int64"}
}

_NUMBER_OF: Final = {category: list(SCHEMAS).index(table) for category, table in _TABLE_OF.items()}

PIECES: Final = pl.Schema({"first": pl.Int64, "start": pl.Int64, "end": pl.Int64})
"""Columns of ``EventPlaces.pieces``."""


@contextmanager
def _no_collection() -> Iterator[None]:
    """Garbage collection off: it would walk the same million live objects again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _external_ids(table: Table, args: Sequence[Args]) -> np.ndarray[Any, np.dtype[np.int64]]:
    values = table.integers(args, "external_id")
    return table.integers(args, "old_external_id") if (values == ABSENT).all() else values


def _integer_field(fields: dict[str, Any], name: str, path: Path) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 2 * LATEST_NS:
        raise InputError(path, f"{name} is {str(value)[:40]!r}", "a 64-bit integer")
    return value


def _device_names(fields: dict[str, Any]) -> tuple[str, ...]:
    """Names of the devices in their order; empty names (ROCm writes them) are left out."""
    devices = fields.get("deviceProperties")
    if not isinstance(devices, list):
        return ()
    names = (device.get("name") for device in devices if isinstance(device, dict))
    return tuple(name[:200] for name in names if isinstance(name, str) and name)
