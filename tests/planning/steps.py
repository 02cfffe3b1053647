"""Steps to plan, written as what their operators read and write."""

from __future__ import annotations

from dataclasses import dataclass, field

from graphviz_dash.model.parallel import Access, Operator, Storage

ALL = (0, 64)


@dataclass
class Step:
    """Operators and storages, added one after another; storages are called by letters."""

    operators: list[Operator] = field(default_factory=list)
    storages: list[Storage] = field(default_factory=list)
    number: dict[str, int] = field(default_factory=dict)

    def outside(self, names: str) -> Step:
        for name in names:
            self._storage(name, None)
        return self

    def op(self, reads: str = "", makes: str = "", writes: str = "", **facts: object) -> Step:
        """An operator; ``span`` is of all that it reads and writes."""
        begin, end = facts.pop("span", ALL)  # type: ignore[misc]
        for name in makes:
            self._storage(name, len(self.operators))
        accesses = [Access(self.number[name], begin, end, False) for name in reads]
        accesses += [Access(self.number[name], begin, end, True) for name in writes]
        accesses += [Access(self.number[name], *ALL, True) for name in makes]
        facts = {"name": "op", "nodes": 1} | facts
        self.operators.append(Operator(accesses=tuple(accesses), **facts))  # type: ignore[arg-type]
        return self

    def _storage(self, name: str, maker: int | None) -> None:
        self.number[name] = len(self.storages)
        self.storages.append(Storage(64, (16,), "float32", maker))
