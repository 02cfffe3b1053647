"""Reader of a Kineto trace's fields about machine and rank, before and after its events."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits

_PART_BYTES: Final = 1 << 20
_FIELD_NAMES: Final = ("deviceProperties", "distributedInfo")
_FIELD: Final = re.compile(rf'"({"|".join(_FIELD_NAMES)})"\s*:\s*')
_DECODER: Final = json.JSONDecoder(strict=False)
_MAX_COUNT: Final = (1 << 63) - 1


class Device(msgspec.Struct, frozen=True):
    """An entry of deviceProperties. None for missing values."""

    name: str | None
    compute_capability: tuple[int, int] | None
    """Major and minor version."""
    memory_bytes: int | None
    """Total device memory in bytes."""
    multiprocessors: int | None


class Rank(msgspec.Struct, frozen=True):
    """Rank of the process, from distributedInfo."""

    rank: int
    world_size: int
    nccl: str | None
    """Version of NCCL. None if unknown."""


class TraceHead(msgspec.Struct, frozen=True):
    """Machine and rank of a trace."""

    devices: tuple[Device, ...]
    rank: Rank | None
    """None for a single process."""


def read_head(path: Path, limits: Limits = DEFAULT_LIMITS) -> TraceHead:
    """Read devices and rank of the trace at ``path``.

    Old Kineto writes fields after the events. Ignores values of an unexpected type.

    Raises:
        InputError: The file is unreadable.
    """
    with ByteStream(path, limits, replaces_nul=True) as stream:
        head = stream.read(_PART_BYTES)
        fields = _parse_fields(head.partition(b'"traceEvents"')[0])
        if len(fields) < len(_FIELD_NAMES):
            with suppress(InputError):  # truncated or damaged: fields after the events are lost
                fields = _parse_fields(_read_tail(stream, head)) | fields
    devices = fields.get("deviceProperties")
    listed = devices if isinstance(devices, list) else []
    return TraceHead(
        tuple(_build_device(device) for device in listed if isinstance(device, dict)),
        _build_rank(fields.get("distributedInfo")),
    )


def _read_tail(stream: ByteStream, head: bytes) -> bytes:
    current, previous = head, b""
    while part := stream.read(_PART_BYTES):
        current, previous = part, current
    return (previous + current)[-_PART_BYTES:]


def _parse_fields(part: bytes) -> dict[str, Any]:
    text = part.decode("utf-8", "replace")
    fields: dict[str, Any] = {}
    for field in _FIELD.finditer(text):
        try:
            fields[field[1]], _ = _DECODER.raw_decode(text, field.end())
        except (ValueError, RecursionError):
            continue
    return fields


def _build_device(fields: dict[str, Any]) -> Device:
    major, minor = (
        _check_count(fields.get("computeMajor")),
        _check_count(fields.get("computeMinor")),
    )
    name = fields.get("name")
    return Device(
        name[:200] if isinstance(name, str) and name else None,
        None if major is None or minor is None else (major, minor),
        _check_count(fields.get("totalGlobalMem")),
        _check_count(fields.get("numSms")),
    )


def _build_rank(fields: object) -> Rank | None:
    if not isinstance(fields, dict):
        return None
    rank, world = _check_count(fields.get("rank")), _check_count(fields.get("world_size"))
    if rank is None or world is None or world < 2 or rank >= world:
        return None
    version = fields.get("nccl_version")
    return Rank(rank, world, version[:40] if isinstance(version, str) else None)


def _check_count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_COUNT
    return value if is_count and isinstance(value, int) else None
