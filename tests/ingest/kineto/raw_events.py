"""Single events of a trace's file, with all arguments, found by the offsets of the trace."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any, NamedTuple

import polars as pl

from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.kineto.json_stream import iter_element_spans
from graphviz_dash.ingest.limits import DEFAULT_LIMITS
from graphviz_dash.model.trace import Trace


class RawEvent(NamedTuple):
    """An entry of traceEvents."""

    index: int
    start: int
    """First byte in the decompressed document."""
    end: int
    """Byte after the last one."""
    text: bytes
    fields: dict[str, Any]


def read_raw_event(trace: Trace, table: str, row: int) -> RawEvent:
    """Read the event of a row of ``table`` (gpu, runtime, ops, annotations or python)."""
    offsets = trace.offsets
    assert offsets is not None
    index = int(offsets.rows[table][row])
    piece_info = offsets.pieces.filter(pl.col("first") <= index).row(-1, named=True)
    with ByteStream(offsets.path, DEFAULT_LIMITS, replaces_nul=True) as stream:
        stream.skip(piece_info["start"])
        piece = stream.read(piece_info["end"] - piece_info["start"])
    start, end = next(islice(iter_element_spans(piece), index - piece_info["first"], None))
    fields = json.loads(piece[start:end].decode("utf-8", "replace"), strict=False)
    begin = piece_info["start"]
    return RawEvent(index, begin + start, begin + end, piece[start:end], fields)
