"""Read the loop of a process from its files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import Final

import msgspec

from collectors.program.loop.assembly import assemble_loop
from collectors.program.loop.events import (
    EVENTS_FILE,
    FACTS_FILE,
    EventKind,
    GraphFacts,
    LoopFacts,
    read_events,
)
from collectors.program.progress import read_progress
from graphviz_dash.model.graph import CapturedGraph, GraphNode, KernelParams
from graphviz_dash.model.loop import FamilyMember, GraphFamily, KeyMethod, ProgramLoop
from graphviz_dash.model.recording import Recording


def read_loop(
    folder: Path, state: Recording, graphs: Sequence[CapturedGraph]
) -> ProgramLoop | None:
    """Read the loop of the process of ``folder``, which captured ``graphs``. None without captures,
    or if nothing was written."""
    if not (folder / FACTS_FILE).exists() or not (folder / EVENTS_FILE).exists():
        return None
    facts = msgspec.json.decode((folder / FACTS_FILE).read_bytes(), type=LoopFacts)
    names = [graph.graph for graph in state.graphs]
    # After a kill, one of the files may be newer.
    later = tuple(GraphFacts(graph.captured_at) for graph in state.graphs[len(facts.graphs) :])
    facts.graphs = (*facts.graphs[: len(state.graphs)], *later)
    progress = read_progress(folder)
    if progress is not None:
        facts.dropped = max(facts.dropped, progress.dropped_steps)
    limits = {EventKind.SCOPE: len(facts.scopes), EventKind.PASS: len(facts.passes)}
    limits |= dict.fromkeys((EventKind.REPLAY, EventKind.CAPTURE, EventKind.GPU), len(names))
    # The cudagraph trees capture an empty graph once, to create their memory pool.
    empty = {number for number, graph in enumerate(state.graphs) if graph.nodes == 0}
    events = (
        event
        for event in read_events(folder / EVENTS_FILE, facts.origin)
        if event.ref < limits.get(event.kind, event.ref + 1)
        and not (event.kind is EventKind.CAPTURE and event.ref in empty)
    )
    if not names:
        return None
    loop = assemble_loop(events, facts, names, state.boundary_kind)
    return add_grid_keys(add_variable_keys(loop, facts, graphs), graphs)


_SIZE_NAME: Final = re.compile(
    r"(^|_)(bs|batch|tokens?|size|bucket|padded|len|length|seqlen|capacity|width|height)s?($|_)"
)
"""Names that programs use for sizes."""

_MIN_AGREEMENT: Final = 0.8
"""Minimum share of pairs of graphs whose larger key has no smaller grids, for other names."""


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
    """Iterate over variables that differ between all rows, names of sizes first, then innermost
    first."""
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
    """Count the blocks of all kernels."""
    total = 0
    for node in graph.nodes:
        if isinstance(node.params, KernelParams) and node.params.grid:
            x, y, z = node.params.grid
            total += x * y * z
    return total


def add_grid_keys(loop: ProgramLoop, graphs: Sequence[CapturedGraph]) -> ProgramLoop:
    """Add keys to families without keys: the number of blocks of the first kernel, in the first
    direction, that differs between all members.

    Families whose members have different numbers of kernels, or no such kernel, stay without keys.
    """
    nodes = {graph.id: graph.nodes for graph in graphs}
    families = tuple(_add_grid_keys(family, nodes) for family in loop.families)
    return msgspec.structs.replace(loop, families=families)


def _add_grid_keys(family: GraphFamily, nodes: dict[str, tuple[GraphNode, ...]]) -> GraphFamily:
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
