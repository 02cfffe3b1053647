"""The card of an unfolded repeat: how many blocks, how long each takes, in what they differ."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from graphviz_dash.analysis.fold.repeats import (
    RepeatFacts,
    repeat_facts,
    unlike_most,
)
from graphviz_dash.analysis.fold.tree import FoldKind, Group
from graphviz_dash.charts.dag.view import FoldedGraph
from graphviz_dash.errors import printable
from graphviz_dash.narrative.repeats import block_differences, times_summary
from graphviz_dash.units import format_ns

_MOST_BARS: Final = 120


class RepeatBar(msgspec.Struct, frozen=True, array_like=True):
    """Blocks ``first`` to ``last`` of a repeat: the longest time of them over the longest of all,
    0 to 1 (0 where none was seen), and whether one differs from most."""

    first: int
    last: int
    height: float
    differs: bool


class RepeatCard(msgspec.Struct, frozen=True):
    """``title`` of the repeat and of the ``block`` shown, ``summary`` of all blocks' times,
    ``differences`` in words, ``unlike`` the places of nodes that most blocks do not have so;
    ``next_unlike`` is the number of the next block that differs from most, -1 for none."""

    id: str
    title: str
    repeats: int
    block: int
    block_title: str
    block_time: str
    summary: str
    differences: list[str]
    bars: list[RepeatBar]
    unlike: list[int]
    next_unlike: int


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
