"""Conversion of events to table columns, piece by piece."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, compress
from typing import Final

import numpy as np

from graphviz_dash.ingest.kineto.begin_end import SlicePairing, SplitSlicesError, has_pairs
from graphviz_dash.ingest.kineto.column_blocks import Block, Ints, compress_values, expand_blocks
from graphviz_dash.ingest.kineto.events import (
    ABSENT,
    UNUSABLE_EVENT,
    Args,
    Event,
    UnusableEventError,
)
from graphviz_dash.ingest.kineto.table_columns import (
    ABSENT_BYTES,
    READ_ARGS,
    READ_EVENT,
    TableColumns,
    pack,
)
from graphviz_dash.model.trace import (
    ANNOTATION_COLUMNS,
    GPU_COLUMNS,
    OP_COLUMNS,
    PYTHON_COLUMNS,
    RUNTIME_COLUMNS,
    UNCATEGORIZED_SLICES,
)

SCHEMAS: Final = {
    "gpu": GPU_COLUMNS,
    "runtime": RUNTIME_COLUMNS,
    "ops": OP_COLUMNS,
    "annotations": ANNOTATION_COLUMNS,
    "python": PYTHON_COLUMNS,
}
"""Columns of each table of :class:`Trace`, by name."""

KINDS: Final = ("kernel", "memcpy", "memset")
"""In the order of their codes."""

_KERNEL, _MEMCPY, _MEMSET = range(3)

# Kineto's categories, including those of torch before 1.12.
_TABLE_BY_CATEGORY: Final = {
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
_KIND_BY_CATEGORY: Final = {
    "kernel": _KERNEL,
    "Kernel": _KERNEL,
    "gpu_memcpy": _MEMCPY,
    "Memcpy": _MEMCPY,
    "gpu_memset": _MEMSET,
    "Memset": _MEMSET,
}
_PHASES: Final = {
    "M": "metadata",
    "i": "instant",
    "I": "instant",
    "C": "counter",
    "X": UNCATEGORIZED_SLICES,
}
_TABLE_NUMBERS: Final = {
    category: list(SCHEMAS).index(table) for category, table in _TABLE_BY_CATEGORY.items()
}
_FAR_FROM_ZERO_NS: Final = 86_400_000_000_000
"""Minimum time of all other events, a day, from which a start of 0 is no time."""
_MAX_DEVICE: Final = (1 << 31) - 1
_NO_TABLE: Final = len(SCHEMAS)
_TEXT_COLUMNS: Final = ("input_dims", "input_types", "input_strides", "input_values")
_NO_SHAPE: Final = (ABSENT, ABSENT, ABSENT)


class EventColumns:
    """Events of some pieces of a trace as columns.

    ``events``: traceEvents per piece. ``skipped``: events without a table, by category or phase.
    ``unusable``: omitted events, by description.

    With ``is_partial``, other pieces are elsewhere, so begin and end events cannot be paired.
    """

    def __init__(self, source: object, *, exact: bool, is_partial: bool = False) -> None:
        self.where = source
        self.exact = exact
        self.tables = {name: TableColumns(source) for name in SCHEMAS}
        self.skipped: Counter[str] = Counter()
        self.unusable: Counter[str] = Counter()
        self.events: list[int] = []
        self._pairing = None if is_partial else SlicePairing()

    def add(self, events: list[Event]) -> None:
        """Add a piece, omitting unusable events.

        Raises:
            NeedsExactTimesError: As in :meth:`TableColumns.stage_times`; the columns are unusable
                afterwards.
            SplitSlicesError: The piece has begin and end events, but others are elsewhere.
        """
        if has_pairs(events):
            if self._pairing is None:
                raise SplitSlicesError
            events = self._pairing.join_slices(events)
        try:
            without_table = self._stage(events)
        except UnusableEventError:
            self._discard()
            causes = self._find_causes(events)
            self.unusable.update(causes.values())
            usable = [UNUSABLE_EVENT if at in causes else event for at, event in enumerate(events)]
            without_table = self._stage(usable)
        for table in self.tables.values():
            table.commit()
        self.events.append(len(events))
        self._count_skipped(without_table)

    def expect_other_parts(self) -> None:
        """Refuse begin and end events from now on."""
        self._pairing = None

    def _stage(self, events: list[Event]) -> list[Event]:
        """Stage a piece in the tables and return the events without a table.

        Raises:
            NeedsExactTimesError, UnusableEventError: As in :meth:`TableColumns.stage_times`.
        """
        number_of = _TABLE_NUMBERS.get
        numbers = bytes(
            [number_of(event.cat, _NO_TABLE) if event.ph == "X" else _NO_TABLE for event in events]
        )
        for number, (name, table) in enumerate(self.tables.items()):
            chosen, indices = _select_events(events, numbers, number)
            table.start_piece(len(chosen))
            if chosen:
                table.stage_column("event_index", indices)
                _FILL[name](table, chosen, self.exact)
        return _select_events(events, numbers, _NO_TABLE)[0]

    def _discard(self) -> None:
        for table in self.tables.values():
            table.discard()

    def _find_causes(self, events: list[Event], first: int = 0) -> dict[int, str]:
        """Find the reasons of unusable events, by index. Bisects, because they are rare."""
        try:
            self._stage(events)
        except UnusableEventError as error:
            if len(events) == 1:
                return {first: str(error)}
        else:
            return {}
        finally:
            self._discard()
        half = len(events) // 2
        return self._find_causes(events[:half], first) | self._find_causes(
            events[half:], first + half
        )

    def finish(self) -> None:
        """Finish after the last piece."""
        if self._pairing is not None and (unfinished := self._pairing.count_unfinished()):
            self.unusable["a begin without an end"] += unfinished
        for table in self.tables.values():
            table.finish()

    def _count_skipped(self, events: list[Event]) -> None:
        seen = Counter([event.cat for event in events])
        if seen.pop("", 0):
            seen.update(_PHASES.get(e.ph) or f"phase {e.ph!r}" for e in events if not e.cat)
        self.skipped.update(seen)


def _select_events(events: list[Event], numbers: bytes, number: int) -> tuple[list[Event], bytes]:
    if number not in numbers:
        return [], b""
    selected = np.frombuffer(numbers, np.uint8) == number
    return list(compress(events, selected.tobytes())), np.flatnonzero(selected).astype(
        np.int64
    ).tobytes()


def merge_columns(parts: Sequence[EventColumns], owners: Sequence[int]) -> EventColumns:
    """Merge and consume ``parts``. ``owners`` is the part of each piece, in file order."""
    merged = EventColumns(parts[0].where, exact=parts[0].exact)
    event_counts = [iter(part.events) for part in parts]
    merged.events = [next(event_counts[owner]) for owner in owners]
    merged.skipped = sum((part.skipped for part in parts), Counter())
    merged.unusable = sum((part.unusable for part in parts), Counter())
    first_events = np.fromiter(accumulate(merged.events[:-1], initial=0), np.int64, len(owners))
    pieces = np.argsort(np.array(owners), kind="stable")  # one part after the other
    for name in SCHEMAS:
        merged.tables[name] = _merge_tables([part.tables[name] for part in parts], pieces)
        merged.tables[name].first_events = first_events[pieces]
    return merged


def drop_untimed_work(columns: EventColumns) -> None:
    """Remove the GPU work with start 0, for which the profiler has no time.

    0 is a time only if the other events are close to it. Removed rows count as unusable.
    """
    table = columns.tables["gpu"]
    if not any(table.rows):
        return
    starts = expand_blocks(table.blocks["ts"])
    zeros = starts == 0
    if not zeros.any():
        return
    other_starts = [starts[~zeros]] + [
        expand_blocks(other.blocks["ts"])
        for name, other in columns.tables.items()
        if name != "gpu" and any(other.rows)
    ]
    if (
        min((int(np.abs(ts).min()) for ts in other_starts if len(ts)), default=0)
        < _FAR_FROM_ZERO_NS
    ):
        return
    columns.unusable["GPU work without a start time (0)"] += int(zeros.sum())
    table.keep_rows(~zeros)


def compute_span(tables: Iterable[TableColumns]) -> tuple[int, int]:
    """Compute start and end of all events, in ns. ``tables`` must have rows."""
    starts, ends = [], []
    for table in tables:
        ts = expand_blocks(table.blocks["ts"])
        starts.append(int(ts.min()))
        ts += expand_blocks(table.blocks["dur"])
        ends.append(int(ts.max()))
    return min(starts), max(ends)


def _merge_tables(tables: Sequence[TableColumns], pieces: Ints) -> TableColumns:
    """Merge tables."""
    merged, *others = tables
    merged.whole_microseconds = all(t.whole_microseconds for t in tables if any(t.rows))
    for table in others:
        new_codes = {
            "name": np.frombuffer(merged.names.encode(table.names.values), np.int64),
            **dict.fromkeys(
                _TEXT_COLUMNS, np.frombuffer(merged.texts.encode(table.texts.values), np.int64)
            ),
        }
        for column, blocks in table.blocks.items():
            column_codes = new_codes.get(column)
            merged.blocks[column] += (
                blocks
                if column_codes is None
                else [_remap_codes(block, column_codes) for block in blocks]
            )
        merged.rows += table.rows
    if others:
        merged.file_order = _compute_file_order(np.array(merged.rows, np.int64), pieces)
    return merged


def _remap_codes(block: Block, meanings: Ints) -> Block:
    codes = np.maximum(expand_blocks([block]), -1)  # the last one is for absent values
    return compress_values(np.append(meanings, ABSENT)[codes])


def _compute_file_order(rows: Ints, pieces: Ints) -> Ints:
    starts = np.cumsum(rows) - rows
    order_of_pieces = np.argsort(pieces)
    rows, starts = rows[order_of_pieces], starts[order_of_pieces]
    offsets = np.cumsum(rows) - rows
    order: Ints = np.arange(rows.sum()) + np.repeat(starts - offsets, rows)
    return order


def _fill_gpu(table: TableColumns, events: list[Event], exact: bool) -> None:
    args = [event.args for event in events]
    table.stage_times(events, exact=exact)
    table.stage_column("kind", pack("q", [_KIND_BY_CATEGORY[event.cat] for event in events]))
    # Old traces identify device and stream only by the process and thread of their lanes.
    for column, thread in (("device", "pid"), ("stream", "tid")):
        packed = table.pack_integers(READ_ARGS[column](args), column)
        if (missing := _find_missing(packed)).size:
            fallback = table.pack_integers(READ_EVENT[thread](events), thread)
            packed = _replace_values(packed, missing, np.frombuffer(fallback, np.int64)[missing])
        if column == "device" and np.abs(np.frombuffer(packed, np.int64)).max() > _MAX_DEVICE:
            raise UnusableEventError("a device out of range")
        table.stage_column(column, packed)
    table.stage_arguments(args, "correlation", "shared", "registers", "bytes")
    _add_external_ids(table, args)
    for name, shapes in (("grid", [a.grid for a in args]), ("block", [a.block for a in args])):
        for axis, extent in zip("xyz", _split_extents(shapes, name), strict=True):
            table.stage_column(f"{name}_{axis}", extent.tobytes())
    graph, node = _pack_graph_ids(args)
    table.stage_column("graph_id", graph)
    table.stage_column("graph_node_id", node)


def _fill_runtime(table: TableColumns, events: list[Event], exact: bool) -> None:
    args = [event.args for event in events]
    table.stage_times(events, exact=exact)
    table.stage_threads(events)
    table.stage_arguments(args, "correlation")
    _add_external_ids(table, args)


def _fill_ops(table: TableColumns, events: list[Event], exact: bool) -> None:
    args = [event.args for event in events]
    table.stage_times(events, exact=exact)
    table.stage_threads(events)
    table.stage_arguments(args, "sequence", "forward_tid")
    _add_external_ids(table, args)
    dims = table.encode_raw_values([arg.input_dims for arg in args])
    if (missing := _find_missing(dims)).size:
        older = table.encode_raw_values([args[row].old_input_dims for row in missing.tolist()])
        dims = _replace_values(dims, missing, np.frombuffer(older, np.int64))
    table.stage_column("input_dims", dims)
    table.stage_column("input_types", table.encode_raw_values([arg.input_types for arg in args]))
    table.stage_column(
        "input_strides", table.encode_raw_values([arg.input_strides for arg in args])
    )
    table.stage_column("input_values", table.encode_raw_values([arg.input_values for arg in args]))


def _fill_annotations(table: TableColumns, events: list[Event], exact: bool) -> None:
    table.stage_times(events, exact=exact)
    table.stage_threads(events)


def _fill_python(table: TableColumns, events: list[Event], exact: bool) -> None:
    table.stage_times(events, exact=exact)
    table.stage_threads(events)
    table.stage_arguments([event.args for event in events], "python_id", "python_parent_id")


_FILL: Final = {
    "gpu": _fill_gpu,
    "runtime": _fill_runtime,
    "ops": _fill_ops,
    "annotations": _fill_annotations,
    "python": _fill_python,
}


def _add_external_ids(table: TableColumns, args: Sequence[Args]) -> None:
    """Add the External id, or its name in older versions of torch."""
    packed = table.pack_integers(READ_ARGS["external_id"](args), "external_id")
    if (missing := _find_missing(packed)).size:
        older = READ_ARGS["old_external_id"]([args[row] for row in missing.tolist()])
        older_packed = table.pack_integers(older, "external_id")
        packed = _replace_values(packed, missing, np.frombuffer(older_packed, np.int64))
    table.stage_column("external_id", packed)


def _find_missing(packed: bytes) -> Ints:
    return np.flatnonzero(np.frombuffer(packed, np.int64) == ABSENT)


def _replace_values(packed: bytes, indices: Ints, values: Ints) -> bytes:
    numbers = np.frombuffer(packed, np.int64).copy()
    numbers[indices] = values
    return numbers.tobytes()


def _split_extents(
    shapes: Sequence[tuple[int, int, int] | str | None], attribute: str
) -> list[Ints]:
    extents = [_NO_SHAPE if isinstance(shape, str) else shape or _NO_SHAPE for shape in shapes]
    try:
        flat = pack("q", list(chain.from_iterable(extents)))
    except struct.error as error:
        raise UnusableEventError(f"a {attribute} out of range") from error
    return list(np.frombuffer(flat, np.int64).reshape(-1, 3).T)


def _pack_graph_ids(args: Sequence[Args]) -> tuple[bytes, bytes]:
    """Pack graph and node ids as the bits of unsigned numbers, with ABSENT for missing ones.

    Kineto writes 0 outside graphs, and a node as its number or as ``graph id << 32 number``.
    """
    graphs, nodes = [arg.graph_id for arg in args], [arg.graph_node_id for arg in args]
    if not any(graphs) and not any(nodes):
        absent = ABSENT_BYTES * len(args)
        return absent, absent
    try:
        graph = np.frombuffer(pack("Q", graphs), np.uint64)
        node = np.frombuffer(pack("Q", nodes), np.uint64)
    except struct.error as error:
        raise UnusableEventError("a graph id out of range") from error
    graph = np.where(graph == 0, node >> np.uint64(32), graph)
    is_outside = (graph == 0) & (node == 0)
    number = (node & np.uint64(0xFFFF_FFFF)).astype(np.int64)
    number[is_outside] = ABSENT
    graph_ids = graph.view(np.int64).copy()
    graph_ids[graph == 0] = ABSENT
    return graph_ids.tobytes(), number.tobytes()
