"""Live memory in an allocator snapshot by stream, pool, block size and allocating line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from graphviz_dash.model.graph import Count
from graphviz_dash.model.memory import DEFAULT_POOL, PoolId
from graphviz_dash.model.run import LiveMemory, MemoryShare

MAX_LINES: Final = 500
"""Maximum number of lines; the rest is one row."""
_LIVE: Final = "active"
"""Prefix of the states of live blocks, including blocks that wait for a stream."""
_LIBRARY: Final = "/torch/"
"""Folder of frames that are not the program's."""


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
    """Name the range of sizes up to the next power of two, such as ``1 to 2 MiB``."""
    upper = max(1 << max(size - 1, 0).bit_length(), 1024)
    for unit, scale in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if upper >= 1 << scale:
            high = upper >> scale
            return f"up to 1 {unit}" if high == 1 else f"{high // 2} to {high} {unit}"
    raise AssertionError


def _name_line(block: Block) -> str:
    """Name the innermost Python frame outside torch, or else the innermost one."""
    frames = block.frames or (block.history[0].frames if block.history else [])
    paths = [(frame.filename.replace("\\", "/"), frame) for frame in frames]
    python = [(path, frame) for path, frame in paths if path.endswith(".py")]
    program = [(path, frame) for path, frame in python if _LIBRARY not in path]
    for path, frame in (*program, *python):
        return f"{path.rpartition('/')[2]}:{frame.line} {frame.name}"
    return "no Python stack recorded"
