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
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.analysis.trace.kernel_names import shorten_name
from graphviz_dash.features.graph.folding.tree import FoldGroup
from graphviz_dash.model.graph import KernelParams, MemcpyParams, MemsetParams

_Signature: TypeAlias = tuple[str, str]

_MAX_ALIGNED: Final = 2_000
"""Block size for finding individual nodes that differ."""


class LaunchShape(NamedTuple):
    """Launch parameters of a node; None if unrecorded or for other kinds."""

    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    dynamic_shared: int | None = None
    """Dynamic shared memory of a kernel in bytes; None if not recorded."""
    bytes: int | None = None
    """Bytes of a copy or set."""


class BlockVariant(Struct, frozen=True):
    """Equal blocks of a repeat, compared with the most common block."""

    blocks: tuple[int, ...]
    added: tuple[tuple[str, int], ...] = ()
    """Short name and count, most frequent first."""
    missing: tuple[tuple[str, int], ...] = ()
    """Short name and count. With neither, only the order differs."""


class LaunchDifference(Struct, frozen=True):
    """A node whose launch differs between blocks."""

    offset: int
    name: str
    """Short kernel name, or label."""
    usual: LaunchShape
    others: tuple[tuple[LaunchShape, int], ...]


class RepeatFacts(Struct, frozen=True):
    """Facts about a repeat.

    ``times`` (blocks,) sums node medians in ns, NaN if none was recorded. ``launches`` covers the
    most common blocks.
    """

    times: Floats
    variants: tuple[BlockVariant, ...]
    launches: tuple[LaunchDifference, ...]


def compute_repeat_facts(graph: ExpandedGraph, repeat: FoldGroup) -> RepeatFacts:
    """Compute the facts of a REPEAT; near-linear in its nodes."""
    rows = graph.table.rows
    blocks = [block.nodes for block in repeat.blocks]
    signatures = [tuple(_get_signature(rows[node]) for node in nodes) for nodes in blocks]
    groups: dict[tuple[_Signature, ...], list[int]] = {}
    for number, signature in enumerate(signatures):
        groups.setdefault(signature, []).append(number)
    by_frequency = sorted(groups.items(), key=lambda item: -len(item[1]))
    typical, members = by_frequency[0]
    variants = [BlockVariant(tuple(members))]
    variants += [
        _build_variant(numbers, signature, typical) for signature, numbers in by_frequency[1:]
    ]
    times = np.array([_sum_times(rows, nodes) for nodes in blocks])
    return RepeatFacts(
        times, tuple(variants), _compare_launches(rows, [blocks[number] for number in members])
    )


def find_unusual_nodes(graph: ExpandedGraph, repeat: FoldGroup, block: int) -> tuple[int, ...]:
    """Find the nodes of a block that most blocks lack, as indices in ``graph``."""
    rows = graph.table.rows
    nodes = [repeated.nodes for repeated in repeat.blocks]
    signatures = [tuple(_get_signature(rows[node]) for node in members) for members in nodes]
    typical = Counter(signatures).most_common(1)[0][0]
    block_signature = signatures[block]
    if block_signature == typical or max(len(block_signature), len(typical)) > _MAX_ALIGNED:
        return ()
    differing: list[int] = []
    for operation, _, _, begin, end in SequenceMatcher(
        None, typical, block_signature, autojunk=False
    ).get_opcodes():
        if operation != "equal":
            differing += nodes[block][begin:end]
    return tuple(differing)


def _get_signature(row: NodeRow) -> _Signature:
    return row.node.kind.value, row.node.label


def _build_variant(
    numbers: Sequence[int], signature: Sequence[_Signature], typical: Sequence[_Signature]
) -> BlockVariant:
    counts, usual_counts = Counter(signature), Counter(typical)
    return BlockVariant(
        tuple(numbers), _list_names(counts - usual_counts), _list_names(usual_counts - counts)
    )


def _list_names(looks: Counter[_Signature]) -> tuple[tuple[str, int], ...]:
    return tuple((shorten_name(name), count) for (_, name), count in looks.most_common())


def _sum_times(rows: Sequence[NodeRow], nodes: Sequence[int]) -> float:
    times = [rows[node].times.median_ns for node in nodes]
    medians = [time for time in times if time is not None]
    return float(sum(medians)) if medians else float("nan")


def _compare_launches(
    rows: Sequence[NodeRow], blocks: list[tuple[int, ...]]
) -> tuple[LaunchDifference, ...]:
    differences = []
    for offset, nodes in enumerate(zip(*blocks, strict=True)):
        shapes = Counter(_get_launch_shape(rows[node]) for node in nodes)
        if len(shapes) > 1:
            (typical, _), *others = shapes.most_common()
            name = shorten_name(rows[nodes[0]].node.label)
            differences.append(LaunchDifference(offset, name, typical, tuple(others)))
    return tuple(differences)


def _get_launch_shape(row: NodeRow) -> LaunchShape:
    match row.node.params:
        case KernelParams() as kernel:
            return LaunchShape(kernel.grid, kernel.block, kernel.dynamic_shared)
        case MemcpyParams(bytes=size) | MemsetParams(bytes=size):
            return LaunchShape(bytes=size)
        case _:
            return LaunchShape()
