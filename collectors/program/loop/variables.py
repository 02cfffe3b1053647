"""Derive keys of graphs without known sizes from integer variables of the capturing functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Final

import msgspec

from collectors.program.loop.events import LoopFacts
from graphviz_dash.model.graph import CapturedGraph, KernelParams
from graphviz_dash.model.loop import GraphFamily, KeyMethod, ProgramLoop

_SIZE_NAME: Final = re.compile(
    r"(^|_)(bs|batch|tokens?|size|bucket|padded|len|length|seqlen|capacity|width|height)s?($|_)"
)

_MIN_AGREEMENT: Final = 0.8
"""Minimum share of pairs of graphs whose larger key has no smaller grids, for other names."""


def add_record_fields(loop: ProgramLoop, facts: LoopFacts) -> ProgramLoop:
    """Add fields of records to keys from shapes that are equal for different graphs.

    A pool of graphs for batch sizes and capacities of a cache may have inputs of the same shape.
    """
    names = [cost.graph for cost in loop.graphs]
    fields = {name: graph.fields for name, graph in zip(names, facts.graphs, strict=False)}
    families = tuple(_extend_keys(family, fields) for family in loop.families)
    return msgspec.structs.replace(loop, families=families)


def _extend_keys(family: GraphFamily, fields: Mapping[str, Mapping[str, int]]) -> GraphFamily:
    members = family.members
    keys = [member.key for member in members if member.method is KeyMethod.SHAPES]
    if len(set(keys)) == len(members) or len(keys) < len(members) or None in keys:
        return family
    rows = [fields.get(member.graphs[0], {}) for member in members]
    columns = {tuple(column) for column in zip(*(key or () for key in keys), strict=True)}
    new_columns = {}
    for name in rows[0]:
        column = tuple(row.get(name, 0) for row in rows)
        if len(set(column)) > 1 and all(column) and column not in columns:
            columns.add(column)
            new_columns[name] = column
    if not new_columns:
        return family
    return msgspec.structs.replace(
        family,
        axes=(*family.axes, *new_columns),
        members=tuple(
            msgspec.structs.replace(member, key=(*(member.key or ()), *values))
            for member, values in zip(members, zip(*new_columns.values(), strict=True), strict=True)
        ),
    )


def add_variable_keys(
    loop: ProgramLoop, facts: LoopFacts, graphs: Sequence[CapturedGraph]
) -> ProgramLoop:
    """Add keys to families without keys: an integer variable that differs between all members.

    The name of the variable must suggest a size, or the grids of the kernels must grow with it.
    """
    names = [cost.graph for cost in loop.graphs]
    numbers = {name: graph.numbers for name, graph in zip(names, facts.graphs, strict=False)}
    blocks = {graph.id: _count_blocks(graph) for graph in graphs}
    families = tuple(_add_keys(family, numbers, blocks) for family in loop.families)
    has_new_keys = [new is not old for new, old in zip(families, loop.families, strict=True)]
    steps = loop.steps
    padded_sizes = tuple(
        families[family].members[member].key[0]  # type: ignore[index]  # these families have keys
        if family is not None and has_new_keys[family] and member is not None
        else size
        for family, member, size in zip(steps.family, steps.member, steps.padded_size, strict=True)
    )
    return msgspec.structs.replace(
        loop, families=families, steps=msgspec.structs.replace(steps, padded_size=padded_sizes)
    )


def _add_keys(
    family: GraphFamily,
    numbers: Mapping[str, Mapping[str, int]],
    blocks: Mapping[str, int],
) -> GraphFamily:
    members = family.members
    if len(members) < 2 or any(member.key is not None for member in members):
        return family
    rows = [numbers.get(member.graphs[0], {}) for member in members]
    for name, sizes in _iter_candidates(rows):
        totals = [sum(blocks.get(graph, 0) for graph in member.graphs) for member in members]
        if _SIZE_NAME.search(name.lower()) or _check_growth(sizes, totals):
            members = tuple(
                msgspec.structs.replace(member, key=(size,), method=KeyMethod.VARIABLES)
                for member, size in zip(members, sizes, strict=True)
            )
            return msgspec.structs.replace(family, axes=(name,), size_axis=0, members=members)
    return family


def _iter_candidates(rows: Sequence[Mapping[str, int]]) -> Iterator[tuple[str, list[int]]]:
    """Iterate over variables that differ between all rows: names of sizes, then innermost."""
    names = [name for name in rows[0] if all(name in row for row in rows)]
    for name in sorted(names, key=lambda name: _SIZE_NAME.search(name.lower()) is None):
        sizes = [row[name] for row in rows]
        if len(set(sizes)) == len(sizes):
            yield name, sizes


def _check_growth(sizes: Sequence[int], totals: Sequence[int]) -> bool:
    """Check if grids grow with a variable that does not just count captures."""
    if len({second - first for first, second in pairwise(sizes)} - {1, -1}) == 0:
        return False
    pairs = [
        (total_b - total_a) * (size_b - size_a)
        for (size_a, total_a), (size_b, total_b) in combinations(zip(sizes, totals, strict=True), 2)
    ]
    return max(pairs) > 0 and sum(pair >= 0 for pair in pairs) >= _MIN_AGREEMENT * len(pairs)


def _count_blocks(graph: CapturedGraph) -> int:
    total = 0
    for node in graph.nodes:
        if isinstance(node.params, KernelParams) and node.params.grid:
            x, y, z = node.params.grid
            total += x * y * z
    return total
