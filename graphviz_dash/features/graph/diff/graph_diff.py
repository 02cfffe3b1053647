"""Difference between two captured graphs: added, removed, changed and moved nodes and edges.

Bundles contain no addresses or kernel arguments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from graphviz_dash.analysis.graph.change import Change
from graphviz_dash.analysis.graph.topology import GraphTopology
from graphviz_dash.analysis.trace.signatures import get_base_name, normalise_name
from graphviz_dash.features.graph.diff.node_match import (
    UNMATCHED,
    GraphSide,
    find_longest_ascending,
    match_nodes,
)
from graphviz_dash.model.graph import CapturedGraph, EdgeType, GraphEdge, GraphNode, KernelParams

Graphs: TypeAlias = Mapping[str, CapturedGraph]
EdgeData: TypeAlias = tuple[int, int, EdgeType]

_MAX_VISITS: Final = 200_000
"""Node visits for finding the fewest moved nodes."""

_IGNORED_PARAMETERS: Final = frozenset({"name", "dependency_wait", "early_trigger"})
"""Parameters that a kernel's demangled name implies."""


class FieldChange(Struct, frozen=True):
    """A parameter that differs, as text; None if the node lacks the parameter."""

    field: str
    old: str | None
    new: str | None


class NodeDiff(Struct, frozen=True):
    """One node of two compared graphs."""

    a: int | None
    """Index in the first graph; None if absent."""
    b: int | None
    """Index in the second graph; None if absent."""
    label: str
    fields: tuple[FieldChange, ...] = ()
    """Parameters that differ."""
    is_moved: bool = False
    """Depends on other nodes than before, traced through added, removed and moved nodes."""

    @property
    def change(self) -> Change:
        """Change of the node; CHANGED takes precedence over MOVED."""
        if self.a is None:
            return Change.ADDED
        if self.b is None:
            return Change.REMOVED
        if self.fields:
            return Change.CHANGED
        return Change.MOVED if self.is_moved else Change.SAME


class EdgeDiff(Struct, frozen=True):
    """One dependency of two compared graphs."""

    a: tuple[int, int] | None
    """Source and target in the first graph; None if absent."""
    b: tuple[int, int] | None
    """Source and target in the second graph; None if absent."""
    old: tuple[EdgeData, ...] = ()
    """Ports and type in the first graph."""
    new: tuple[EdgeData, ...] = ()
    """Ports and type in the second graph."""

    @property
    def change(self) -> Change:
        """Change of the edge; an edge never moves."""
        if self.a is None:
            return Change.ADDED
        if self.b is None:
            return Change.REMOVED
        return Change.SAME if self.old == self.new else Change.CHANGED


class GraphDiff(Struct, frozen=True):
    """Comparison of two graphs."""

    a: CapturedGraph
    b: CapturedGraph
    nodes: tuple[NodeDiff, ...]
    """Nodes of the second graph by index, then nodes of the first graph only."""
    edges: tuple[EdgeDiff, ...]
    """Dependencies of the second graph, then those of the first graph only."""
    bodies: tuple[GraphDiff, ...] = ()
    """Comparisons of the bodies of matched nodes."""

    @property
    def levels(self) -> tuple[GraphDiff, ...]:
        """This comparison and those of all bodies, outermost first."""
        return (self, *(inner for body in self.bodies for inner in body.levels))

    @property
    def is_same(self) -> bool:
        """True if nothing differs, including bodies."""
        return all(
            all(node.change is Change.SAME for node in level.nodes)
            and all(edge.change is Change.SAME for edge in level.edges)
            for level in self.levels
        )

    @property
    def is_reordered(self) -> bool:
        """True if only the creation order differs, including bodies."""
        return self.is_same and any(
            node.a != node.b for level in self.levels for node in level.nodes
        )

    def count_nodes(self) -> dict[Change, int]:
        """Count nodes by change, without bodies; all changes are keys."""
        counts = Counter(node.change for node in self.nodes)
        return {change: counts[change] for change in Change}

    def count_edges(self) -> dict[Change, int]:
        """Count edges like nodes."""
        counts = Counter(edge.change for edge in self.edges)
        return {change: counts[change] for change in Change}


def diff_graphs(a: Sequence[CapturedGraph], b: Sequence[CapturedGraph]) -> GraphDiff:
    """Compare ``a[0]`` with ``b[0]``; the others are their bodies.

    Matching: :mod:`.node_match`. Two equal graphs, or graphs that differ only in the creation order
    of independent branches, differ in nothing.
    """
    return _compare_graphs(
        a[0], b[0], {graph.id: graph for graph in a}, {graph.id: graph for graph in b}
    )


def _compare_graphs(
    a: CapturedGraph, b: CapturedGraph, bodies_a: Graphs, bodies_b: Graphs
) -> GraphDiff:
    side_a, side_b = (
        GraphSide.from_graph(a, _build_levels(a, bodies_a)),
        GraphSide.from_graph(b, _build_levels(b, bodies_b)),
    )
    partner = match_nodes(side_a, side_b)
    moved = _find_moved(side_a.topology, side_b.topology, partner)
    a_by_b = {other: node for node, other in enumerate(partner) if other != UNMATCHED}
    nodes = [
        NodeDiff(None, node.index, node.label)
        if (index_in_a := a_by_b.get(node.index)) is None
        else NodeDiff(
            index_in_a,
            node.index,
            node.label,
            _list_field_changes(a.nodes[index_in_a], node),
            index_in_a in moved,
        )
        for node in b.nodes
    ]
    nodes += [
        NodeDiff(node.index, None, node.label)
        for node in a.nodes
        if partner[node.index] == UNMATCHED
    ]
    bodies = tuple(
        _compare_graphs(bodies_a[first], bodies_b[second], bodies_a, bodies_b)
        for node in b.nodes
        if node.index in a_by_b
        for first, second in zip(a.nodes[a_by_b[node.index]].bodies, node.bodies, strict=False)
        if first in bodies_a and second in bodies_b
    )
    return GraphDiff(a, b, tuple(nodes), _compare_edges(a, b, partner, a_by_b), bodies)


# -- comparison keys of nodes ----------------------------------------------------------------------


def _build_levels(
    graph: CapturedGraph, inside: Graphs
) -> tuple[list[Hashable], list[Hashable], list[Hashable]]:
    exact = [
        (node.kind, _build_exact_key(node), _build_bodies_key(node, inside)) for node in graph.nodes
    ]
    loose = [(node.kind, _build_loose_key(node)) for node in graph.nodes]
    kind = [(node.kind,) for node in graph.nodes]
    return list(exact), list(loose), list(kind)


def _build_exact_key(node: GraphNode) -> Hashable:
    if isinstance(node.params, KernelParams):
        return (
            normalise_name(node.params.demangled),
            *(
                _make_hashable(getattr(node.params, name))
                for name in node.params.__struct_fields__
                if name not in _IGNORED_PARAMETERS and name != "demangled"
            ),
        )
    return _make_hashable(None if node.params is None else msgspec.to_builtins(node.params))


def _build_loose_key(node: GraphNode) -> Hashable:
    if isinstance(node.params, KernelParams):
        return get_base_name(node.params.demangled)
    return node.label


def _build_bodies_key(node: GraphNode, inside: Graphs) -> Hashable:
    """Build a key of a node's bodies, in creation order.

    Other differences are found when the bodies themselves are compared.
    """
    return tuple(
        (
            tuple(
                (inner.kind, _build_exact_key(inner), _build_bodies_key(inner, inside))
                for inner in inside[body].nodes
            ),
            tuple(sorted((edge.source, edge.target) for edge in inside[body].edges)),
        )
        for body in node.bodies
        if body in inside
    )


def _make_hashable(value: Any) -> Hashable:
    if isinstance(value, dict):
        return tuple((key, _make_hashable(inner)) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return tuple(_make_hashable(inner) for inner in value)
    return value  # type: ignore[no-any-return]  # what JSON leaves: text, number, bool or None


def _list_field_changes(before: GraphNode, after: GraphNode) -> tuple[FieldChange, ...]:
    first, second = _get_fields(before), _get_fields(after)
    return tuple(
        FieldChange(name, _format_field(first.get(name)), _format_field(second.get(name)))
        for name in {**first, **second}
        if _normalize_field(name, first.get(name)) != _normalize_field(name, second.get(name))
    )


def _get_fields(node: GraphNode) -> dict[str, Any]:
    if node.params is None:
        return {}
    return {
        name: getattr(node.params, name)
        for name in node.params.__struct_fields__
        if name not in _IGNORED_PARAMETERS
    }


def _normalize_field(name: str, value: Any) -> object:
    return normalise_name(value) if name == "demangled" and value is not None else value


def _format_field(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    return str(value)


# -- edges ---------------------------------------------------------------------------------------


def _compare_edges(
    a: CapturedGraph, b: CapturedGraph, partner: list[int], a_by_b: dict[int, int]
) -> tuple[EdgeDiff, ...]:
    first, second = _group_edges(a), _group_edges(b)
    differences = []
    for (source, target), data in second.items():
        ends_in_a = a_by_b.get(source), a_by_b.get(target)
        if ends_in_a[0] is not None and ends_in_a[1] is not None and ends_in_a in first:
            data_in_a = first[ends_in_a[0], ends_in_a[1]]
            differences.append(
                EdgeDiff((ends_in_a[0], ends_in_a[1]), (source, target), data_in_a, data)
            )
        else:
            differences.append(EdgeDiff(None, (source, target), (), data))
    differences += [
        EdgeDiff((source, target), None, data, ())
        for (source, target), data in first.items()
        if (partner[source], partner[target]) not in second
    ]
    return tuple(differences)


def _group_edges(graph: CapturedGraph) -> dict[tuple[int, int], tuple[EdgeData, ...]]:
    edges_by_ends: dict[tuple[int, int], list[GraphEdge]] = {}
    for edge in graph.edges:
        edges_by_ends.setdefault((edge.source, edge.target), []).append(edge)
    return {
        ends: tuple(sorted((edge.from_port, edge.to_port, edge.type) for edge in edges))
        for ends, edges in sorted(edges_by_ends.items())
    }


# -- moved nodes -----------------------------------------------------------------------------------


def _find_moved(a: GraphTopology, b: GraphTopology, partner: list[int]) -> set[int]:
    """Find the matched nodes of ``a`` that depend on other matched nodes in ``b``.

    Greedy; starts with nodes out of order if that is too expensive.
    """
    changed = _find_changed_dependencies(a, b, partner, set())
    if len(changed) ** 2 * len(partner) <= _MAX_VISITS:
        moved: set[int] = set()
        while changed:
            explained = {
                node: _find_changed_dependencies(a, b, partner, moved | {node})
                for node in sorted(changed)
            }
            best = min(explained, key=lambda node: len(explained[node]))
            moved.add(best)
            changed = explained[best]
        return moved
    position = {node: index for index, node in enumerate(b.order)}
    matched = [node for node in a.order if partner[node] != UNMATCHED]
    ordered = set(find_longest_ascending([position[partner[node]] for node in matched]))
    moved = changed & {node for index, node in enumerate(matched) if index not in ordered}
    return moved | _find_changed_dependencies(a, b, partner, moved)


def _find_changed_dependencies(
    a: GraphTopology, b: GraphTopology, partner: list[int], excluded: set[int]
) -> set[int]:
    matched_a = {n for n, other in enumerate(partner) if other != UNMATCHED and n not in excluded}
    matched_b = {partner[node] for node in matched_a}
    before_a, before_b = _find_nearest(a, matched_a), _find_nearest(b, matched_b)
    return {
        node
        for node in matched_a
        if {partner[predecessor] for predecessor in before_a[node]} != before_b[partner[node]]
    }


def _find_nearest(topology: GraphTopology, matched: set[int]) -> dict[int, frozenset[int]]:
    nearest: dict[int, frozenset[int]] = {}
    for node in topology.order:
        nearest[node] = frozenset(
            ancestor
            for predecessor in topology.predecessors[node]
            for ancestor in ((predecessor,) if predecessor in matched else nearest[predecessor])
        )
    return nearest
