"""Pairing of the work in two runs' steps: same, replaced, added and removed.

Every piece of work is in exactly one row, so sums over rows are sums over the steps.
"""

from __future__ import annotations

import re
from collections import Counter
from enum import StrEnum
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.step_comparison.pairing import (
    METHOD_NAMES,
    NOTHING,
    ItemPairs,
    WorkSequence,
    pair_items,
)
from graphviz_dash.analysis.step_comparison.typical_step import TypicalStep, WorkItem
from graphviz_dash.analysis.trace.signatures import normalise_name


class PairKind(StrEnum):
    """Relation of a piece of work in the run to the baseline."""

    SAME = "same"
    OTHER = "other kernel"
    ADDED = "added copy or set"
    ONLY_RUN = "only in the run"
    REMOVED = "removed copy or set"
    ONLY_BASELINE = "only in the baseline"


FUSED: Final = "fused operators"
"""Method for eager kernels whose operators a generated kernel's name lists."""

NO_METHOD: Final = "none"
"""Method of a row with only one side."""

_FUSED_CONFIDENCE: Final = 0.6

# Equivalent operators: torch's eager names and those of compilers, which split the bias from a
# product.
_FAMILIES: Final = {
    **dict.fromkeys(("addmm", "mm", "bmm", "baddbmm", "matmul", "linear"), "matmul"),
    **dict.fromkeys(("_scaled_dot_product_efficient_attention",), "attention"),
}
_GENERATED: Final = re.compile(r"^triton_\w+?_fused_(\w+?)_?\d*$")
_OVERLOAD: Final = re.compile(r"^\w+::|_$|\.\w+$")
_BACKWARD: Final = "backward"


class PairRow(Struct, frozen=True):
    """Corresponding pieces of work in both steps."""

    kind: PairKind
    before: tuple[int, ...]
    """Item indices in the baseline's step, ascending; may be empty.

    Several if an operator runs a different number of kernels.
    """
    after: tuple[int, ...]
    """The same in the run's step."""
    method: str
    """NO_METHOD for work without a partner."""
    confidence: float
    """Confidence of the pair, 0 to 1."""
    launch_differs: bool = False
    """True if the kernel has a different grid, block or shared memory, or the copy another size."""


class WorkPairs(Struct, frozen=True, dict=True):
    """All rows, in run order, followed by baseline-only rows in baseline order."""

    before: TypicalStep
    after: TypicalStep
    rows: tuple[PairRow, ...]

    @cached_property
    def counts(self) -> dict[PairKind, int]:
        """Pieces of work of the run by kind, plus baseline-only work."""
        pieces = Counter[PairKind]()
        for row in self.rows:
            pieces[row.kind] += len(row.after) or len(row.before)
        return {kind: pieces[kind] for kind in PairKind}

    @cached_property
    def methods(self) -> dict[str, int]:
        """Rows by matching method."""
        return dict(Counter(row.method for row in self.rows).most_common())

    @cached_property
    def baseline_rows(self) -> tuple[int, ...]:
        """Row of each piece of work in the baseline."""
        return self._index_rows([row.before for row in self.rows], len(self.before.items))

    @cached_property
    def run_rows(self) -> tuple[int, ...]:
        """Row of each piece of work in the run."""
        return self._index_rows([row.after for row in self.rows], len(self.after.items))

    @staticmethod
    def _index_rows(positions: list[tuple[int, ...]], count: int) -> tuple[int, ...]:
        rows = [NOTHING] * count
        for row, members in enumerate(positions):
            for item in members:
                rows[item] = row
        return tuple(rows)


def pair_work(before: TypicalStep, after: TypicalStep) -> WorkPairs:
    """Pair the work of the baseline's step with that of the run's."""
    codes = _Codes()
    eager_key, eager_op, eager_name = codes.encode(before.items)
    graph_key, graph_op, graph_name = codes.encode(after.items)
    lanes = WorkSequence.from_lanes(eager_key, eager_op, eager_name, before.lane)
    first = (
        WorkSequence(eager_key, eager_op, eager_name, before.edges)
        if before.group.max(initial=-1) >= 0
        else lanes
    )
    matches = pair_items(first, WorkSequence(graph_key, graph_op, graph_name, after.edges))
    return WorkPairs(before, after, _build_rows(before, after, matches))


class _Codes:
    def __init__(self) -> None:
        self._known: dict[object, int] = {}

    def encode(self, items: tuple[WorkItem, ...]) -> tuple[Ints, Ints, Ints]:
        codes = [self._encode_item(item) for item in items]
        table = np.array(codes, dtype=np.int64).reshape(-1, 3)
        return table[:, 0], table[:, 1], table[:, 2]

    def _encode_item(self, item: WorkItem) -> tuple[int, int, int]:
        name = (item.kind, _get_comparable_name(item))
        family = get_operator_family(item)
        backward = item.origin.phase == _BACKWARD
        return (
            self._get_code(("key", *name, item.shape, item.size, family)),
            NOTHING if family is None else self._get_code(("op", item.kind, family, backward)),
            self._get_code(("name", *name)),
        )

    def _get_code(self, key: object) -> int:
        return self._known.setdefault(key, len(self._known))


def get_operator_family(item: WorkItem) -> str | None:
    """Return the innermost operator without namespace, overload and in-place suffix.

    Equivalent operators share one name. None if unknown.
    """
    op = item.origin.op
    if op is None:
        return None
    word = _OVERLOAD.sub("", op)
    return _FAMILIES.get(word, word)


def _get_comparable_name(item: WorkItem) -> str:
    # Profilers report the memory types of memcpys and memsets in eager mode but not in a replay.
    return normalise_name(item.name) if item.kind == "kernel" else ""


def _build_rows(before: TypicalStep, after: TypicalStep, matches: ItemPairs) -> tuple[PairRow, ...]:
    """Merge pairs that share an item into one row, and add rows for unpaired work."""
    members: dict[int, tuple[list[int], list[int], list[tuple[str, float]]]] = {}
    owner_before: dict[int, int] = {}
    owner_after: dict[int, int] = {}
    pairs = [
        (eager_item, graph_item, METHOD_NAMES[method], confidence)
        for eager_item, graph_item, method, confidence in zip(
            matches.before.tolist(),
            matches.after.tolist(),
            matches.method.tolist(),
            matches.confidence.tolist(),
            strict=True,
        )
    ]
    pairs += [
        (eager_item, graph_item, FUSED, _FUSED_CONFIDENCE)
        for eager_item, graph_item in _find_fused_pairs(before, after, matches)
    ]
    for eager_item, graph_item, method, confidence in pairs:
        row = owner_after.get(graph_item, owner_before.get(eager_item, len(members)))
        eager_items, graph_items, matches_of_row = members.setdefault(row, ([], [], []))
        if eager_item not in owner_before:
            eager_items.append(eager_item)
        if graph_item not in owner_after:
            graph_items.append(graph_item)
        owner_before.setdefault(eager_item, row)
        owner_after.setdefault(graph_item, row)
        matches_of_row.append((method, confidence))
    rows = [
        _build_row(
            before, after, tuple(sorted(eager_items)), tuple(sorted(graph_items)), matches_of_row
        )
        for eager_items, graph_items, matches_of_row in members.values()
    ]
    rows += [
        _build_row(before, after, (), (item,), [])
        for item in range(len(after.items))
        if item not in owner_after
    ]
    rows.sort(key=lambda row: row.after)
    rows += [
        _build_row(before, after, (item,), (), [])
        for item in range(len(before.items))
        if item not in owner_before
    ]
    return tuple(rows)


def _build_row(
    before: TypicalStep,
    after: TypicalStep,
    eager_items: tuple[int, ...],
    graph_items: tuple[int, ...],
    matches: list[tuple[str, float]],
) -> PairRow:
    if not eager_items or not graph_items:
        item = after.items[graph_items[0]] if graph_items else before.items[eager_items[0]]
        is_copy_or_set = item.kind != "kernel"
        kinds = (
            (PairKind.ADDED if is_copy_or_set else PairKind.ONLY_RUN)
            if graph_items
            else (PairKind.REMOVED if is_copy_or_set else PairKind.ONLY_BASELINE)
        )
        return PairRow(kinds, eager_items, graph_items, NO_METHOD, 0.0)
    eager_work = sorted(
        (before.items[index].kind, _get_comparable_name(before.items[index]))
        for index in eager_items
    )
    graph_work = sorted(
        (after.items[index].kind, _get_comparable_name(after.items[index])) for index in graph_items
    )
    method, confidence = min(matches, key=lambda match: match[1])
    if eager_work != graph_work:
        return PairRow(PairKind.OTHER, eager_items, graph_items, method, confidence)
    launches = [
        sorted((work.items[index].shape, work.items[index].size or 0) for index in positions)
        for work, positions in ((before, eager_items), (after, graph_items))
    ]
    return PairRow(
        PairKind.SAME, eager_items, graph_items, method, confidence, launches[0] != launches[1]
    )


def _find_fused_pairs(
    before: TypicalStep, after: TypicalStep, matches: ItemPairs
) -> list[tuple[int, int]]:
    """Pair unmatched eager kernels with a generated kernel whose name lists their operators.

    Candidates are between the partners of its neighbours in launch order.
    """
    generated_items = {
        graph_item: _get_fused_operators(item.name)
        for graph_item, item in enumerate(after.items)
        if item.kind == "kernel" and _GENERATED.match(item.name)
    }
    if not generated_items:
        return []
    partner = dict(zip(matches.after.tolist(), matches.before.tolist(), strict=True))
    matched_items = set(matches.before.tolist())
    pairs: list[tuple[int, int]] = []
    low = NOTHING
    for graph_item in range(len(after.items)):
        if graph_item not in generated_items:
            low = max(low, partner.get(graph_item, low))
            continue
        high = min(
            (
                partner[later_item]
                for later_item in range(graph_item + 1, len(after.items))
                if later_item in partner
            ),
            default=len(before.items),
        )
        for eager_item in range(low + 1, high):
            words = {_OVERLOAD.sub("", op) for op in before.items[eager_item].origin.op_path}
            if eager_item not in matched_items and any(
                word in generated_items[graph_item] for word in words if word
            ):
                matched_items.add(eager_item)
                pairs.append((eager_item, graph_item))
        low = max(low, partner.get(graph_item, low))
    return pairs


def _get_fused_operators(name: str) -> str:
    """Join and enclose the operators by underscores."""
    name_match = _GENERATED.match(name)
    return f"_{name_match[1]}_" if name_match else ""
