"""Card of an unfolded repeat: number, times and differences of its blocks."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.graph.drawing.folded import FoldedGraph
from graphviz_dash.features.graph.folding.repeats import (
    RepeatFacts,
    compute_repeat_facts,
    find_unusual_nodes,
)
from graphviz_dash.features.graph.folding.tree import FoldGroup, FoldKind
from graphviz_dash.features.graph.repeats import list_block_differences, summarize_times
from graphviz_dash.units import format_ns

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
    """Build the card of the repeat ``ident`` while it shows ``block`` (-1: all).

    Raises:
        KeyError: there is no such repeat or block.
    """
    group = graph.groups.get(ident)
    if group is None or group.kind is not FoldKind.REPEAT or block >= len(group.blocks):
        raise KeyError(ident)
    facts = graph.repeats.get(ident)
    if facts is None:
        facts = graph.repeats[ident] = compute_repeat_facts(graph.full_graph, group)
    shown = group.blocks[max(block, 0)]
    usual = set(facts.variants[0].blocks)
    unlike = [index for index in range(len(group.blocks)) if index not in usual]
    following = [index for index in unlike if index > block] or unlike
    return RepeatCard(
        id=ident,
        title=escape_control_characters(group.title),
        repeats=len(group.blocks),
        block=block,
        block_title=escape_control_characters(shown.title) if isinstance(shown, FoldGroup) else "",
        block_time=_format_time(float(facts.times[max(block, 0)])),
        summary=summarize_times(facts),
        differences=list_block_differences(facts),
        bars=_build_bars(facts, usual),
        unlike=[] if block < 0 else list(find_unusual_nodes(graph.full_graph, group, block)),
        next_unlike=following[0] if following else -1,
    )


def _format_time(ns: float) -> str:
    return "" if np.isnan(ns) else format_ns(ns)


def _build_bars(facts: RepeatFacts, usual: set[int]) -> list[RepeatBar]:
    times = np.nan_to_num(facts.times)
    highest = float(times.max()) or 1.0
    count = min(_MAX_BARS, len(times))
    borders = np.arange(count + 1) * len(times) // count
    return [
        RepeatBar(
            first,
            last - 1,
            round(float(times[first:last].max()) / highest, 3),
            any(index not in usual for index in range(first, last)),
        )
        for first, last in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True)
    ]
