"""Families of a loop: graphs captured at one place, distinguished by labels, an engine or input
shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from collectors.program.loop.events import LoopFacts, ScopeFacts
from graphviz_dash.model.loop import FamilyMember, GraphFamily, KeyMethod

_Key = tuple[int, ...]


@dataclass
class _Family:
    name: str
    axes: tuple[str, ...]
    method: KeyMethod | None
    """Source of the keys, or None."""
    members: dict[tuple[_Key | None, tuple[int, ...]], int] = field(default_factory=dict)


class FamilyBook:
    """Finds or creates the family and member of captures and replays."""

    def __init__(
        self, facts: LoopFacts, graphs: Sequence[str], *, has_bounds: bool = False
    ) -> None:
        self._has_bounds = has_bounds
        self._facts = facts
        self._graphs = graphs
        self._families: list[_Family] = []
        self._numbers: dict[object, int] = {}
        self._captured_in: dict[int, ScopeFacts] = {
            number: graph.engine.scope
            for number, graph in enumerate(facts.graphs)
            if graph.engine is not None
        }
        self._engine_scopes = {scope.name: scope for scope in reversed(self._captured_in.values())}
        self._expected: dict[int, tuple[tuple[int, ...], ScopeFacts | None]] = {}
        self._pieces: set[tuple[str, ...]] = set()
        """Places of captures whose graphs are segments: a graph that is never replayed is not a
        step."""
        self._modules: dict[int, int] = {}
        self._rows: dict[int, list[tuple[_Key, ...]]] = {}

    def note_capture(self, graphs: tuple[int, ...], scope: ScopeFacts | None) -> None:
        """Record a step that captures ``graphs``: later replays outside of scopes have their
        key."""
        if scope is not None and not scope.families:
            for graph in graphs:
                self._captured_in.setdefault(graph, scope)

    def expect(self, graphs: tuple[int, ...], scope: ScopeFacts | None) -> None:
        """Record a step that replays ``graphs``: their captures belong to its member."""
        for graph in graphs:
            self._expected.setdefault(graph, (graphs, scope))
            if len(graphs) > 1:
                self._pieces.add(self._facts.graphs[graph].captured_at)

    def find_captured_member(
        self, graphs: tuple[int, ...], scope: ScopeFacts | None
    ) -> tuple[int | None, int | None]:
        """Return the family and member that a step captured ``graphs`` for, None if ambiguous."""
        if scope is not None and not self._expected.keys() & set(graphs):
            return self.find_member(graphs, scope)
        members = {
            self.find_member(*self._expected.get(graph, ((graph,), scope))): None
            for graph in graphs
            if graph in self._expected or self._facts.graphs[graph].captured_at not in self._pieces
        }
        return next(iter(members)) if len(members) == 1 else (None, None)

    def find_member(self, graphs: tuple[int, ...], scope: ScopeFacts | None) -> tuple[int, int]:
        """Return the family and member of ``graphs``, replayed or captured in this order."""
        if scope is None or scope.families:
            scope = self._find_graph_scope(graphs)
        if scope is not None:
            number = self._find_scope_family(scope)
            key: _Key | None = scope.key or None
        else:
            first, last = self._facts.graphs[graphs[0]], self._facts.graphs[graphs[-1]]
            identity: object = first.captured_at, len(graphs)
            if self._has_bounds and len(graphs) > 1:
                # All steps end with the same graph, and their first graphs may be optional.
                identity = "end", last.captured_at
            number = self._find_family(identity, first.place or "graphs", (), None)
            key = None
        for graph in graphs:
            module = self._facts.graphs[graph].module
            if module is not None:
                self._modules.setdefault(module, number)
        members = self._families[number].members
        return number, members.setdefault((key, graphs), len(members))

    def _find_graph_scope(self, graphs: tuple[int, ...]) -> ScopeFacts | None:
        """Return the facts that all of ``graphs`` were captured with, or None if they differ."""
        scopes = {self._captured_in.get(graph) for graph in graphs}
        return scopes.pop() if len(scopes) == 1 else None

    def find_fallback_family(self, scope: ScopeFacts | None, eager_pass: int | None) -> int | None:
        """Return the family of a step without graphs by its first pass, or None."""
        if scope is not None and scope.families:
            names = (name for name in scope.families if name in self._engine_scopes)
            name = next(names, None)
            return None if name is None else self._find_scope_family(self._engine_scopes[name])
        if scope is not None:
            return self._find_scope_family(scope)
        return (
            None if eager_pass is None else self._modules.get(self._facts.passes[eager_pass].module)
        )

    def has_form(self, family: int, eager_pass: int | None) -> bool:
        """Return whether a graph of another size could run the eager pass ``eager_pass``.

        False for inputs that differ in more than the sizes that distinguish the graphs, such as
        those of a prefill before decode graphs. Needs all members.
        """
        if eager_pass is None or self._families[family].method is not None:
            return True
        return has_family_shapes(self._get_rows(family), self._facts.passes[eager_pass].shapes)

    def find_pass_size(self, family: int, eager_pass: int | None) -> int | None:
        """Return the size of the eager pass ``eager_pass`` from its input shapes, or None if
        ambiguous."""
        if eager_pass is None or self._families[family].method is not None:
            return None
        return find_shape_size(self._get_rows(family), self._facts.passes[eager_pass].shapes)

    def _get_rows(self, family: int) -> list[tuple[_Key, ...]]:
        """Return the input shapes of each member."""
        rows = self._rows.get(family)
        if rows is None:
            members = self._families[family].members
            rows = [self._facts.graphs[graphs[0]].shapes for _, graphs in members]
            self._rows[family] = rows
        return rows

    def build_families(self) -> tuple[GraphFamily, ...]:
        """Return all families. Their names differ."""
        return _make_names_unique([self._build_family(family) for family in self._families])

    def _find_scope_family(self, scope: ScopeFacts) -> int:
        method = KeyMethod.LABEL if scope.label else KeyMethod.ENGINE
        return self._find_family((scope.name, scope.axes), scope.name, scope.axes, method)

    def _find_family(
        self, identity: object, name: str, axes: tuple[str, ...], method: KeyMethod | None
    ) -> int:
        number = self._numbers.setdefault(identity, len(self._families))
        if number == len(self._families):
            self._families.append(_Family(name, axes, method))
        return number

    def _build_family(self, family: _Family) -> GraphFamily:
        facts = self._facts.graphs
        graph_numbers = [graph for _, graphs in family.members for graph in graphs]
        modules = [facts[graph].module for graph in graph_numbers]
        module = next((number for number in modules if number is not None), None)
        axes, method = family.axes, family.method
        keys: Sequence[_Key | None] = [key for key, _ in family.members]
        if method is None and len(family.members) > 1:
            axes, keys = derive_shape_keys(
                [facts[graphs[0]].shapes for _, graphs in family.members]
            )
            method = KeyMethod.SHAPES
        return GraphFamily(
            name=family.name,
            captured_at=facts[graph_numbers[0]].captured_at if graph_numbers else (),
            axes=axes,
            size_axis=0 if len(axes) == 1 or family.axes else None,
            module=None if module is None else self._facts.modules[module],
            members=tuple(
                FamilyMember(
                    key,
                    method if key is not None else None,
                    tuple(self._graphs[graph] for graph in graphs),
                )
                for key, (_, graphs) in zip(keys, family.members, strict=True)
            ),
        )


def _make_names_unique(families: Sequence[GraphFamily]) -> tuple[GraphFamily, ...]:
    """Add to equal names the first caller in which they differ, or else the graphs of a step."""
    by_name: dict[str, list[GraphFamily]] = {}
    for family in families:
        by_name.setdefault(family.name, []).append(family)
    names: dict[str, int] = {}
    renamed_families = []
    for family in families:
        others = by_name[family.name]
        suffix = ""
        if len(others) > 1:
            suffix = f", {_find_own_caller(family, others) or _count_step_graphs(family)}"
        name = family.name + suffix
        number = names[name] = names.get(name, 0) + 1
        renamed_families.append(replace(family, name=name if number == 1 else f"{name} ({number})"))
    return tuple(renamed_families)


def _find_own_caller(family: GraphFamily, others: Sequence[GraphFamily]) -> str | None:
    for number, caller in enumerate(family.captured_at):
        if any(other.captured_at[number : number + 1] != (caller,) for other in others):
            return caller
    return None


def _count_step_graphs(family: GraphFamily) -> str:
    counts = sorted({len(member.graphs) for member in family.members})
    counts_text = "/".join(map(str, counts))
    return f"{counts_text} {'graph' if counts == [1] else 'graphs'} per step"


def derive_shape_keys(
    shapes: Sequence[tuple[_Key, ...]],
) -> tuple[tuple[str, ...], Sequence[_Key | None]]:
    """Derive axes and keys of members from their input shapes, one row of shapes per member.

    Sizes that differ between members form the key; always equal ones count once. Without such
    sizes, or with other differences, there are no axes and the keys are None.
    """
    ranks = {_count_axes(row) for row in shapes}
    columns: dict[_Key, str] = {}
    if len(ranks) == 1:
        for number, inputs in enumerate(zip(*shapes, strict=True)):
            for axis, sizes in enumerate(zip(*inputs, strict=True)):
                if len(set(sizes)) > 1:
                    columns.setdefault(sizes, f"input {number} size({axis})")
    if not columns:
        return (), [None] * len(shapes)
    return tuple(columns.values()), list(zip(*columns, strict=True))


def has_family_shapes(rows: Sequence[tuple[_Key, ...]], shapes: tuple[_Key, ...]) -> bool:
    """Return whether ``shapes`` differ from those of members only where these differ too.

    True if the shapes do not tell: if they are not recorded, or if members have equal or unlike
    ones.
    """
    if not shapes or len(set(rows)) < 2 or len({_count_axes(row) for row in rows}) != 1:
        return True
    if _count_axes(shapes) != _count_axes(rows[0]):
        return False
    members = zip(*map(_flatten, rows), strict=True)
    return all(
        len(set(sizes)) > 1 or size == sizes[0]
        for sizes, size in zip(members, _flatten(shapes), strict=True)
    )


def find_shape_size(rows: Sequence[tuple[_Key, ...]], shapes: tuple[_Key, ...]) -> int | None:
    """Return the size in ``shapes`` at the positions where the shapes of members differ.

    None if there is no single size, or if the rest of the shapes is different.
    """
    if len({_count_axes(row) for row in (*rows, shapes)}) != 1:
        return None
    sizes, columns = set(), set()
    for *key_values, shape_values in zip(
        *(_flatten(row) for row in rows), _flatten(shapes), strict=True
    ):
        if len(set(key_values)) > 1:
            columns.add(tuple(key_values))
            sizes.add(shape_values)
        elif key_values[:1] != [shape_values]:
            return None
    return sizes.pop() if len(columns) == len(sizes) == 1 else None


def _count_axes(shapes: tuple[_Key, ...]) -> _Key:
    return tuple(len(shape) for shape in shapes)


def _flatten(shapes: tuple[_Key, ...]) -> _Key:
    return tuple(size for shape in shapes for size in shape)
