"""Reader of Kineto traces into the tables of model/trace.py.

Source: pytorch/kineto ``libkineto/src/output_json.cpp`` and Google's "Trace Event Format".
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Self

import polars as pl

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.kineto import workers
from graphviz_dash.ingest.kineto.begin_end import SplitSlicesError
from graphviz_dash.ingest.kineto.columns import (
    EventColumns,
    compute_span,
    drop_untimed_work,
    merge_columns,
)
from graphviz_dash.ingest.kineto.events import GPU_CATEGORIES, Event, EventDecoder
from graphviz_dash.ingest.kineto.json_stream import ArrayReader
from graphviz_dash.ingest.kineto.problems import (
    build_text_problem,
    build_truncation_problem,
    find_problems,
)
from graphviz_dash.ingest.kineto.table_columns import MAX_TIME_NS, NeedsExactTimesError
from graphviz_dash.ingest.kineto.tables import build_frames
from graphviz_dash.ingest.kineto.workers import DeclinedError, Workers
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.model.trace import (
    UNCATEGORIZED_SLICES,
    EventOffsets,
    Trace,
    TraceInfo,
    TraceProblem,
)
from graphviz_dash.units import pluralize

_MAX_CATEGORIES = 64
"""Categories counted by name; others are counted together."""


def read_trace(
    path: Path,
    limits: Limits = DEFAULT_LIMITS,
    *,
    processes: int | None = None,
) -> Trace:
    """Read a Kineto trace, ``.json``, plain or compressed with gzip or zstd.

    Times are exact nanoseconds since the first event in a table. Python's garbage collector is
    disabled meanwhile. A damaged file is read up to that point (``Trace.info.incomplete``).

    Args:
        path: The file.
        limits: Limits for reading.
        processes: Number of processes for a large file, with the same result. None for
            :func:`graphviz_dash.ingest.kineto.workers.get_process_count`.

    Raises:
        InputError: File not found, damaged before the first slice, not a trace, no usable events,
            or more than ``limits`` or this machine's memory allow.
        WorkerError: A process was terminated.
    """
    exact = False
    with _disable_garbage_collection():
        while True:
            try:
                with _TraceReading(path, limits, exact=exact, processes=processes) as reading:
                    return reading.read()
            except NeedsExactTimesError:
                # Nearly always raised in the first piece: such traces have no baseTimeNanoseconds.
                exact = True
            except DeclinedError as refused:
                if refused.inexact:
                    exact = True
                else:
                    processes = 1
            except MemoryError as error:
                description = "a trace that needs more memory than available"
                raise InputError(path, description, "a smaller one") from error


class _TraceReading:
    """One pass over one file."""

    def __init__(self, path: Path, limits: Limits, *, exact: bool, processes: int | None) -> None:
        self.path = path
        self.limits = limits
        self.exact = exact
        self.decoder = EventDecoder()
        self.decoder.exact = exact
        self.own_columns = EventColumns(path, exact=exact)
        self.own_events = 0
        self.spans: list[tuple[int, int]] = []  # bytes of each piece
        self.piece_owners: list[int] = []  # 0 for this process, otherwise the worker's number
        self.max_workers = (workers.get_process_count() if processes is None else processes) - 1
        self.workers: Workers | None = None
        self._last_worker = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.workers is not None:
            self.workers.close()

    def read(self) -> Trace:
        with ByteStream(self.path, self.limits, replaces_nul=True) as stream:
            reader = ArrayReader(
                stream,
                "traceEvents",
                self.decoder.decode_strictly,
                self.decoder.decode_leniently,
                self.limits,
            )
            try:
                self._read_pieces(reader, stream)
            except SplitSlicesError as error:
                # A worker may have read the begin of the first slice.
                raise DeclinedError(inexact=False) from error
            except InputError as error:
                if self.workers is None:
                    raise
                # The error may result from a wrong cut, and only a single process knows which event
                # caused it.
                raise DeclinedError(inexact=False) from error
        self.own_columns.finish()
        self.own_columns.unusable += self.decoder.unusable
        parts = [self.own_columns]
        unreadable = Counter(self.decoder.unreadable)
        if self.workers is not None:
            for columns, worker_unreadable in self.workers.finish():
                parts.append(columns)
                unreadable.update(worker_unreadable)
            self.workers.close()  # their data has been copied
        return self._build_trace(reader, parts, unreadable)

    def _read_pieces(self, reader: ArrayReader[Event], stream: ByteStream) -> None:
        for events in reader:
            self.spans.append(reader.span)
            self.piece_owners.append(self._last_worker if events is None else 0)
            if events is not None:
                self.own_columns.add(events)
                self.own_events += len(events)
            self._check_limit()
            bytes_read, size = stream.progress
            if self.workers is None and self.max_workers > 0:
                remaining = reader.read_bytes * (size - bytes_read) // max(bytes_read, 1)
                if remaining >= workers.MIN_PARALLEL_BYTES:
                    self.own_columns.expect_other_parts()
                    self.workers = Workers(self.path, self.max_workers, exact=self.exact)
                    reader.hand_over = self._hand_over

    def _hand_over(self, piece: memoryview) -> bool:
        assert self.workers is not None
        worker_number = self.workers.send_piece(piece)
        if worker_number is None:
            return False
        self._last_worker = worker_number + 1
        return True

    def _check_limit(self) -> None:
        events = self.own_events + (self.workers.events if self.workers is not None else 0)
        if events > self.limits.events:
            description = f"more than {self.limits.events:,} events"
            raise self.limits.build_error(self.path, "events", description)

    def _build_trace(
        self, reader: ArrayReader[Event], parts: list[EventColumns], unreadable: Counter[str]
    ) -> Trace:
        fields = reader.fields
        columns = merge_columns(parts, self.piece_owners)
        drop_untimed_work(columns)
        events = sum(columns.events)
        tables_with_rows = [table for table in columns.tables.values() if any(table.rows)]
        if not tables_with_rows and reader.damage is not None:
            raise reader.build_error(reader.damage)
        if not tables_with_rows:
            causes = f"; {_format_causes(columns.unusable)}" if columns.unusable else ""
            raise InputError(
                self.path,
                f"{_describe_container(reader, columns)}{causes})",
                "a Kineto trace from torch.profiler",
            )
        origin, end = compute_span(tables_with_rows)
        integer_microseconds = all(
            table.whole_microseconds for table in tables_with_rows
        )  # as in torch before 2.4
        cupti_version = _read_integer_field(fields, "cupti_version", self.path)
        device_names = _read_device_names(fields)
        find = partial(
            find_problems,
            integer_microseconds=integer_microseconds,
            cupti_version=cupti_version,
        )
        tables, rows, problems = build_frames(columns.tables, origin, self.limits, find)
        info = TraceInfo(
            source=self.path.name,
            events=events,
            skipped=_select_most_skipped(columns.skipped),
            origin_ns=(_read_integer_field(fields, "baseTimeNanoseconds", self.path) or 0) + origin,
            end_ns=end - origin,
            cupti_version=cupti_version,
            cuda_runtime_version=_read_integer_field(fields, "cuda_runtime_version", self.path),
            cuda_driver_version=_read_integer_field(fields, "cuda_driver_version", self.path),
            device_names=device_names,
            with_stack=bool(fields.get("with_stack")),
            record_shapes=bool(fields.get("record_shapes")),
            problems=(
                *_find_missing(reader, events, end - origin),
                *problems,
                *_find_unusable(columns.unusable),
                *_find_work_without_slices(columns.skipped),
                *_find_unreadable(unreadable),
            ),
        )
        offsets = EventOffsets(self.path, _build_pieces(columns.events, self.spans), rows)
        return Trace(info=info, **tables, offsets=offsets)


def _find_missing(reader: ArrayReader[Event], events: int, end: int) -> Iterator[TraceProblem]:
    damage = reader.damage
    if damage is not None:
        yield build_truncation_problem(
            damage,
            events=events,
            read_bytes=reader.read_bytes,
            end=end,
            base_time="baseTimeNanoseconds" in reader.fields,
        )
    if reader.repaired:
        yield build_text_problem()


def _describe_container(reader: ArrayReader[Event], columns: EventColumns) -> str:
    """Describe events without a table, with an open parenthesis."""
    events = sum(columns.events)
    container = "an array" if reader.is_bare_array else "traceEvents"
    if events and columns.skipped == {"phase ''": events}:
        return f"{container} of objects without a phase (ph), not a trace ({events:,} objects"
    if slices := columns.skipped[UNCATEGORIZED_SLICES]:
        return (
            f"{container} whose slices have no category (cat), unlike those of a CPU or GPU in a "
            f"Kineto trace ({pluralize(slices, 'slice')}"
        )
    return f"{container} without any slice of a CPU or GPU ({pluralize(events, 'event')}"


def _format_causes(causes: Counter[str]) -> str:
    return ", ".join(f"{cause} ({number:,})" for cause, number in sorted(causes.items()))


def _find_unusable(causes: Counter[str]) -> Iterator[TraceProblem]:
    if causes:
        count = causes.total()
        yield TraceProblem(
            "event-unusable",
            f"{pluralize(count, 'event')} cannot be used: {_format_causes(causes)}. "
            f"{'It is' if count == 1 else 'They are'} missing from all figures.",
        )


def _find_work_without_slices(skipped: Counter[str]) -> Iterator[TraceProblem]:
    """Report GPU work that is not recorded as slices."""
    count = sum(number for category, number in skipped.items() if category in GPU_CATEGORIES)
    if count:
        yield TraceProblem(
            "work-not-as-slices",
            f"{pluralize(count, 'event')} of GPU work are not slices but, for example, "
            "asynchronous events (phases b and e), which Kineto does not write. They are skipped "
            "and missing from all figures.",
        )


def _find_unreadable(arguments: Counter[str]) -> Iterator[TraceProblem]:
    if arguments:
        names = ", ".join(sorted(arguments))
        yield TraceProblem(
            "argument-unreadable",
            f"{arguments.total():,} arguments ({names}) have invalid values and "
            "count as not recorded.",
        )


def _select_most_skipped(skipped: Counter[str]) -> dict[str, int]:
    ranked = sorted(skipped.items(), key=lambda item: (-item[1], item[0]))
    result: Counter[str] = Counter()
    for label, number in ranked[:_MAX_CATEGORIES]:
        result[label[:80]] += number
    other_count = sum(number for _, number in ranked[_MAX_CATEGORIES:])
    return dict(result) | ({"other": result["other"] + other_count} if other_count else {})


def _build_pieces(events: list[int], spans: list[tuple[int, int]]) -> pl.DataFrame:
    first_events = accumulate(events[:-1], initial=0)
    starts, ends = zip(*spans, strict=True)
    return pl.DataFrame(
        {"first": list(first_events), "start": starts, "end": ends}, schema=PIECES_SCHEMA
    )


PIECES_SCHEMA: Final = pl.Schema({"first": pl.Int64, "start": pl.Int64, "end": pl.Int64})


@contextmanager
def _disable_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _read_integer_field(fields: dict[str, Any], name: str, path: Path) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 2 * MAX_TIME_NS:
        raise InputError(path, f"{name} is {str(value)[:40]!r}", "a 64-bit integer")
    return value


def _read_device_names(fields: dict[str, Any]) -> tuple[str, ...]:
    """Return the device names, omitting empty ones (from ROCm)."""
    devices = fields.get("deviceProperties")
    if not isinstance(devices, list):
        return ()
    names = (device.get("name") for device in devices if isinstance(device, dict))
    return tuple(name[:200] for name in names if isinstance(name, str) and name)
