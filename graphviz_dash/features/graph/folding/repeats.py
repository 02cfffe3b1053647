"""Differences between the blocks of a repeat: kernels, launches, times."""

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
"""Maximum block size for finding individual nodes that differ."""


class LaunchShape(NamedTuple):
    """Launch parameters of a node, if its kind has them."""

    grid: tuple[int, int, int] | None = None
    """Grid of a kernel; None for other kinds, and if not recorded."""
    block: tuple[int, int, int] | None = None
    """Block of a kernel; None for other kinds, and if not recorded."""
    dynamic_shared: int | None = None
    """Dynamic shared memory of a kernel in bytes; None if not recorded."""
    bytes: int | None = None
    """Bytes of a copy or set; None for a kernel."""


class BlockVariant(Struct, frozen=True):
    """Equal blocks of a repeat, compared with the most common block."""

    blocks: tuple[int, ...]
    """Block numbers from 0."""
    more: tuple[tuple[str, int], ...] = ()
    """Additional kernels: short name and count, most frequent first."""
    less: tuple[tuple[str, int], ...] = ()
    """Missing kernels: short name and count. With neither, only the order differs."""


class LaunchDifference(Struct, frozen=True):
    """A node whose launch differs between blocks."""

    offset: int
    """Index within the block."""
    name: str
    """Short kernel name, or label."""
    usual: LaunchShape
    """Most common launch."""
    others: tuple[tuple[LaunchShape, int], ...]
    """Other launches and their counts."""


class RepeatFacts(Struct, frozen=True):
    """Facts about a repeat.

    ``times`` (blocks,) sums the node medians in ns, NaN if none was recorded. ``launches`` covers
    the most common blocks.
    """

    times: Floats
    variants: tuple[BlockVariant, ...]
    launches: tuple[LaunchDifference, ...]


def repeat_facts(whole: WholeGraph, repeat: Group) -> RepeatFacts:
    """Compute the facts of a REPEAT of a fold of ``whole``; near-linear in its nodes."""
    rows = whole.table.rows
    blocks = [_nodes(block) for block in repeat.blocks]
    signatures = [tuple(_look(rows[node]) for node in nodes) for nodes in blocks]
    groups: dict[tuple[_Look, ...], list[int]] = {}
    for number, signature in enumerate(signatures):
        groups.setdefault(signature, []).append(number)
    by_frequency = sorted(groups.items(), key=lambda item: -len(item[1]))
    usual, members = by_frequency[0]
    variants = [BlockVariant(tuple(members))]
    variants += [_variant(numbers, signature, usual) for signature, numbers in by_frequency[1:]]
    times = np.array([_time(rows, nodes) for nodes in blocks])
    return RepeatFacts(
        times, tuple(variants), _launches(rows, [blocks[number] for number in members])
    )


def unlike_most(whole: WholeGraph, repeat: Group, block: int) -> tuple[int, ...]:
    """Find the nodes of one block that most blocks lack, as indices in the whole graph."""
    rows = whole.table.rows
    nodes = [_nodes(repeated) for repeated in repeat.blocks]
    signatures = [tuple(_look(rows[node]) for node in members) for members in nodes]
    usual = Counter(signatures).most_common(1)[0][0]
    block_signature = signatures[block]
    if block_signature == usual or max(len(block_signature), len(usual)) > _MOST_ALIGNED:
        return ()
    differing: list[int] = []
    for operation, _, _, begin, end in SequenceMatcher(
        None, usual, block_signature, autojunk=False
    ).get_opcodes():
        if operation != "equal":
            differing += nodes[block][begin:end]
    return tuple(differing)


def _nodes(block: Fold) -> tuple[int, ...]:
    return block.nodes


def _look(row: NodeRow) -> _Look:
    return row.node.kind.value, row.node.label


def _variant(numbers: Sequence[int], look: Sequence[_Look], usual: Sequence[_Look]) -> BlockVariant:
    counts, usual_counts = Counter(look), Counter(usual)
    return BlockVariant(
        tuple(numbers), _named(counts - usual_counts), _named(usual_counts - counts)
    )


def _named(looks: Counter[_Look]) -> tuple[tuple[str, int], ...]:
    return tuple((short_name(name), count) for (_, name), count in looks.most_common())


def _time(rows: Sequence[NodeRow], nodes: Sequence[int]) -> float:
    times = [rows[node].times.median_ns for node in nodes]
    medians = [time for time in times if time is not None]
    return float(sum(medians)) if medians else float("nan")


def _launches(
    rows: Sequence[NodeRow], blocks: list[tuple[int, ...]]
) -> tuple[LaunchDifference, ...]:
    differences = []
    for offset, nodes in enumerate(zip(*blocks, strict=True)):
        shapes = Counter(_launch(rows[node]) for node in nodes)
        if len(shapes) > 1:
            (usual, _), *others = shapes.most_common()
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
