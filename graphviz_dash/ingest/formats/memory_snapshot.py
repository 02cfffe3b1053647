"""Reader of allocator snapshots from ``torch.cuda.memory._dump_snapshot`` (a pickle, read as plain
data) or JSON.

Source: pytorch/pytorch ``torch/cuda/memory.py`` (``_snapshot``, ``TraceEntry``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.formats.text import read_json
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.model.graph import Count
from graphviz_dash.model.memory import DEFAULT_POOL, PoolId
from graphviz_dash.model.run import LiveMemory, MemoryShare, MemoryUse, PoolUse

EXPECTED_SNAPSHOT: Final = "a snapshot from torch.cuda.memory._dump_snapshot"
"""Description of the expected file in errors."""
_EVENT_BYTES: Final = 100
_ALLOCATED: Final = {"alloc": 1, "free_completed": -1}
_RESERVED: Final = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
_MIN_EVENTS: Final = 2
"""Minimum length of a history. Torch 2.0 keeps only the last event by default."""


class _Event(msgspec.Struct, gc=False):
    action: str
    size: Count = 0
    time_us: int = 0


class _Snapshot(msgspec.Struct):
    segments: list[Segment]
    device_traces: list[list[_Event]] = []


def read_memory_snapshot(path: Path, limits: Limits = DEFAULT_LIMITS) -> MemoryUse:
    """Read a JSON snapshot.

    Raises:
        InputError: As in :func:`convert_memory_use`, or not JSON.
    """
    # Before torch 2.0, a snapshot is a list of segments.
    value = read_json(path, limits, _Snapshot | list[Segment], EXPECTED_SNAPSHOT)  # type: ignore[arg-type]
    return _build_memory_use(_Snapshot(value) if isinstance(value, list) else value)


def convert_memory_use(value: Any, path: Path, limits: Limits = DEFAULT_LIMITS) -> MemoryUse:
    """Convert ``value``, read from ``path``, to current bytes by pool and peaks.

    Peaks come from the recorded history. None without a history, or if those of several devices
    have no times.

    Raises:
        InputError: An invalid field, or more than ``limits`` allow.
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
    history = _merge_histories(snapshot.device_traces)
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


def _merge_histories(traces: Sequence[list[_Event]]) -> list[_Event]:
    """Merge the events of all devices, latest first.

    Without times, the order of events of several devices is unknown, and none are returned.
    """
    recorded = [trace[::-1] for trace in traces if len(trace) >= _MIN_EVENTS]
    if len(recorded) > 1 and not all(event.time_us for trace in recorded for event in trace):
        return []
    return list(merge(*recorded, key=lambda event: -event.time_us))


def check_snapshot_size(value: Any, path: Path, limits: Limits) -> None:
    """Check the size before copying, because a pickle can reference one list a million times."""
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
    for value in values if isinstance(values, list | tuple) else ():
        inner = value.get(name) if isinstance(value, dict) else None
        if isinstance(inner, list | tuple):
            yield inner


def _compute_peak(now: int, latest_first: list[_Event], signs: dict[str, int]) -> int | None:
    """Compute the maximum of the history, walking back from ``now``. None without a history; one of
    other changes shows that the size never changed."""
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


MAX_LINES: Final = 500
"""Maximum number of lines; the rest is one row."""
_LIVE: Final = "active"
"""Prefix of the states of live blocks, including those waiting for a stream."""
_LIBRARY: Final = "/torch/"
_UNITS: Final = (("GiB", "MiB", 30), ("MiB", "KiB", 20), ("KiB", "B", 10))
"""Unit, the next smaller one, and the binary logarithm of the unit in bytes."""


class Frame(Struct, gc=False):
    """Frame of an allocation."""

    filename: str = ""
    line: int = 0
    name: str = ""


class _BlockHistory(Struct, gc=False):
    frames: list[Frame] = []


class Block(Struct, gc=False):
    """Block of a segment."""

    size: Count
    state: str
    frames: list[Frame] = []
    history: list[_BlockHistory] = []
    """Allocations of the block, latest first, in torch before 2.1."""


class Segment(Struct, gc=False):
    """Segment of a snapshot."""

    total_size: Count
    allocated_size: Count
    device: int = 0
    stream: int = 0
    segment_pool_id: PoolId = DEFAULT_POOL
    blocks: list[Block] = []


def sum_live_memory(segments: Sequence[Segment]) -> LiveMemory:
    """Sum the live blocks of a snapshot in four ways."""
    has_gpus = len({segment.device for segment in segments}) > 1

    def locate(segment: Segment, label: str) -> str:
        return f"GPU {segment.device}, {label}" if has_gpus else label

    return LiveMemory(
        streams=_sum_segments(segments, lambda item: locate(item, f"stream {item.stream}")),
        pools=_sum_segments(segments, lambda item: locate(item, _name_pool(item))),
        sizes=_sum_blocks(segments, lambda block: _name_size(block.size)),
        lines=_limit_lines(_sum_blocks(segments, _name_line)),
    )


def _sum_segments(
    segments: Iterable[Segment], name: Callable[[Segment], str]
) -> tuple[MemoryShare, ...]:
    groups: defaultdict[str, list[Segment]] = defaultdict(list)
    for segment in segments:
        groups[name(segment)].append(segment)
    return _sort_shares(
        MemoryShare(
            label,
            sum(1 for _ in _iter_live(members)),
            sum(block.size for block in _iter_live(members)),
            sum(segment.total_size for segment in members),
        )
        for label, members in groups.items()
    )


def _sum_blocks(
    segments: Iterable[Segment], name: Callable[[Block], str]
) -> tuple[MemoryShare, ...]:
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for block in _iter_live(segments):
        groups[name(block)].append(block.size)
    return _sort_shares(
        MemoryShare(label, len(sizes), sum(sizes)) for label, sizes in groups.items()
    )


def _iter_live(segments: Iterable[Segment]) -> Iterator[Block]:
    for segment in segments:
        yield from (block for block in segment.blocks if block.state.startswith(_LIVE))


def _sort_shares(shares: Iterable[MemoryShare]) -> tuple[MemoryShare, ...]:
    return tuple(sorted(shares, key=lambda share: (-share.live_bytes, share.label)))


def _limit_lines(lines: tuple[MemoryShare, ...]) -> tuple[MemoryShare, ...]:
    rest = lines[MAX_LINES:]
    if not rest:
        return lines
    blocks, size = sum(share.blocks for share in rest), sum(share.live_bytes for share in rest)
    return (*lines[:MAX_LINES], MemoryShare(f"{len(rest):,} other lines", blocks, size))


def _name_pool(segment: Segment) -> str:
    if segment.segment_pool_id == DEFAULT_POOL:
        return "default pool"
    return "pool {}-{}".format(*segment.segment_pool_id)


def _name_size(size: int) -> str:
    """Name a range of sizes, such as ``1 to 2 MiB``."""
    upper = 1 << max(size - 1, 0).bit_length()
    if upper <= 1024:
        return "up to 1 KiB"
    unit, smaller, scale = next(row for row in _UNITS if upper >= 1 << row[2])
    high = upper >> scale
    return f"512 {smaller} to 1 {unit}" if high == 1 else f"{high // 2} to {high} {unit}"


def _name_line(block: Block) -> str:
    """Name the innermost Python frame outside torch, or else the innermost one."""
    frames = block.frames or (block.history[0].frames if block.history else [])
    paths = [(frame.filename.replace("\\", "/"), frame) for frame in frames]
    python = [(path, frame) for path, frame in paths if path.endswith(".py")]
    program = [(path, frame) for path, frame in python if _LIBRARY not in path]
    for path, frame in (*program, *python):
        return f"{path.rpartition('/')[2]}:{frame.line} {frame.name}"
    return "no Python stack recorded"
