"""The card of an unfolded repeat: how many blocks, how long each takes, in what they differ."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from graphviz_dash.analysis.fold.repeats import (
    LaunchDifference,
    RepeatFacts,
    Variant,
    repeat_facts,
    unlike_most,
)
from graphviz_dash.analysis.fold.tree import FoldKind, Group
from graphviz_dash.charts.dag.view import FoldedGraph
from graphviz_dash.errors import printable
from graphviz_dash.units import format_count, format_ns

_MOST_BARS: Final = 120
_MOST_LINES: Final = 8
_MOST_NUMBERS: Final = 6


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
        summary=_summary(facts),
        differences=_differences(facts),
        bars=_bars(facts, usual),
        unlike=[] if block < 0 else list(unlike_most(graph.whole, group, block)),
        next_unlike=after[0] if after else -1,
    )


def _time(ns: float) -> str:
    return "" if np.isnan(ns) else format_ns(ns)


def _summary(facts: RepeatFacts) -> str:
    seen = facts.times[~np.isnan(facts.times)]
    if not len(seen):
        return "not timed"
    each = format_ns(float(np.median(seen)))
    return f"median {each}, {format_ns(float(seen.min()))} to {format_ns(float(seen.max()))}"


def _differences(facts: RepeatFacts) -> list[str]:
    usual, *others = facts.variants
    if not others and not facts.launches:
        return ["All have the same kernels, launched in the same way."]
    lines = []
    if others:
        lines.append(f"{format_count(len(usual.blocks))} have the same kernels.")
        lines += [_variant(one) for one in others[:_MOST_LINES]]
        if len(others) > _MOST_LINES:
            lines.append(f"{format_count(len(others) - _MOST_LINES)} other ways to differ.")
    lines += [_launch(one) for one in facts.launches[:_MOST_LINES]]
    if len(facts.launches) > _MOST_LINES:
        lines.append(
            f"{format_count(len(facts.launches) - _MOST_LINES)} other nodes differ in launch."
        )
    return lines


def _variant(variant: Variant) -> str:
    numbers = ", ".join(str(at + 1) for at in variant.blocks[:_MOST_NUMBERS])
    more = ", …" if len(variant.blocks) > _MOST_NUMBERS else ""
    return printable(f"{numbers}{more}: {variant.differs}")


def _launch(found: LaunchDifference) -> str:
    others = "; ".join(f"{way} in {format_count(count)}" for way, count in found.others[:3])
    return printable(f"{found.name} (node {found.offset + 1} of each): {found.usual}, but {others}")


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
