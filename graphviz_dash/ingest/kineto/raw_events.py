"""One event of a trace as its file holds it, with every argument: read there when it is asked for.

Tables keep the arguments that figures are made of. The others cost no memory and no time until
somebody looks at an event.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import polars as pl
from msgspec import Struct

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.kineto.json_stream import element_spans
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.model.trace import Trace


class RawEvent(Struct, frozen=True):
    """An entry of traceEvents."""

    index: int
    """Its index there."""
    start: int
    """Its first byte in the document, decompressed."""
    end: int
    """The byte behind its last one."""
    text: bytes
    """These bytes."""
    fields: dict[str, Any]
    """What they say."""


def raw_event(trace: Trace, table: str, row: int, limits: Limits = DEFAULT_LIMITS) -> RawEvent:
    """The event behind row ``row`` of ``table`` (gpu, runtime, ops, annotations or python).

    A plain file is read at that place only; a compressed one is decompressed up to it.

    Raises:
        InputError: a trace without a file, one whose file is gone or was changed since.
        KeyError: no such table.
        IndexError: no such row.
    """
    offsets = trace.offsets
    if offsets is None:
        raise InputError(trace.info.source, "a trace that no file holds", "a trace from a file")
    index = int(offsets.rows[table][row])
    before = offsets.pieces.filter(pl.col("first") <= index).row(-1, named=True)
    with ByteStream(offsets.path, limits) as stream:
        stream.skip(before["start"])
        piece = stream.read(before["end"] - before["start"])
    spans = islice(element_spans(piece), index - before["first"], None)
    start, end = next(spans, (0, 0))
    text = piece[start:end]
    fields = json.loads(text.decode("utf-8", "replace"), strict=False) if text else None
    name = getattr(trace, table)["name"].cast(pl.String)[row]
    if not isinstance(fields, dict) or str(fields.get("name", "")) != name:
        advice = "The file was changed after the trace was read: load it anew."
        raise InputError(offsets.path, f"another event than {name[:80]!r}", "the trace", advice)
    return RawEvent(index, before["start"] + start, before["start"] + end, text, fields)
