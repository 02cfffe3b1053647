"""Where along the sizes of a family other kernels are chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import pairwise

from msgspec import Struct

from graphviz_dash.analysis.loop.family_report import MemberReport
from graphviz_dash.model.node_names import NodeNames


class Replacement(Struct, frozen=True):
    """A kernel that stands where another one stood."""

    before: str | None
    """The smaller size's; None where there is one more."""
    after: str | None
    """The larger size's; None where there is one less."""
    count: int
    """In how many places."""


class KernelChange(Struct, frozen=True):
    """Two neighbouring sizes whose graphs are of other kernels."""

    before: MemberReport
    """The smaller."""
    after: MemberReport
    """The larger."""
    replacements: tuple[Replacement, ...]
    """The most frequent first."""

    @property
    def nodes(self) -> int:
        """How many nodes differ."""
        return sum(replacement.count for replacement in self.replacements)


def kernel_changes(
    members: Sequence[MemberReport], node_names: NodeNames
) -> tuple[KernelChange, ...]:
    """Neighbours among ``members``, which stand by size, of equal other numbers of their keys,
    whose nodes are of other names. Near-linear in the nodes where names are alike; graphs whose
    names were not read are passed over.
    """
    lines: dict[tuple[int, ...], list[MemberReport]] = {}
    for member in members:
        if member.size is not None and all(
            graph in node_names.codes for graph in member.member.graphs
        ):
            lines.setdefault(member.rest, []).append(member)
    changes = []
    for line in lines.values():
        for before, after in pairwise(line):
            if _codes(before, node_names) != _codes(after, node_names):
                names = [node_names.of(each.member.graphs) for each in (before, after)]
                changes.append(KernelChange(before, after, _replacements(*names)))
    changes.sort(key=lambda change: change.after.size or 0)
    return tuple(changes)


def _codes(member: MemberReport, node_names: NodeNames) -> bytes:
    return b"".join(node_names.codes[graph] for graph in member.member.graphs)


def _replacements(before: list[str], after: list[str]) -> tuple[Replacement, ...]:
    pairs: Counter[tuple[str | None, str | None]]
    if len(before) == len(after):
        pairs = Counter((old, new) for old, new in zip(before, after, strict=True) if old != new)
    else:
        pairs = Counter(_aligned(before, after))
    return tuple(Replacement(*pair, count) for pair, count in pairs.most_common())


def _aligned(before: list[str], after: list[str]) -> list[tuple[str | None, str | None]]:
    pairs: list[tuple[str | None, str | None]] = []
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, first, last, since, until in matcher.get_opcodes():
        if kind == "equal":
            continue
        old: list[str | None] = [*before[first:last]]
        new: list[str | None] = [*after[since:until]]
        longest = max(len(old), len(new))
        old += [None] * (longest - len(old))
        new += [None] * (longest - len(new))
        pairs += zip(old, new, strict=True)
    return pairs
