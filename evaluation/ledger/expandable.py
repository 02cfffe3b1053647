"""Predict the saving of expandable segments from a history of allocations, then measure it.

usage: python -m evaluation.ledger.expandable OUTPUT SECONDS

Runs each configuration once with the native allocator, which writes its allocations and frees from
the first capture to the first replay. A simulation places them as the allocator does with
expandable segments. The predictions are written to ``predictions.json`` before the programs run
with expandable segments. All processes import first and wait.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from evaluation.ledger.score import EXPANDABLE, MIB, SCENES, Settings
from evaluation.ledger.sixth import CONFIGURATIONS, HEAP, GatedRunner
from evaluation.ledger.sizes import LLAMA, SEVENTH

_GRAIN: Final = 512
_SMALL: Final = 1 << 20
"""Largest allocation of the small pool (kSmallSize)."""
_SMALL_PAGE: Final = 2 << 20
_LARGE_PAGE: Final = 20 << 20
_END: Final = 1 << 50
"""Size of a simulated range of addresses, larger than any memory."""

Key = tuple[tuple[int, int], int, bool]
"""Pool, stream, and True for small allocations."""


@dataclass(eq=False)
class Block:
    """A part of a range."""

    start: int
    size: int
    is_live: bool = False
    has_memory: bool = False


class Range:
    """The addresses of one pool, stream and class of sizes. Blocks cover it in order."""

    def __init__(self, page: int) -> None:
        self._page = page
        self._blocks = [Block(0, _END)]

    @property
    def mapped_bytes(self) -> int:
        return sum(block.size for block in self._blocks if block.has_memory)

    def allocate(self, size: int) -> Block:
        """Allocate in the best free block, else map more pages at the lowest addresses."""
        number = self._find_free(size)
        if number is None:
            number = self._map(size)
        block = self._blocks[number]
        if block.size > size:
            rest = Block(block.start + size, block.size - size, has_memory=True)
            self._blocks.insert(number + 1, rest)
            block.size = size
        block.is_live = True
        return block

    def free(self, block: Block) -> None:
        """Free a block and merge it with free neighbours."""
        block.is_live = False
        self._merge(self._blocks.index(block))

    def release(self) -> None:
        """Unmap the complete pages of free blocks."""
        for block in [block for block in self._blocks if block.has_memory and not block.is_live]:
            begin = -(-block.start // self._page) * self._page
            end = (block.start + block.size) // self._page * self._page
            if begin >= end:
                continue
            number = self._blocks.index(block)
            parts = [
                Block(block.start, begin - block.start, has_memory=True),
                Block(begin, end - begin),
                Block(end, block.start + block.size - end, has_memory=True),
            ]
            middle = parts[1]
            self._blocks[number : number + 1] = [part for part in parts if part.size]
            self._merge(self._blocks.index(middle))

    def _find_free(self, size: int) -> int | None:
        numbers = [
            number
            for number, block in enumerate(self._blocks)
            if block.has_memory and not block.is_live and block.size >= size
        ]
        numbers.sort(key=lambda number: (self._blocks[number].size, number))
        if not numbers:
            return None
        best = numbers[0]
        for number in numbers[1:]:
            if self._get_possible_size(number) >= self._get_possible_size(best):
                break
            best = number
        return best

    def _get_possible_size(self, number: int) -> int:
        size = self._blocks[number].size
        if number + 1 < len(self._blocks) and not self._blocks[number + 1].has_memory:
            size += self._blocks[number + 1].size
        return size

    def _map(self, size: int) -> int:
        for number, block in enumerate(self._blocks):
            if block.has_memory:
                continue
            first = number
            if number and not self._blocks[number - 1].is_live:
                first = number - 1
            available, last = 0, first
            while last < len(self._blocks) and not self._blocks[last].is_live and available < size:
                available += self._blocks[last].size
                last += 1
            if available >= size:
                return self._map_from(first, size)
        raise AssertionError("the last block of a range is endless")

    def _map_from(self, number: int, size: int) -> int:
        while True:
            block = self._blocks[number]
            if block.has_memory and block.size >= size:
                return number
            target = number + 1 if block.has_memory else number
            missing = size - block.size if block.has_memory else size
            gap = self._blocks[target]
            end = -(-(gap.start + min(missing, gap.size)) // self._page) * self._page
            growth = min(end - gap.start, gap.size)
            if growth < gap.size:
                rest = Block(gap.start + growth, gap.size - growth)
                self._blocks.insert(target + 1, rest)
            gap.size, gap.has_memory = growth, True
            number = self._merge(target)

    def _merge(self, number: int) -> int:
        """Merge a block that is not live with equal neighbours; return its number."""
        block = self._blocks[number]
        for other in (number + 1, number - 1):
            if 0 <= other < len(self._blocks):
                neighbour = self._blocks[other]
                if not neighbour.is_live and neighbour.has_memory == block.has_memory:
                    block.start = min(block.start, neighbour.start)
                    block.size += neighbour.size
                    del self._blocks[other]
                    if other < number:
                        number -= 1
        return number


class ExpandableAllocator:
    """Places allocations as torch's allocator does with expandable segments."""

    def __init__(self) -> None:
        self._ranges: dict[Key, Range] = {}
        self._live: dict[int, tuple[Range, Block]] = {}

    @property
    def mapped_bytes(self) -> int:
        return sum(part.mapped_bytes for part in self._ranges.values())

    def list_pools(self) -> dict[tuple[tuple[int, int], int], int]:
        """Return the mapped bytes of each pool and stream."""
        sums: dict[tuple[tuple[int, int], int], int] = {}
        for (pool, stream, _), part in self._ranges.items():
            sums[pool, stream] = sums.get((pool, stream), 0) + part.mapped_bytes
        return sums

    def allocate(self, address: int, size: int, stream: int, pool: tuple[int, int]) -> None:
        """Allocate the block that is at ``address`` in the native allocator."""
        size = max(-(-size // _GRAIN), 1) * _GRAIN
        is_small = size <= _SMALL
        key = pool, stream, is_small
        if key not in self._ranges:
            self._ranges[key] = Range(_SMALL_PAGE if is_small else _LARGE_PAGE)
        part = self._ranges[key]
        self._live[address] = part, part.allocate(size)

    def free(self, address: int) -> None:
        """Free the block that is at ``address`` in the native allocator."""
        if address in self._live:
            part, block = self._live.pop(address)
            part.free(block)

    def release(self) -> None:
        """Unmap free pages outside private pools."""
        for (pool, _, _), part in self._ranges.items():
            if pool == (0, 0):
                part.release()


class PoolIndex:
    """Finds the pool of an address."""

    def __init__(self, segments: Sequence[Mapping[str, Any]]) -> None:
        self._segments = sorted(segments, key=lambda segment: int(segment["address"]))
        self._begins = [segment["address"] for segment in self._segments]

    def find(self, address: int) -> tuple[int, int]:
        """Return the pool; the default pool for segments that no longer exist."""
        number = bisect_right(self._begins, address) - 1
        segment = self._segments[number] if number >= 0 else None
        if segment is None or address >= segment["address"] + segment["total_size"]:
            return 0, 0
        first, second = segment["segment_pool_id"]
        return int(first), int(second)


def simulate(history: Mapping[str, Any]) -> ExpandableAllocator:
    """Place the live allocations at the first capture by address, then follow the history."""
    pools = PoolIndex(history["after"])
    allocator = ExpandableAllocator()
    for address, size, stream, pool in _list_live_blocks(history["before"]):
        allocator.allocate(address, size, stream, pool)
    releasing = False
    for action, address, size, stream in history["events"]:
        if action == "alloc":
            allocator.allocate(address, size, stream, pools.find(address))
        elif action == "free_completed":
            allocator.free(address)
        elif action == "segment_free" and not releasing:
            allocator.release()
        releasing = action == "segment_free"
    return allocator


def _list_live_blocks(
    segments: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[int, int, int, tuple[int, int]]]:
    for segment in sorted(segments, key=lambda segment: int(segment["address"])):
        address = segment["address"]
        first, second = segment["segment_pool_id"]
        for block in segment["blocks"]:
            if block["state"].startswith("active"):
                yield address, block["requested_size"], segment["stream"], (first, second)
            address += block["size"]


def list_configurations() -> dict[str, Settings]:
    """Return the programs: the new ones first, then those that an earlier model missed."""
    fifth = SCENES["fifth"].wasteful
    return {
        "seventh base": SEVENTH.wasteful["base"],
        "llama": (LLAMA, {}),
        "seventh pools": SEVENTH.wasteful["pools"],
        "fifth base": fifth["base"],
        "fifth ascending": fifth["ascending"],
        "fifth many": fifth["many"],
        "heap": ((*HEAP[:-3],), {}),
        "cold": CONFIGURATIONS["cold"],
    }


def main(output: Path, limit_s: float) -> None:
    """Record, predict, measure and compare."""
    configurations = list_configurations()
    runner = GatedRunner(output, limit_s)
    predictions: dict[str, dict[str, Any]] = {}
    files = {name: output / f"history-{number}.json" for number, name in enumerate(configurations)}

    def predict() -> None:
        for name, file in files.items():
            if not file.exists() or name not in runner.facts:
                continue
            allocator = simulate(json.loads(file.read_text()))
            size = runner.facts[name][0]["reserved"]
            predictions[name] = {
                "reserved": size,
                "simulated": allocator.mapped_bytes,
                "saving": size - allocator.mapped_bytes,
                "pools": {str(key): size for key, size in allocator.list_pools().items()},
            }
        (output / "predictions.json").write_text(json.dumps(predictions, indent=1))
        for name, row in predictions.items():
            print(f"{name}: predicted saving {row['saving'] / MIB:.1f} MiB")

    def report() -> None:
        (output / "facts.json").write_text(json.dumps(runner.facts))
        print(
            "expandable segments: saving predicted, measured by the allocator, error, by the device"
        )
        for name, row in predictions.items():
            rows = runner.facts.get(f"{name}, expandable")
            if not rows:
                continue
            before, after = runner.facts[name][0], rows[0]
            saving = before["reserved"] - after["reserved"]
            used = before["used"]["first replay"] - after["used"]["first replay"]
            error = f"{row['saving'] / saving - 1:+.1%}" if saving else "-"
            print(
                f"  {name:18s} {row['saving'] / MIB:8.1f} {saving / MIB:8.1f} MiB, {error}, "
                f"{used / MIB:8.1f} MiB"
            )

    native: list[tuple[str, Settings, bool]] = [
        (name, ((*options, "--history", str(files[name])), environment), False)
        for name, (options, environment) in configurations.items()
    ]
    expandable: list[tuple[str, Settings, bool]] = [
        (f"{name}, expandable", (options, EXPANDABLE), False)
        for name, (options, _) in configurations.items()
    ]
    runner.run_all([(native, predict), (expandable, report)])


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
