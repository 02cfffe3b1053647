"""Sizes of a family at which kernel selection changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import pairwise

from msgspec import Struct

from graphviz_dash.analysis.loop.family_report import MemberReport
from graphviz_dash.model.node_names import NodeNames


class Replacement(Struct, frozen=True):
    """A kernel replaced by another one."""

    old: str | None
    """Kernel of the smaller size; None for an added kernel."""
    new: str | None
    """Kernel of the larger size; None for a removed kernel."""
    count: int


class KernelChange(Struct, frozen=True):
    """Two neighbouring sizes with different kernels."""

    smaller: MemberReport
    larger: MemberReport
    replacements: tuple[Replacement, ...]
    """Replacements, most frequent first."""

    @property
    def node_count(self) -> int:
        """Number of nodes that differ."""
        return sum(replacement.count for replacement in self.replacements)


def find_kernel_changes(
    members: Sequence[MemberReport], node_names: NodeNames
) -> tuple[KernelChange, ...]:
    """Find neighbouring sizes with equal other axes and different node names."""
    groups: dict[tuple[int, ...], list[MemberReport]] = {}
    for member in members:
        if member.size is not None and all(
            graph in node_names.codes for graph in member.member.graphs
        ):
            groups.setdefault(member.other_axes, []).append(member)
    changes = []
    for group in groups.values():
        for before, after in pairwise(group):
            if _join_codes(before, node_names) != _join_codes(after, node_names):
                names = [
                    node_names.get_names(neighbour.member.graphs) for neighbour in (before, after)
                ]
                changes.append(KernelChange(before, after, _count_replacements(*names)))
    changes.sort(key=lambda change: change.larger.size or 0)
    return tuple(changes)


def _join_codes(member: MemberReport, node_names: NodeNames) -> bytes:
    return b"".join(node_names.codes[graph] for graph in member.member.graphs)


def _count_replacements(before: list[str], after: list[str]) -> tuple[Replacement, ...]:
    pairs: Counter[tuple[str | None, str | None]]
    if len(before) == len(after):
        pairs = Counter((old, new) for old, new in zip(before, after, strict=True) if old != new)
    else:
        pairs = Counter(_align_names(before, after))
    return tuple(Replacement(*pair, count) for pair, count in pairs.most_common())


def _align_names(before: list[str], after: list[str]) -> list[tuple[str | None, str | None]]:
    pairs: list[tuple[str | None, str | None]] = []
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, first, last, new_start, new_end in matcher.get_opcodes():
        if kind == "equal":
            continue
        old: list[str | None] = [*before[first:last]]
        new: list[str | None] = [*after[new_start:new_end]]
        longest = max(len(old), len(new))
        old += [None] * (longest - len(old))
        new += [None] * (longest - len(new))
        pairs += zip(old, new, strict=True)
    return pairs
