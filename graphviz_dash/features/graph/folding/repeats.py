"""What the blocks of a repeat have in common and in what they differ: kernels, launches, times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats
from graphviz_dash.analysis.nodes.node_table import NodeRow
from graphviz_dash.analysis.nodes.whole_graph import WholeGraph
from graphviz_dash.analysis.trace.kernel_names import short_name
from graphviz_dash.features.graph.folding.tree import Fold, Group
from graphviz_dash.model.graph import KernelParams, MemcpyParams, MemsetParams

_Look: TypeAlias = tuple[str, str]

_MOST_ALIGNED: Final = 2_000
"""Nodes of a block up to which the nodes that differ are found one by one."""


class LaunchShape(NamedTuple):
    """How a node is launched, as far as its kind has it."""

    grid: tuple[int, int, int] | None = None
    """Blocks of a kernel; None where it was not read, and for other kinds."""
    block: tuple[int, int, int] | None = None
    """Threads of a block; None where it was not read, and for other kinds."""
    dynamic_shared: int | None = None
    """Dynamic shared memory of a kernel in bytes; None where it was not read."""
    bytes: int | None = None
    """Size of a copy or a set; None for a kernel."""


class BlockVariant(Struct, frozen=True):
    """Blocks of a repeat that are equal. Those that most are have nothing more and nothing less."""

    blocks: tuple[int, ...]
    """Their numbers, from 0."""
    more: tuple[tuple[str, int], ...] = ()
    """Kernels that they have and most blocks lack: short name and count, the most first."""
    less: tuple[tuple[str, int], ...] = ()
    """Kernels that most blocks have and they lack. With neither, the order is another."""


class LaunchDifference(Struct, frozen=True):
    """A node that in some blocks is launched in another way."""

    offset: int
    """Its number within the block."""
    name: str
    """Short name of its kernel, or its label."""
    usual: LaunchShape
    """How most are launched."""
    others: tuple[tuple[LaunchShape, int], ...]
    """Each other way, and how often it occurs."""


class RepeatFacts(Struct, frozen=True):
    """``times`` (blocks,) are the sums of the nodes' medians in ns, NaN where none was seen;
    ``variants`` by frequency, ``launches`` of the blocks that are as most are."""

    times: Floats
    variants: tuple[BlockVariant, ...]
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
    variants = [BlockVariant(tuple(members))]
    variants += [_variant(numbers, look, usual) for look, numbers in often[1:]]
    times = np.array([_time(rows, nodes) for nodes in blocks])
    return RepeatFacts(
        times, tuple(variants), _launches(rows, [blocks[number] for number in members])
    )


def unlike_most(whole: WholeGraph, repeat: Group, block: int) -> tuple[int, ...]:
    """The nodes of one block that most blocks do not have there, as indices in the whole."""
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


def _variant(numbers: Sequence[int], look: Sequence[_Look], usual: Sequence[_Look]) -> BlockVariant:
    own, most = Counter(look), Counter(usual)
    return BlockVariant(tuple(numbers), _named(own - most), _named(most - own))


def _named(looks: Counter[_Look]) -> tuple[tuple[str, int], ...]:
    return tuple((short_name(name), count) for (_, name), count in looks.most_common())


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


def _launch(row: NodeRow) -> LaunchShape:
    match row.node.params:
        case KernelParams() as kernel:
            return LaunchShape(kernel.grid, kernel.block, kernel.dynamic_shared)
        case MemcpyParams(bytes=size) | MemsetParams(bytes=size):
            return LaunchShape(bytes=size)
        case _:
            return LaunchShape()
