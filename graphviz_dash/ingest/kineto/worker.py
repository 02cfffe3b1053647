"""The process that turns pieces of a trace into columns; ``workers.py`` starts it and speaks to it.

``python -m graphviz_dash.ingest.kineto.worker FD SLOT_BYTES SLOTS EXACT``: FD is a file of memory
that both sides have mapped, with SLOTS pieces of at most SLOT_BYTES. On stdin come :data:`ORDER`, a
slot and the length of the piece in it, each answered on stdout by :data:`ANSWER`; an order for slot
-1 ends the work: the columns are written into the file behind the slots, and what describes them
(:class:`Result`, in MessagePack, its length before it) to stdout.
"""

from __future__ import annotations

import gc
import mmap
import os
import struct
import sys
from typing import BinaryIO, Final

import msgspec

from graphviz_dash.ingest.kineto.columns import EventColumns
from graphviz_dash.ingest.kineto.events import EventDecoder
from graphviz_dash.ingest.kineto.table_columns import NeedsExactTimesError

ORDER: Final = struct.Struct("=iq")
ANSWER: Final = struct.Struct("=iq")
"""One of TAKEN, DECLINED and INEXACT; and the events of the piece."""

TAKEN, DECLINED, INEXACT = range(3)
"""The piece is in the columns; it is not what a piece should be; its times need decimals."""

LENGTH: Final = struct.Struct("=q")


class BlockResult(msgspec.Struct, array_like=True):
    """A :class:`Block` in the file of memory."""

    rows: int
    """Numbers in the block."""
    base: int
    """What all are above."""
    width: int
    """Bytes of each row; 0: none, all are ``base``."""
    gaps: bool
    """Whether a 0 stands for ABSENT."""
    offset: int
    """Where its bytes begin, from the end of the slots."""


class TableResult(msgspec.Struct):
    """A table."""

    rows: list[int]
    """Rows of each piece."""
    columns: dict[str, list[BlockResult]]
    """The blocks of each column."""
    names: list[str]
    """What the codes of names stand for."""
    texts: list[bytes]
    """What the codes of arguments stand for, as JSON."""
    whole_microseconds: bool
    """Whether every time was written as an integer."""


class Result(msgspec.Struct):
    """All of a worker's tables, and what it counted."""

    tables: dict[str, TableResult]
    """By the names of SCHEMAS."""
    events: list[int]
    """Entries of traceEvents in each piece."""
    skipped: dict[str, int]
    """Events that no table holds, by category."""
    unusable: dict[str, int]
    """Events that are left out, by what is the matter."""
    unreadable: dict[str, int]
    """Arguments whose value is of no use, by name."""


def main() -> None:
    """Works until stdin ends or the order to finish comes."""
    gc.disable()  # events are freed as they are done with and have no cycles
    fd, slot_bytes, slots, exact = map(int, sys.argv[1:])
    orders, answers = sys.stdin.buffer, sys.stdout.buffer
    decoder = EventDecoder()
    decoder.exact = bool(exact)
    columns = EventColumns("the trace", exact=bool(exact))
    with mmap.mmap(fd, slot_bytes * slots) as memory:
        while len(order := orders.read(ORDER.size)) == ORDER.size:
            slot, length = ORDER.unpack(order)
            if slot < 0:
                _finish(columns, decoder, fd, slot_bytes * slots, answers)
                return
            begin = slot * slot_bytes
            piece = memory[begin : begin + length]
            answers.write(ANSWER.pack(*_taken(columns, decoder, piece)))
            answers.flush()


def _taken(columns: EventColumns, decoder: EventDecoder, piece: bytes) -> tuple[int, int]:
    events = decoder.unchecked(piece)
    if events is None:
        return DECLINED, 0
    try:
        columns.add(events)
    except NeedsExactTimesError:
        return INEXACT, 0
    return TAKEN, len(events)


def _finish(
    columns: EventColumns, decoder: EventDecoder, fd: int, begin: int, answers: BinaryIO
) -> None:
    columns.settle()
    tables = {}
    at = begin
    for name, table in columns.tables.items():
        block_results: dict[str, list[BlockResult]] = {}
        for column in sorted(table.blocks):
            block_results[column] = []
            for rows, base, above, gaps in table.blocks.pop(column):
                width = 0 if above is None else above.itemsize
                block_results[column].append(BlockResult(rows, base, width, gaps, at - begin))
                if above is not None:
                    _write(fd, above.data.cast("B"), at)
                    at += -(-above.nbytes // 8) * 8
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
    answers.write(LENGTH.pack(len(data)) + data)
    answers.flush()


def _write(fd: int, data: memoryview, at: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], at + done)


if __name__ == "__main__":
    main()
