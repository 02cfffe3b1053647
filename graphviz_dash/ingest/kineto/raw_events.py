"""Reader of single events from the trace's file, with all arguments."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import polars as pl
from msgspec import Struct

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.kineto.json_stream import iter_element_spans
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.model.trace import Trace


class RawEvent(Struct, frozen=True):
    """An entry of traceEvents."""

    index: int
    start: int
    """First byte in the decompressed document."""
    end: int
    """Byte after the last one."""
    text: bytes
    fields: dict[str, Any]


def read_raw_event(trace: Trace, table: str, row: int, limits: Limits = DEFAULT_LIMITS) -> RawEvent:
    """Read the event of a row of ``table`` (gpu, runtime, ops, annotations or python).

    A compressed file is decompressed up to it.

    Raises:
        InputError: The trace has no file, or the file is missing or has changed.
        KeyError: Unknown table.
        IndexError: Row out of range.
    """
    offsets = trace.offsets
    if offsets is None:
        raise InputError(trace.info.source, "a trace without a file", "a trace from a file")
    index = int(offsets.rows[table][row])
    piece_info = offsets.pieces.filter(pl.col("first") <= index).row(-1, named=True)
    with ByteStream(offsets.path, limits, replaces_nul=True) as stream:
        stream.skip(piece_info["start"])
        piece = stream.read(piece_info["end"] - piece_info["start"])
    spans = islice(iter_element_spans(piece), index - piece_info["first"], None)
    start, end = next(spans, (0, 0))
    text = piece[start:end]
    fields = json.loads(text.decode("utf-8", "replace"), strict=False) if text else None
    name = getattr(trace, table)["name"].cast(pl.String)[row]
    if not isinstance(fields, dict) or str(fields.get("name", "")) != name:
        advice = "The file was changed after the trace was read. Load it again."
        raise InputError(offsets.path, f"an event other than {name[:80]!r}", "the trace", advice)
    return RawEvent(index, piece_info["start"] + start, piece_info["start"] + end, text, fields)
