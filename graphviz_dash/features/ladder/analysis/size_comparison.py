"""Comparison of a family across runs, size by size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from graphviz_dash.analysis.loop.family_report import FamilyReport, LoopReport, MemberReport


class SizeRow(Struct, frozen=True):
    """One key in the runs that have it."""

    size: int
    """Padded number of the key."""
    other_axes: tuple[int, ...]
    """Other numbers of the key."""
    members: Mapping[str, MemberReport]
    """Family members by run name."""

    def compute_change(self, before: str, after: str) -> float | None:
        """Compute the relative change of the replay time; None if either was not timed."""
        first, second = self.members.get(before), self.members.get(after)
        if first is None or second is None or first.gpu is None or second.gpu is None:
            return None
        return second.gpu.median / first.gpu.median - 1 if first.gpu.median else None


class SizeComparison(Struct, frozen=True):
    """A family in several runs."""

    family: str
    axis: str
    families: Mapping[str, FamilyReport]
    """By run name; at least two."""
    rows: tuple[SizeRow, ...]


def compare_sizes(reports: Sequence[LoopReport]) -> tuple[SizeComparison, ...]:
    """Compare families of known sizes that occur in several reports under one name."""
    families_by_name: dict[str, dict[str, FamilyReport]] = {}
    for report in reports:
        for family in report.families:
            if family.has_sizes:
                families_by_name.setdefault(family.family.name, {}).setdefault(report.run, family)
    return tuple(
        _compare_family(name, families)
        for name, families in families_by_name.items()
        if len(families) > 1
    )


def _compare_family(name: str, families: Mapping[str, FamilyReport]) -> SizeComparison:
    keys: dict[tuple[int, tuple[int, ...]], dict[str, MemberReport]] = {}
    for run, family in families.items():
        for member in family.members:
            if member.size is not None:
                keys.setdefault((member.size, member.other_axes), {})[run] = member
    first = next(iter(families.values())).family
    return SizeComparison(
        family=name,
        axis="size" if first.size_axis is None else first.axes[first.size_axis],
        families=families,
        rows=tuple(SizeRow(size, rest, keys[size, rest]) for size, rest in sorted(keys)),
    )
