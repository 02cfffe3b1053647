"""Card of an unfolded repeat: number, times and differences of its blocks."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.graph.drawing.folded import FoldedGraph
from graphviz_dash.features.graph.folding.repeats import (
    BlockVariant,
    LaunchDifference,
    LaunchShape,
    RepeatFacts,
    compute_repeat_facts,
    find_unusual_nodes,
)
from graphviz_dash.features.graph.folding.tree import FoldGroup, FoldKind
from graphviz_dash.units import format_count, format_ns

_MAX_BARS: Final = 120


class RepeatBar(msgspec.Struct, frozen=True, array_like=True):
    """Blocks of a repeat shown as one bar of the chart."""

    first: int
    """Number of the first block."""
    last: int
    """Number of the last block."""
    height: float
    """Longest time of these blocks relative to all blocks, 0 to 1; 0 if not measured."""
    differs: bool
    """Whether one of them differs from most blocks."""


class RepeatCard(msgspec.Struct, frozen=True):
    """Unfolded repeat."""

    id: str
    """Id of its box."""
    title: str
    """Title of the repeat."""
    repeats: int
    """Number of blocks."""
    block: int
    """Visible block; -1 for all."""
    block_title: str
    """Title of the visible block; empty if it has none."""
    block_time: str
    """GPU time of the visible block; empty if not measured."""
    summary: str
    """Summary of the times of all blocks."""
    differences: list[str]
    """Differences between blocks, in words."""
    bars: list[RepeatBar]
    """Times of all blocks."""
    unlike: list[int]
    """Indices of nodes of the visible block that differ from most blocks."""
    next_unlike: int
    """Next block that differs from most blocks; -1 for none."""


def build_repeat_card(graph: FoldedGraph, ident: str, block: int) -> RepeatCard:
    """Build the card of a repeat while it shows ``block`` (-1: all).

    Raises:
        KeyError: there is no such repeat or block.
    """
    group = graph.groups.get(ident)
    if group is None or group.kind is not FoldKind.REPEAT or block >= len(group.blocks):
        raise KeyError(ident)
    facts = graph.repeats.get(ident)
    if facts is None:
        facts = graph.repeats[ident] = compute_repeat_facts(graph.full_graph, group)
    selected_block = group.blocks[max(block, 0)]
    typical = set(facts.variants[0].blocks)
    different = [index for index in range(len(group.blocks)) if index not in typical]
    following = [index for index in different if index > block] or different
    return RepeatCard(
        id=ident,
        title=escape_control_characters(group.title),
        repeats=len(group.blocks),
        block=block,
        block_title=escape_control_characters(selected_block.title)
        if isinstance(selected_block, FoldGroup)
        else "",
        block_time=_format_time(float(facts.times[max(block, 0)])),
        summary=summarize_times(facts),
        differences=list_block_differences(facts),
        bars=_build_bars(facts, typical),
        unlike=[] if block < 0 else list(find_unusual_nodes(graph.full_graph, group, block)),
        next_unlike=following[0] if following else -1,
    )


def _format_time(ns: float) -> str:
    return "" if np.isnan(ns) else format_ns(ns)


def _build_bars(facts: RepeatFacts, typical: set[int]) -> list[RepeatBar]:
    times = np.nan_to_num(facts.times)
    highest = float(times.max()) or 1.0
    count = min(_MAX_BARS, len(times))
    borders = np.arange(count + 1) * len(times) // count
    return [
        RepeatBar(
            first,
            last - 1,
            round(float(times[first:last].max()) / highest, 3),
            any(index not in typical for index in range(first, last)),
        )
        for first, last in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True)
    ]


_MAX_LINES: Final = 8
_MAX_NUMBERS: Final = 6
_MAX_KERNELS: Final = 4
"""Maximum number of kernels named in a difference."""

_MAX_SHAPES: Final = 3
"""Launch shapes listed besides the usual one."""


def summarize_times(facts: RepeatFacts) -> str:
    """Format median, minimum and maximum time of the blocks."""
    times = facts.times[~np.isnan(facts.times)]
    if not len(times):
        return "not timed"
    median = format_ns(float(np.median(times)))
    return f"median {median}, {format_ns(float(times.min()))} to {format_ns(float(times.max()))}"


def list_block_differences(facts: RepeatFacts) -> list[str]:
    """List the differences, one line per kind; all text is printable."""
    typical, *others = facts.variants
    if not others and not facts.launches:
        return ["All blocks have the same kernels and launch shapes."]
    lines = []
    if others:
        lines.append(f"{format_count(len(typical.blocks))} blocks have the same kernels.")
        lines += [_format_variant_line(variant) for variant in others[:_MAX_LINES]]
        if len(others) > _MAX_LINES:
            lines.append(f"{format_count(len(others) - _MAX_LINES)} other differences.")
    lines += [_format_launch_difference(difference) for difference in facts.launches[:_MAX_LINES]]
    if len(facts.launches) > _MAX_LINES:
        lines.append(
            f"{format_count(len(facts.launches) - _MAX_LINES)} other nodes have different launch "
            "shapes."
        )
    return lines


def format_variant(variant: BlockVariant) -> str:
    """Describe the difference from most blocks: "2 gemm more; 1 norm less"."""
    parts = []
    for word, kernels in (("more", variant.added), ("less", variant.missing)):
        if kernels:
            listed = ", ".join(f"{count} {name}" for name, count in kernels[:_MAX_KERNELS])
            others = len(kernels) - _MAX_KERNELS
            parts.append(f"{listed}{f' and {others} others' if others > 0 else ''} {word}")
    return "; ".join(parts) or "the same kernels in another order"


def _format_variant_line(variant: BlockVariant) -> str:
    numbers = ", ".join(str(block + 1) for block in variant.blocks[:_MAX_NUMBERS])
    more = ", …" if len(variant.blocks) > _MAX_NUMBERS else ""
    return escape_control_characters(f"{numbers}{more}: {format_variant(variant)}")


def _format_launch_difference(difference: LaunchDifference) -> str:
    others = "; ".join(
        f"{_format_launch_shape(shape)} in {format_count(count)}"
        for shape, count in difference.others[:_MAX_SHAPES]
    )
    node = f"{difference.name} (node {difference.offset + 1} of each block)"
    return escape_control_characters(
        f"{node}: {_format_launch_shape(difference.usual)}, but {others}"
    )


def _format_launch_shape(shape: LaunchShape) -> str:
    if shape.bytes is not None:
        return f"{shape.bytes} B"
    grid, block = (" x ".join(map(str, size or "–")) for size in (shape.grid, shape.block))
    return f"grid {grid}, block {block}, {shape.dynamic_shared} B shared"
