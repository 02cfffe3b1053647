"""Kineto traces, as torch.profiler exports them, into the tables of model/trace.py.

This and its neighbours (``kineto_events``, ``kineto_columns``, ``kineto_tables``) are the one
place that knows Kineto's keys. Source of the format: pytorch/kineto
``libkineto/src/output_json.cpp`` and Google's "Trace Event Format".
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import polars as pl

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.kineto import workers
from graphviz_dash.ingest.kineto.columns import (
    EventColumns,
    joined,
    span_of,
)
from graphviz_dash.ingest.kineto.events import GPU_CATEGORIES, Event, EventDecoder
from graphviz_dash.ingest.kineto.json_stream import ArrayReader
from graphviz_dash.ingest.kineto.problems import find_problems, missing_rest, unreadable_text
from graphviz_dash.ingest.kineto.table_columns import LATEST_NS, NeedsExactTimesError
from graphviz_dash.ingest.kineto.tables import frames
from graphviz_dash.ingest.kineto.workers import DeclinedError, Workers
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.model.trace import EventOffsets, Trace, TraceInfo, TraceProblem
from graphviz_dash.units import counted

_MOST_CATEGORIES = 64
"""Categories counted by name; a trace with more has the rest counted together."""


def read_trace(
    path: Path,
    limits: Limits = DEFAULT_LIMITS,
    *,
    processes: int | None = None,
) -> Trace:
    """Reads a Kineto trace, ``.json``, plain or compressed by gzip or zstd.

    Times are exact nanoseconds since the first event that a table holds: a decimal microsecond is
    never rounded, however large. Python's garbage collector rests meanwhile.

    A file that is cut or damaged is read up to there; ``Trace.info.incomplete`` says so.

    A large file is read by ``processes`` processes (None: as many as
    :func:`graphviz_dash.ingest.kineto.workers.processes` says), with the same result as by one.

    Raises:
        InputError: no such file, data damaged before the first slice, JSON that is no trace, none
            of whose events can be used, or more than ``limits`` or this machine's memory allow.
        WorkerError: one of the processes was ended.
    """
    exact = False
    with _no_collection():
        while True:
            try:
                with _Reading(path, limits, exact=exact, processes=processes) as reading:
                    return reading.run()
            except NeedsExactTimesError:
                # Nearly always met in the first piece: such traces have no baseTimeNanoseconds.
                exact = True
            except DeclinedError as refused:
                if refused.inexact:
                    exact = True
                else:
                    processes = 1
            except MemoryError as error:
                actual = "a trace that takes more memory than there is"
                raise InputError(path, actual, "a smaller one") from error


class _Reading:
    """One pass over one file."""

    def __init__(self, path: Path, limits: Limits, *, exact: bool, processes: int | None) -> None:
        self.path = path
        self.limits = limits
        self.exact = exact
        self.decoder = EventDecoder()
        self.decoder.exact = exact
        self.own = EventColumns(path, exact=exact)
        self.own_events = 0
        self.spans: list[tuple[int, int]] = []  # bytes of each piece
        self.owners: list[int] = []  # who has it: 0 this process, else a worker
        self.most_workers = (workers.processes() if processes is None else processes) - 1
        self.workers: Workers | None = None
        self._handed_to = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.workers is not None:
            self.workers.close()

    def run(self) -> Trace:
        with ByteStream(self.path, self.limits) as stream:
            reader = ArrayReader(
                stream, "traceEvents", self.decoder.strict, self.decoder.lenient, self.limits
            )
            try:
                self._read(reader, stream)
            except InputError as error:
                if self.workers is None:
                    raise
                # It may only seem so, after a wrong cut, and which event it is only one who has
                # read all before can tell.
                raise DeclinedError(inexact=False) from error
        self.own.settle()
        self.own.unusable += self.decoder.unusable
        parts = [self.own]
        unreadable = Counter(self.decoder.unreadable)
        if self.workers is not None:
            for columns, refused in self.workers.finish():
                parts.append(columns)
                unreadable.update(refused)
            self.workers.close()  # what they hold is not needed twice
        return self._finish(reader, parts, unreadable)

    def _read(self, reader: ArrayReader[Event], stream: ByteStream) -> None:
        for events in reader:
            self.spans.append(reader.span)
            self.owners.append(self._handed_to if events is None else 0)
            if events is not None:
                self.own.add(events)
                self.own_events += len(events)
            self._check()
            read, size = stream.progress
            if self.workers is None and self.most_workers > 0:
                left = reader.read_bytes * (size - read) // max(read, 1)
                if left >= workers.WORTHWHILE_BYTES:
                    self.workers = Workers(self.path, self.most_workers, exact=self.exact)
                    reader.hand_over = self._hand_over

    def _hand_over(self, piece: memoryview) -> bool:
        assert self.workers is not None
        worker_number = self.workers.offer(piece)
        if worker_number is None:
            return False
        self._handed_to = worker_number + 1
        return True

    def _check(self) -> None:
        events = self.own_events + (self.workers.events if self.workers is not None else 0)
        if events > self.limits.events:
            actual = f"more than {self.limits.events:,} events"
            raise self.limits.refuse(self.path, "events", actual)

    def _finish(
        self, reader: ArrayReader[Event], parts: list[EventColumns], unreadable: Counter[str]
    ) -> Trace:
        fields = reader.fields
        columns = joined(parts, self.owners)
        events = sum(columns.events)
        filled = [table for table in columns.tables.values() if any(table.rows)]
        if not filled and reader.damage is not None:
            raise reader.refused(reader.damage)
        if not filled:
            causes = f"; {_listed(columns.unusable)}" if columns.unusable else ""
            number = counted(events, "event")
            raise InputError(
                self.path,
                f"traceEvents without any slice of a CPU or GPU ({number}{causes})",
                "a Kineto trace, as torch.profiler exports it",
            )
        origin, end = span_of(filled)
        whole = all(table.whole_microseconds for table in filled)  # as torch wrote them before 2.4
        cupti_version = _integer_field(fields, "cupti_version", self.path)
        look = partial(find_problems, whole_microseconds=whole, cupti_version=cupti_version)
        tables, rows, problems = frames(columns.tables, origin, self.limits, look)
        info = TraceInfo(
            source=self.path.name,
            events=events,
            skipped=_most_skipped(columns.skipped),
            origin_ns=(_integer_field(fields, "baseTimeNanoseconds", self.path) or 0) + origin,
            end_ns=end - origin,
            cupti_version=cupti_version,
            cuda_runtime_version=_integer_field(fields, "cuda_runtime_version", self.path),
            cuda_driver_version=_integer_field(fields, "cuda_driver_version", self.path),
            device_names=_device_names(fields),
            with_stack=bool(fields.get("with_stack")),
            record_shapes=bool(fields.get("record_shapes")),
            problems=(
                *_missing(reader, events, end - origin),
                *problems,
                *_unusable(columns.unusable),
                *_begin_end_events(columns.skipped),
                *_unreadable(unreadable),
            ),
        )
        offsets = EventOffsets(self.path, _pieces(columns.events, self.spans), rows)
        return Trace(info=info, **tables, offsets=offsets)


def _missing(reader: ArrayReader[Event], events: int, end: int) -> Iterator[TraceProblem]:
    """What the trace lacks because its file is cut or damaged."""
    damage = reader.damage
    if damage is not None:
        yield missing_rest(
            damage,
            events=events,
            read_bytes=reader.read_bytes,
            end=end,
            base_time="baseTimeNanoseconds" in reader.fields,
        )
    if reader.repaired:
        yield unreadable_text()


def _listed(causes: Counter[str]) -> str:
    return ", ".join(f"{cause} ({number:,})" for cause, number in sorted(causes.items()))


def _unusable(causes: Counter[str]) -> Iterator[TraceProblem]:
    if causes:
        count = causes.total()
        yield TraceProblem(
            "event-unusable",
            f"{counted(count, 'event')} cannot be used: {_listed(causes)}. "
            f"{'It is' if count == 1 else 'They are'} missing from every figure.",
        )


def _begin_end_events(skipped: Counter[str]) -> Iterator[TraceProblem]:
    """Work on a GPU that is no slice: every slice of these categories is in a table."""
    count = sum(number for category, number in skipped.items() if category in GPU_CATEGORIES)
    if count:
        yield TraceProblem(
            "work-not-as-slices",
            f"{counted(count, 'event')} of work on the GPU are no slices, as begins and ends "
            "(phases B and E) are, which Kineto does not write: they are not read, and missing "
            "from every figure.",
        )


def _unreadable(arguments: Counter[str]) -> Iterator[TraceProblem]:
    if arguments:
        named = ", ".join(sorted(arguments))
        yield TraceProblem(
            "argument-unreadable",
            f"{arguments.total():,} arguments ({named}) hold something else than they should; "
            "they count as not recorded.",
        )


def _most_skipped(skipped: Counter[str]) -> dict[str, int]:
    """The categories with the most events, and all others together."""
    most = sorted(skipped.items(), key=lambda item: (-item[1], item[0]))
    kept: Counter[str] = Counter()
    for label, number in most[:_MOST_CATEGORIES]:
        kept[label[:80]] += number
    rest = sum(number for _, number in most[_MOST_CATEGORIES:])
    return dict(kept) | ({"other": kept["other"] + rest} if rest else {})


def _pieces(events: list[int], spans: list[tuple[int, int]]) -> pl.DataFrame:
    first = accumulate(events[:-1], initial=0)
    starts, ends = zip(*spans, strict=True)
    return pl.DataFrame({"first": list(first), "start": starts, "end": ends}, schema=PIECES)


PIECES: Final = pl.Schema({"first": pl.Int64, "start": pl.Int64, "end": pl.Int64})
"""Columns of ``EventOffsets.pieces``."""


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
