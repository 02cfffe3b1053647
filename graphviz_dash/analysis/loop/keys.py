"""What graphs of a family are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphviz_dash.model.loop import FamilyMember, GraphFamily, KeyMethod, ProgramLoop


def key_text(family: GraphFamily, member: FamilyMember) -> str:
    """What tells a member from the others, in words: ``batch 64``, ``tokens 32, kv 1,024``; where
    its key is not known, its graphs."""
    if member.key is None:
        first, *others = dict.fromkeys(member.graphs)
        return f"{first} and {len(others)} more" if others else first
    said = numbers_text(family.axes, member.key)
    return f"{said} (in grids)" if member.method is KeyMethod.GRIDS else said


def numbers_text(axes: Sequence[str], key: Sequence[int]) -> str:
    """The numbers of a key by the names of its axes."""
    return ", ".join(f"{axis} {number:,}" for axis, number in zip(axes, key, strict=True))


def graph_keys(loop: ProgramLoop | None) -> Mapping[str, str]:
    """A name for each graph by its id, of families that have several: family and key, and of a
    segment which one it is: ``decode, batch 64``; ``forward, segment 3 of 32``. A graph of several
    members has the name of the first."""
    names: dict[str, str] = {}
    for family in loop.families if loop else ():
        for member in family.members:
            if len(family.members) == 1 and len(member.graphs) == 1:
                continue
            whole = [family.name] if member.key is None else [family.name, key_text(family, member)]
            for number, graph in enumerate(member.graphs, 1):
                part = f"segment {number} of {len(member.graphs)}"
                parts = [*whole, part] if len(member.graphs) > 1 else whole
                names.setdefault(graph, ", ".join(parts))
    return names
