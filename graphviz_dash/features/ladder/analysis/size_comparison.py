"""The families of one name in several runs, size by size: two ladders, or two versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from graphviz_dash.analysis.loop.family_report import FamilyReport, LoopReport, MemberReport


class SizeRow(Struct, frozen=True):
    """One key in the runs that have it."""

    size: int
    """The number of the key that is padded."""
    rest: tuple[int, ...]
    """The other numbers."""
    members: Mapping[str, MemberReport]
    """What serves it, by the names of the runs."""

    def change(self, before: str, after: str) -> float | None:
        """The replay time in the run ``after`` over that in ``before``, less one; None where one of
        them was not timed."""
        first, second = self.members.get(before), self.members.get(after)
        if first is None or second is None or first.gpu is None or second.gpu is None:
            return None
        return second.gpu.median / first.gpu.median - 1 if first.gpu.median else None


class SizeComparison(Struct, frozen=True):
    """A family in several runs."""

    family: str
    """Its name."""
    axis: str
    """What is padded."""
    families: Mapping[str, FamilyReport]
    """The family by the names of the runs, two at least."""
    rows: tuple[SizeRow, ...]
    """By size."""


def compare_sizes(reports: Sequence[LoopReport]) -> tuple[SizeComparison, ...]:
    """The families of known sizes that several of ``reports`` have under one name; of several of
    that name in a run the one with the most steps."""
    named: dict[str, dict[str, FamilyReport]] = {}
    for report in reports:
        for family in report.families:
            if family.has_sizes:
                named.setdefault(family.family.name, {}).setdefault(report.run, family)
    return tuple(_compared(name, families) for name, families in named.items() if len(families) > 1)


def _compared(name: str, families: Mapping[str, FamilyReport]) -> SizeComparison:
    keys: dict[tuple[int, tuple[int, ...]], dict[str, MemberReport]] = {}
    for run, family in families.items():
        for member in family.members:
            if member.size is not None:
                keys.setdefault((member.size, member.rest), {})[run] = member
    first = next(iter(families.values())).family
    return SizeComparison(
        family=name,
        axis="size" if first.size_axis is None else first.axes[first.size_axis],
        families=families,
        rows=tuple(SizeRow(size, rest, keys[size, rest]) for size, rest in sorted(keys)),
    )
