"""Names of the graphs of a family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphviz_dash.model.loop import FamilyMember, GraphFamily, KeyMethod, ProgramLoop


def format_key(family: GraphFamily, member: FamilyMember) -> str:
    """Format the key of a member: ``batch 64``, ``tokens 32, kv 1,024``; its graphs if unknown."""
    if member.key is None:
        first, *others = dict.fromkeys(member.graphs)
        return f"{first} and {len(others)} more" if others else first
    numbers = format_numbers(family.axes, member.key)
    return f"{numbers} (in grids)" if member.method is KeyMethod.GRIDS else numbers


def format_numbers(axes: Sequence[str], key: Sequence[int]) -> str:
    """Format the numbers of a key with the names of its axes."""
    return ", ".join(f"{axis} {number:,}" for axis, number in zip(axes, key, strict=True))


def list_graph_names(loop: ProgramLoop | None) -> Mapping[str, str]:
    """Name the graphs of families with several graphs: ``forward, segment 3 of 32``.

    A graph of several members has the name of the first.
    """
    names: dict[str, str] = {}
    for family in loop.families if loop else ():
        for member in family.members:
            if len(family.members) == 1 and len(member.graphs) == 1:
                continue
            prefix = (
                [family.name] if member.key is None else [family.name, format_key(family, member)]
            )
            for number, graph in enumerate(member.graphs, 1):
                segment = f"segment {number} of {len(member.graphs)}"
                parts = [*prefix, segment] if len(member.graphs) > 1 else prefix
                names.setdefault(graph, ", ".join(parts))
    return names
