"""What the blocks of a repeat have in common and in what they differ: kernels, launches, times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from graphviz_dash.analysis.fold.tree import Fold, Group
from graphviz_dash.analysis.nodes.node_table import NodeRow
from graphviz_dash.analysis.nodes.whole_graph import WholeGraph
from graphviz_dash.analysis.trace.kernel_names import short_name
from graphviz_dash.model.graph import KernelParams, MemcpyParams, MemsetParams

Floats = npt.NDArray[np.float64]
_Look: TypeAlias = tuple[str, str]

_MOST_ALIGNED: Final = 2_000
"""Nodes of a block up to which the nodes that differ are found one by one."""

_MOST_NAMED: Final = 4
"""Kernels that the words for a difference name."""


@dataclass(frozen=True)
class Variant:
    """Blocks of a repeat that are equal: their numbers, and in what they differ from most blocks
    (nothing, for those that most are)."""

    blocks: tuple[int, ...]
    differs: str


@dataclass(frozen=True)
class LaunchDifference:
    """A node that in some blocks is launched in another way."""

    offset: int
    """Its number within the block."""
    name: str
    """Short name of its kernel, or its label."""
    usual: str
    """How most are launched."""
    others: tuple[tuple[str, int], ...]
    """Each other way, and how often it occurs."""


@dataclass(frozen=True)
class RepeatFacts:
    """``times`` (blocks,) are the sums of the nodes' medians in ns, NaN where none was seen;
    ``variants`` by frequency, ``launches`` of the blocks that are as most are."""

    times: Floats
    variants: tuple[Variant, ...]
    launches: tuple[LaunchDifference, ...]


def repeat_facts(whole: WholeGraph, repeat: Group) -> RepeatFacts:
    """The facts of a REPEAT of a fold of ``whole``; near-linear in its nodes."""
    rows = whole.table.rows
    blocks = [_nodes(block) for block in repeat.blocks]
    looks = [tuple(_look(rows[node]) for node in nodes) for nodes in blocks]
    groups: dict[tuple[_Look, ...], list[int]] = {}
    for number, look in enumerate(looks):
        groups.setdefault(look, []).append(number)
    often = sorted(groups.items(), key=lambda item: -len(item[1]))
    usual, members = often[0]
    variants = [Variant(tuple(members), "")]
    variants += [Variant(tuple(numbers), _difference(usual, look)) for look, numbers in often[1:]]
    times = np.array([_time(rows, nodes) for nodes in blocks])
    return RepeatFacts(
        times, tuple(variants), _launches(rows, [blocks[number] for number in members])
    )


def unlike_most(whole: WholeGraph, repeat: Group, block: int) -> tuple[int, ...]:
    """The nodes (places) of one block that most blocks do not have in that place."""
    rows = whole.table.rows
    nodes = [_nodes(repeated) for repeated in repeat.blocks]
    looks = [tuple(_look(rows[node]) for node in members) for members in nodes]
    usual = Counter(looks).most_common(1)[0][0]
    own = looks[block]
    if own == usual or max(len(own), len(usual)) > _MOST_ALIGNED:
        return ()
    unlike: list[int] = []
    for what, _, _, begin, end in SequenceMatcher(None, usual, own, autojunk=False).get_opcodes():
        if what != "equal":
            unlike += nodes[block][begin:end]
    return tuple(unlike)


def _nodes(block: Fold) -> tuple[int, ...]:
    return block.nodes


def _look(row: NodeRow) -> _Look:
    return row.node.kind.value, row.node.label


def _difference(usual: Sequence[_Look], other: Sequence[_Look]) -> str:
    before, after = Counter(usual), Counter(other)
    words = []
    for word, left in (("more", after - before), ("less", before - after)):
        named = [f"{count} {short_name(name)}" for (_, name), count in left.most_common()]
        if named:
            more = len(named) - _MOST_NAMED
            listed = ", ".join(named[:_MOST_NAMED]) + (f" and {more} others" if more > 0 else "")
            words.append(f"{listed} {word}")
    return "; ".join(words) or "the same kernels in another order"


def _time(rows: Sequence[NodeRow], nodes: Sequence[int]) -> float:
    seen = [rows[node].times.median_ns for node in nodes]
    medians = [time for time in seen if time is not None]
    return float(sum(medians)) if medians else float("nan")


def _launches(
    rows: Sequence[NodeRow], blocks: list[tuple[int, ...]]
) -> tuple[LaunchDifference, ...]:
    differences = []
    for offset, nodes in enumerate(zip(*blocks, strict=True)):
        ways = Counter(_launch(rows[node]) for node in nodes)
        if len(ways) > 1:
            (usual, _), *others = ways.most_common()
            name = short_name(rows[nodes[0]].node.label)
            differences.append(LaunchDifference(offset, name, usual, tuple(others)))
    return tuple(differences)


def _launch(row: NodeRow) -> str:
    match row.node.params:
        case KernelParams() as kernel:
            grid, block = (
                " x ".join(map(str, size or "–")) for size in (kernel.grid, kernel.block)
            )
            return f"grid {grid}, block {block}, {kernel.dynamic_shared} B shared"
        case MemcpyParams(bytes=size) | MemsetParams(bytes=size):
            return f"{size} B"
        case _:
            return ""
