"""Reader of allocator snapshots from ``torch.cuda.memory._dump_snapshot`` (a pickle, read as plain
data) or JSON.

Source of the fields: pytorch/pytorch ``torch/cuda/memory.py`` (``_snapshot``, ``TraceEntry``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.formats.snapshot_blocks import Segment, sum_live_memory
from graphviz_dash.ingest.formats.text import read_json
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.model.graph import Count
from graphviz_dash.model.memory import DEFAULT_POOL, PoolId
from graphviz_dash.model.run import MemoryUse, PoolUse

EXPECTED_SNAPSHOT: Final = "a snapshot from torch.cuda.memory._dump_snapshot"
"""Description of the expected file in errors."""
_EVENT_BYTES: Final = 100
_ALLOCATED: Final = {"alloc": 1, "free_completed": -1}
_RESERVED: Final = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


class _Event(msgspec.Struct, gc=False):
    action: str
    size: Count = 0


class _Snapshot(msgspec.Struct):
    segments: list[Segment]
    device_traces: list[list[_Event]] = []


def read_memory_snapshot(path: Path, limits: Limits = DEFAULT_LIMITS) -> MemoryUse:
    """Read the snapshot in the JSON file at ``path``.

    Raises:
        InputError: As in :func:`convert_memory_use`, or not JSON.
    """
    # Before torch 2.0, a snapshot is a list of segments.
    value = read_json(path, limits, _Snapshot | list[Segment], EXPECTED_SNAPSHOT)  # type: ignore[arg-type]
    return _build_memory_use(_Snapshot(value) if isinstance(value, list) else value)


def convert_memory_use(value: Any, path: Path, limits: Limits = DEFAULT_LIMITS) -> MemoryUse:
    """Convert ``value``, read from ``path``, to current bytes by pool and peaks.

    Peaks come from the recorded history. None without a history, or with several devices.

    Raises:
        InputError: A missing field or one of another type, or more than ``limits`` allow.
    """
    if isinstance(value, list):  # torch before 2.0: segments only
        value = {"segments": value}
    check_snapshot_size(value, path, limits)
    try:
        snapshot = msgspec.convert(value, _Snapshot)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InputError(path, str(error), EXPECTED_SNAPSHOT) from error
    return _build_memory_use(snapshot)


def _build_memory_use(snapshot: _Snapshot) -> MemoryUse:
    allocated = sum(segment.allocated_size for segment in snapshot.segments)
    reserved = sum(segment.total_size for segment in snapshot.segments)
    # Several devices have separate histories, with peaks at different times.
    recorded = [trace for trace in snapshot.device_traces if trace]
    history = recorded[0][::-1] if len(recorded) == 1 else []
    return MemoryUse(
        peak_allocated_bytes=_compute_peak(allocated, history, _ALLOCATED),
        peak_reserved_bytes=_compute_peak(reserved, history, _RESERVED),
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        pools=tuple(_iter_pools(snapshot.segments)),
        live=sum_live_memory(snapshot.segments)
        if any(segment.blocks for segment in snapshot.segments)
        else None,
    )


def check_snapshot_size(value: Any, path: Path, limits: Limits) -> None:
    """Check the size of an untyped snapshot before copying, because a pickle can reference one
    list a million times."""
    if not isinstance(value, dict):
        raise InputError(path, f"a {type(value).__name__}", EXPECTED_SNAPSHOT)
    traces = value.get("device_traces")
    parts = [value.get("segments"), *(traces if isinstance(traces, list) else [])]
    count = sum(len(part) for part in parts if isinstance(part, list | tuple))
    _check_count(count, path, limits)
    for blocks in _iter_lists(value.get("segments"), "blocks"):
        count += len(blocks)
        _check_count(count, path, limits)
        count += sum(map(len, _iter_lists(blocks, "frames")))
        for history in _iter_lists(blocks, "history"):
            count += len(history) + sum(map(len, _iter_lists(history, "frames")))
            _check_count(count, path, limits)
    _check_count(count, path, limits)


def _check_count(count: int, path: Path, limits: Limits) -> None:
    if count > limits.events:
        raise limits.build_error(path, "events", f"{count:,} segments, blocks and events")
    if count * _EVENT_BYTES > limits.memory_bytes:
        raise limits.build_error(path, "memory_bytes", f"{count:,} segments, blocks and events")


def _iter_lists(values: Any, name: str) -> Iterator[list[Any] | tuple[Any, ...]]:
    """The lists in a field of untyped dictionaries."""
    for value in values if isinstance(values, list | tuple) else ():
        inner = value.get(name) if isinstance(value, dict) else None
        if isinstance(inner, list | tuple):
            yield inner


def _compute_peak(now: int, latest_first: list[_Event], signs: dict[str, int]) -> int | None:
    """Compute the maximum of the recorded history, walking back from ``now``. None without a
    history. A history of other changes only shows that the size never changed."""
    if not any(event.action in _ALLOCATED or event.action in _RESERVED for event in latest_first):
        return None
    changes = [signs[event.action] * event.size for event in latest_first if event.action in signs]
    highest = now
    for change in changes:
        now -= change
        highest = max(highest, now)
    return highest


def _iter_pools(segments: list[Segment]) -> Iterator[PoolUse]:
    by_pool: dict[PoolId, list[Segment]] = {}
    for segment in segments:
        by_pool.setdefault(segment.segment_pool_id, []).append(segment)
    for pool, pool_segments in sorted(by_pool.items()):
        if pool != DEFAULT_POOL:
            yield PoolUse(
                id=pool,
                segments=len(pool_segments),
                reserved_bytes=sum(segment.total_size for segment in pool_segments),
                allocated_bytes=sum(segment.allocated_size for segment in pool_segments),
            )
