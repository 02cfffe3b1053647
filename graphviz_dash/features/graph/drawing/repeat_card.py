"""The card of an unfolded repeat: how many blocks, how long each takes, in what they differ."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from graphviz_dash.errors import printable
from graphviz_dash.features.graph.drawing.folded import FoldedGraph
from graphviz_dash.features.graph.folding.repeats import (
    RepeatFacts,
    repeat_facts,
    unlike_most,
)
from graphviz_dash.features.graph.folding.tree import FoldKind, Group
from graphviz_dash.features.graph.repeats import block_differences, times_summary
from graphviz_dash.units import format_ns

_MOST_BARS: Final = 120


class RepeatBar(msgspec.Struct, frozen=True, array_like=True):
    """Some blocks of a repeat as one bar of its chart."""

    first: int
    """Number of the first block."""
    last: int
    """Number of the last block."""
    height: float
    """The longest time of them over the longest of all, 0 to 1; 0 where none was measured."""
    differs: bool
    """Whether one of them is unlike most."""


class RepeatCard(msgspec.Struct, frozen=True):
    """An unfolded repeat."""

    id: str
    """Id of its box."""
    title: str
    """Of the repeat."""
    repeats: int
    """How many blocks it has."""
    block: int
    """The block that is shown; -1: all."""
    block_title: str
    """Of that block; empty where it has none."""
    block_time: str
    """GPU time of that block; empty where none was measured."""
    summary: str
    """Of the times of all blocks, in words."""
    differences: list[str]
    """In what blocks differ, in words."""
    bars: list[RepeatBar]
    """The times of all blocks."""
    unlike: list[int]
    """Indices of nodes of the shown block that most blocks do not have so."""
    next_unlike: int
    """The next block that is unlike most; -1 for none."""


def repeat_card(graph: FoldedGraph, ident: str, block: int) -> RepeatCard:
    """The card of the repeat ``ident`` while it shows ``block`` (-1: all).

    Raises:
        KeyError: there is no such repeat, or it has no such block.
    """
    group = graph.groups.get(ident)
    if group is None or group.kind is not FoldKind.REPEAT or block >= len(group.blocks):
        raise KeyError(ident)
    facts = graph.repeats.get(ident)
    if facts is None:
        facts = graph.repeats[ident] = repeat_facts(graph.whole, group)
    shown = group.blocks[max(block, 0)]
    usual = set(facts.variants[0].blocks)
    unlike = [at for at in range(len(group.blocks)) if at not in usual]
    after = [at for at in unlike if at > block] or unlike
    return RepeatCard(
        id=ident,
        title=printable(group.title),
        repeats=len(group.blocks),
        block=block,
        block_title=printable(shown.title) if isinstance(shown, Group) else "",
        block_time=_time(float(facts.times[max(block, 0)])),
        summary=times_summary(facts),
        differences=block_differences(facts),
        bars=_bars(facts, usual),
        unlike=[] if block < 0 else list(unlike_most(graph.whole, group, block)),
        next_unlike=after[0] if after else -1,
    )


def _time(ns: float) -> str:
    return "" if np.isnan(ns) else format_ns(ns)


def _bars(facts: RepeatFacts, usual: set[int]) -> list[RepeatBar]:
    times = np.nan_to_num(facts.times)
    highest = float(times.max()) or 1.0
    count = min(_MOST_BARS, len(times))
    borders = np.arange(count + 1) * len(times) // count
    return [
        RepeatBar(
            first,
            last - 1,
            round(float(times[first:last].max()) / highest, 3),
            any(at not in usual for at in range(first, last)),
        )
        for first, last in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True)
    ]
