"""Reader of torch.compile's structured trace, written by TORCH_TRACE and read by tlparse.

A record is a line of log prefix and JSON, followed by its payload's lines, each after a tab.
Unknown records and fields are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from graphviz_dash.bundle.compile_log import STRUCTURED_SOURCE, CompileLog
from graphviz_dash.bundle.compile_stacks import strip_folders
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.limits import Limits
from graphviz_dash.model.compilation import Compilation, CompilationFact, FactSource

HEAD_PATTERN: Final = re.compile(rb"[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ \S+\] \{\"")

_RECORD: Final = re.compile(r"[VDIWEC]\d{4} [\d:.]+ \d+ \S+\] (?P<json>\{.*)$")
_EXPECTED: Final = "the records of a TORCH_TRACE log"
_MAX_PAYLOAD_BYTES: Final = 4 << 20
_AVAILABLE_FACTS: Final = (
    CompilationFact.FRAMES,
    CompilationFact.BREAKS,
    CompilationFact.RECOMPILES,
    CompilationFact.GRAPHS,
    CompilationFact.SKIPS,
)
_UNAVAILABLE_REASON: Final = "not in TORCH_TRACE logs; use graphviz-dash collect -- python ..."


def read_torch_trace(path: Path, limits: Limits) -> Compilation:
    """Read the log at ``path``, a truncated one up to its last record.

    Raises:
        InputError: No record, or more than the limits allow.
    """
    log = CompileLog(strip_folders)
    count = 0
    for metadata, payload in _iter_records(path, limits):
        count += 1
        if count > limits.events:
            raise limits.build_error(path, "events", "more records")
        log.record(metadata, payload)
    if not count:
        raise InputError(path, "no record", _EXPECTED)
    return Compilation(
        torch=log.torch,
        sources=tuple(
            FactSource(fact, STRUCTURED_SOURCE)
            if fact in _AVAILABLE_FACTS
            else FactSource(fact, None, _UNAVAILABLE_REASON)
            for fact in CompilationFact
        ),
        frames=tuple(log.frames.values()),
        breaks=tuple(log.breaks),
        recompiles=tuple(log.recompiles),
        graphs=tuple(log.graphs.values()),
        skips=tuple(log.skips),
    )


def _iter_records(path: Path, limits: Limits) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield JSON and payload, truncated to 4 MiB, of each record."""
    metadata: dict[str, Any] | None = None
    payload: list[str] = []
    size = 0
    for line in _iter_lines(path, limits):
        if line.startswith("\t"):
            size += len(line)
            if size <= _MAX_PAYLOAD_BYTES:
                payload.append(line[1:])
            continue
        if metadata is not None:
            yield metadata, "\n".join(payload)
        record = _RECORD.match(line)
        metadata, payload, size = _parse_json(record["json"]) if record else None, [], 0
    if metadata is not None:
        yield metadata, "\n".join(payload)


def _parse_json(text: str) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _iter_lines(path: Path, limits: Limits) -> Iterator[str]:
    # Pieces of the last line, which may span many reads.
    pieces: list[bytes] = []
    size = 0
    with ByteStream(path, limits) as stream:
        while data := stream.read():
            first, *others = data.split(b"\n")
            pieces.append(first)
            size += len(first)
            if others:
                yield b"".join(pieces).decode("utf-8", "replace")
                yield from (line.decode("utf-8", "replace") for line in others[:-1])
                pieces, size = [others[-1]], len(others[-1])
            if size > limits.event_bytes:
                raise limits.build_error(path, "event_bytes", "a longer line")
    if size:
        yield b"".join(pieces).decode("utf-8", "replace")
