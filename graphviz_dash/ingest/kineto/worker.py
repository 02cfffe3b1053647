"""Worker process that converts pieces of a trace to columns, started by ``workers.py``.

``python -m graphviz_dash.ingest.kineto.worker FD SLOT_BYTES SLOTS EXACT``: FD is a shared memory
file with SLOTS pieces of at most SLOT_BYTES. stdin receives :data:`ORDER` messages with slot and
length of a piece, each answered on stdout by :data:`REPLY`. Slot -1 ends the work: the columns are
written to the file after the slots, and their description (:class:`Result` in MessagePack, after
its length) to stdout.
"""

from __future__ import annotations

import gc
import mmap
import os
import struct
import sys
from typing import BinaryIO, Final

import msgspec

from graphviz_dash.ingest.kineto.begin_end import SplitSlicesError
from graphviz_dash.ingest.kineto.columns import EventColumns
from graphviz_dash.ingest.kineto.events import EventDecoder
from graphviz_dash.ingest.kineto.table_columns import NeedsExactTimesError

ORDER: Final = struct.Struct("=iq")
REPLY: Final = struct.Struct("=iq")
"""TAKEN, DECLINED or INEXACT, and the number of events in the piece."""

ADDED, DECLINED, INEXACT = range(3)
"""The piece was added; it is invalid; its times require decimals."""

LENGTH: Final = struct.Struct("=q")


class BlockResult(msgspec.Struct, array_like=True):
    """A :class:`Block` in the shared memory file."""

    rows: int
    base: int
    """Lower bound of the values."""
    width: int
    """Bytes per row. 0 if all values equal ``base``."""
    gaps: bool
    """True if 0 represents ABSENT."""
    offset: int
    """Start of its bytes, relative to the end of the slots."""


class TableResult(msgspec.Struct):
    """A table."""

    rows: list[int]
    columns: dict[str, list[BlockResult]]
    names: list[str]
    texts: list[bytes]
    whole_microseconds: bool


class Result(msgspec.Struct):
    """Tables and counters of a worker."""

    tables: dict[str, TableResult]
    events: list[int]
    """traceEvents per piece."""
    skipped: dict[str, int]
    """Events without a table, by category."""
    unusable: dict[str, int]
    """Omitted events, by problem."""
    unreadable: dict[str, int]
    """Invalid arguments, by name."""


def main() -> None:
    """Process orders until stdin ends or the order to finish arrives."""
    gc.disable()  # events are freed when processed and have no cycles
    fd, slot_bytes, slots, exact = map(int, sys.argv[1:])
    orders, output = sys.stdin.buffer, sys.stdout.buffer
    decoder = EventDecoder()
    decoder.exact = bool(exact)
    columns = EventColumns("the trace", exact=bool(exact), is_partial=True)
    with mmap.mmap(fd, slot_bytes * slots) as memory:
        while len(order := orders.read(ORDER.size)) == ORDER.size:
            slot, length = ORDER.unpack(order)
            if slot < 0:
                _write_result(columns, decoder, fd, slot_bytes * slots, output)
                return
            start = slot * slot_bytes
            piece = memory[start : start + length]
            output.write(REPLY.pack(*_add_piece(columns, decoder, piece)))
            output.flush()


def _add_piece(columns: EventColumns, decoder: EventDecoder, piece: bytes) -> tuple[int, int]:
    events = decoder.decode_unchecked(piece)
    if events is None:
        return DECLINED, 0
    try:
        columns.add(events)
    except NeedsExactTimesError:
        return INEXACT, 0
    except SplitSlicesError:
        return DECLINED, 0
    return ADDED, len(events)


def _write_result(
    columns: EventColumns, decoder: EventDecoder, fd: int, start: int, output: BinaryIO
) -> None:
    columns.finish()
    tables = {}
    position = start
    for name, table in columns.tables.items():
        block_results: dict[str, list[BlockResult]] = {}
        for column in sorted(table.blocks):
            block_results[column] = []
            for rows, base, offsets, gaps in table.blocks.pop(column):
                width = 0 if offsets is None else offsets.itemsize
                block_results[column].append(BlockResult(rows, base, width, gaps, position - start))
                if offsets is not None:
                    _write_fully(fd, offsets.data.cast("B"), position)
                    position += -(-offsets.nbytes // 8) * 8
        tables[name] = TableResult(
            table.rows,
            block_results,
            table.names.values,
            table.texts.values,
            table.whole_microseconds,
        )
    result = Result(
        tables,
        columns.events,
        skipped=columns.skipped,
        unusable=columns.unusable + decoder.unusable,
        unreadable=decoder.unreadable,
    )
    data = msgspec.msgpack.encode(result)
    output.write(LENGTH.pack(len(data)) + data)
    output.flush()


def _write_fully(fd: int, data: memoryview, position: int) -> None:
    written = 0
    while written < len(data):
        written += os.pwrite(fd, data[written:], position + written)


if __name__ == "__main__":
    main()
