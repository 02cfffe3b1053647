"""Live memory in an allocator snapshot by stream, pool, block size and allocating line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.formats.memory_snapshot import EXPECTED_SNAPSHOT, check_snapshot_size
from graphviz_dash.ingest.formats.pickles import read_pickle
from graphviz_dash.ingest.formats.registry import SourceKind, require_format
from graphviz_dash.ingest.formats.text import read_json
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.model.graph import Count
from graphviz_dash.model.memory import DEFAULT_POOL, PoolId

_LIVE: Final = "active"
"""Prefix of the states of live blocks, including blocks that wait for a stream."""
_LIBRARY: Final = "/torch/"
"""Folder of frames that are not the program's."""


class MemoryShare(Struct, frozen=True):
    """Memory of one stream, pool, size or line."""

    label: str
    """Name of the stream, pool, size or line."""
    blocks: int
    """Number of live blocks."""
    live_bytes: int
    """Size of the live blocks, in bytes."""
    reserved_bytes: int | None
    """Size of the segments, in bytes. None for sizes and lines, which share segments."""


class SnapshotBlocks(Struct, frozen=True):
    """Live memory of a snapshot; each group is sorted by live bytes, largest first."""

    streams: tuple[MemoryShare, ...]
    """By stream."""
    pools: tuple[MemoryShare, ...]
    """By pool."""
    sizes: tuple[MemoryShare, ...]
    """By block size, in powers of two."""
    lines: tuple[MemoryShare, ...]
    """By line of the program that allocated."""


class _Frame(Struct, gc=False):
    filename: str = ""
    line: int = 0
    name: str = ""


class _Block(Struct, gc=False):
    size: Count
    state: str
    frames: list[_Frame] = []


class _Segment(Struct, gc=False):
    total_size: Count
    stream: int = 0
    segment_pool_id: PoolId = DEFAULT_POOL
    blocks: list[_Block] = []


class _Snapshot(Struct):
    segments: list[_Segment]


def read_snapshot_blocks(path: Path, limits: Limits = DEFAULT_LIMITS) -> SnapshotBlocks:
    """Read the live memory of the snapshot at ``path``, a pickle or JSON.

    Raises:
        InputError: Another file, a missing field, or more than ``limits`` allow.
    """
    if require_format(path, limits).kind is SourceKind.PICKLE:
        value = read_pickle(path, limits)
    else:
        value = read_json(path, limits, dict[str, Any] | list[Any], EXPECTED_SNAPSHOT)  # type: ignore[arg-type]
    value = {"segments": value} if isinstance(value, list) else value
    check_snapshot_size(value, path, limits)
    try:
        segments = msgspec.convert(value, _Snapshot).segments
    except (msgspec.ValidationError, RecursionError) as error:
        raise InputError(path, str(error), EXPECTED_SNAPSHOT) from error
    return SnapshotBlocks(
        streams=_sum_segments(segments, lambda segment: f"stream {segment.stream}"),
        pools=_sum_segments(segments, _name_pool),
        sizes=_sum_blocks(segments, lambda block: _name_size(block.size)),
        lines=_sum_blocks(segments, _name_line),
    )


def _sum_segments(
    segments: Iterable[_Segment], name: Callable[[_Segment], str]
) -> tuple[MemoryShare, ...]:
    groups: defaultdict[str, list[_Segment]] = defaultdict(list)
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
    segments: Iterable[_Segment], name: Callable[[_Block], str]
) -> tuple[MemoryShare, ...]:
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for block in _iter_live(segments):
        groups[name(block)].append(block.size)
    return _sort_shares(
        MemoryShare(label, len(sizes), sum(sizes), None) for label, sizes in groups.items()
    )


def _iter_live(segments: Iterable[_Segment]) -> Iterator[_Block]:
    for segment in segments:
        yield from (block for block in segment.blocks if block.state.startswith(_LIVE))


def _sort_shares(shares: Iterable[MemoryShare]) -> tuple[MemoryShare, ...]:
    return tuple(sorted(shares, key=lambda share: (-share.live_bytes, share.label)))


def _name_pool(segment: _Segment) -> str:
    if segment.segment_pool_id == DEFAULT_POOL:
        return "default pool"
    return "pool {}-{}".format(*segment.segment_pool_id)


def _name_size(size: int) -> str:
    """Name the range of sizes up to the next power of two, such as ``1 to 2 MiB``."""
    upper = max(1 << max(size - 1, 0).bit_length(), 1024)
    for unit, scale in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if upper >= 1 << scale:
            high = upper >> scale
            return f"up to 1 {unit}" if high == 1 else f"{high // 2} to {high} {unit}"
    raise AssertionError


def _name_line(block: _Block) -> str:
    """Name the innermost Python frame outside torch, or else the innermost one."""
    frames = [(frame.filename.replace("\\", "/"), frame) for frame in block.frames]
    python = [(path, frame) for path, frame in frames if path.endswith(".py")]
    program = [(path, frame) for path, frame in python if _LIBRARY not in path]
    for path, frame in (*program, *python):
        return f"{path.rpartition('/')[2]}:{frame.line} {frame.name}"
    return "no Python stack recorded"
