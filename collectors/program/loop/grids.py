"""Derive keys of graphs without known sizes from the grids of their kernels."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from graphviz_dash.model.graph import CapturedGraph, GraphNode, KernelParams
from graphviz_dash.model.loop import FamilyMember, GraphFamily, KeyMethod, ProgramLoop


def add_grid_keys(loop: ProgramLoop, graphs: Sequence[CapturedGraph]) -> ProgramLoop:
    """Add keys to families without keys: the number of blocks of the first kernel, in the first
    direction, that differs between all members.

    Families whose members have different numbers of kernels, or no such kernel, stay without keys.
    """
    nodes = {graph.id: graph.nodes for graph in graphs}
    families = tuple(_add_keys(family, nodes) for family in loop.families)
    return msgspec.structs.replace(loop, families=families)


def _add_keys(family: GraphFamily, nodes: dict[str, tuple[GraphNode, ...]]) -> GraphFamily:
    if len(family.members) < 2 or any(member.key is not None for member in family.members):
        return family
    kernels = [_list_kernels(member, nodes) for member in family.members]
    if len({len(row) for row in kernels}) > 1:
        return family
    for column in zip(*kernels, strict=True):
        for axis, direction in enumerate("xyz"):
            blocks = [kernel.grid[axis] if kernel.grid else 0 for kernel in column]
            if len(set(blocks)) == len(blocks):
                return msgspec.structs.replace(
                    family,
                    axes=(f"grid {direction} of {column[0].demangled}",),
                    members=tuple(
                        msgspec.structs.replace(member, key=(count,), method=KeyMethod.GRIDS)
                        for member, count in zip(family.members, blocks, strict=True)
                    ),
                )
    return family


def _list_kernels(
    member: FamilyMember, nodes: dict[str, tuple[GraphNode, ...]]
) -> list[KernelParams]:
    return [
        node.params
        for graph in member.graphs
        for node in nodes.get(graph, ())
        if isinstance(node.params, KernelParams)
    ]
