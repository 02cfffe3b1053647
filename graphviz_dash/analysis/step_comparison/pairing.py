"""Pairing of the work of two runs: eager kernels and graph nodes.

Both sides are sequences in issue order with chains of work that must run in sequence. An eager
chain is a stream; a graph chain is a path without fork or join. The order of branches therefore
does not matter:

1. *order*: a graph chain is entered if an eager item matches one of its first items. Both are
followed while they match (key: operator path, name, launch shape). At a difference, they resume at
the point of agreement with the fewest skipped items. 2. *context*: remaining items are paired if an
item is unique on both sides together with its neighbours, and followed in both directions. 3. *name
and launch*, *operator*, *name*: remaining items between the partners of the previous and next nodes
are paired by the full key, then by operator only (a different kernel does the work), then by name
only (the operator is unknown or different). 4. *split*: a remaining item next to another kernel of
the same operator joins its pair: one kernel on one side, several on the other.

Near-linear, because each item is compared with a bounded number of others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.unique_context import find_unique_pairs

NOTHING: Final = -1

_COMPARED_ITEMS: Final = 20
"""Items of each side to align at a difference between two chains."""
_EQUAL, _EQUAL_OP, _UNLIKE, _LEFT_OUT = 4, 1, -2, -2
"""Scores of two aligned items, and of a skipped one."""
_ACROSS, _UP, _LEFT = range(3)
_ENTRY_ITEMS: Final = 8
"""First items by which a chain can be entered."""
_MIN_SHARE: Final = 0.5
_MIN_SHARE_NOT_READY: Final = 0.8
"""Minimum likeness to enter a chain with all, or only some, predecessors entered."""
_READY, _HALF_READY, _NOT_READY = 2, 1, 0
_MAX_DISTANCE: Final = 256
"""Maximum distance of an item from the partners of its predecessors."""


class PairMethod(IntEnum):
    """Method that found a pair, most reliable first."""

    ORDER = 0
    CONTEXT = 1
    NAME_AND_LAUNCH = 2
    OPERATOR = 3
    NAME = 4
    SPLIT = 5


METHOD_NAMES: Final = (
    "order",
    "unique context",
    "name and launch",
    "operator",
    "name",
    "part of an operator",
)

_CONFIDENCE: Final = {
    PairMethod.ORDER: 0.99,
    PairMethod.CONTEXT: 0.95,
    PairMethod.NAME_AND_LAUNCH: 0.9,
    PairMethod.OPERATOR: 0.8,
    PairMethod.NAME: 0.6,
    PairMethod.SPLIT: 0.6,
}
_CERTAIN: Final = 1.0


class WorkSequence(Struct, frozen=True):
    """Items of one of two runs in issue order.

    Arrays of shape (n,) with codes of a vocabulary shared by both runs.
    """

    key: Ints
    """Code of all properties of an item."""
    op: Ints
    """Code of operator path and kind; NOTHING if the trace has no operator."""
    name: Ints
    """Code of kind and name."""
    edges: Ints
    """Items that must follow each other, shape (k, 2), source first.

    Items with one predecessor and one successor form a chain.
    """

    @classmethod
    def from_lanes(cls, key: Ints, op: Ints, name: Ints, lane: Ints) -> WorkSequence:
        """Build a side whose items follow each other on their lanes (streams).

        A chain ends where a lane pauses for more than a few items of others, because later items
        may wait for those.
        """
        order = np.argsort(lane, kind="stable")
        pause = 2 * len(np.unique(lane))
        same_lane = np.flatnonzero(
            (lane[order][1:] == lane[order][:-1]) & (np.diff(order) <= pause)
        )
        return cls(key, op, name, np.stack((order[same_lane], order[same_lane + 1]), axis=1))


class ItemPairs(Struct, frozen=True):
    """Pairs as parallel arrays, sorted by ``after``.

    An item is in several pairs only if one operator runs a different number of kernels in the
    other run.
    """

    before: Ints
    """Item index in the first sequence."""
    after: Ints
    """Item index in the second sequence."""
    method: Ints
    confidence: Floats
    """Confidence of the pair, 0 to 1."""


def pair_items(before: WorkSequence, after: WorkSequence) -> ItemPairs:
    """Pair the items of two sides."""
    if len(before.key) == len(after.key) and np.array_equal(before.key, after.key):
        linear = len(after.edges) >= len(after.key) - 1 and _is_line(after)
        if linear and _is_line(before):
            positions = np.arange(len(before.key), dtype=np.int64)
            return ItemPairs(
                positions, positions, np.zeros_like(positions), np.full(len(positions), _CERTAIN)
            )
    return _Pairing(before, after).compute_pairs()


def _is_line(side: WorkSequence) -> bool:
    positions = np.arange(len(side.key) - 1, dtype=np.int64)
    return len(side.edges) == len(positions) and np.array_equal(
        side.edges, np.stack((positions, positions + 1), axis=1)
    )


class _Chains:
    """Neighbours along chains; NOTHING at the ends of a side and at forks and joins."""

    def __init__(self, side: WorkSequence) -> None:
        count = len(side.key)
        source, target = side.edges[:, 0], side.edges[:, 1]
        single = (np.bincount(source, minlength=count)[source] == 1) & (
            np.bincount(target, minlength=count)[target] == 1
        )
        after = np.full(count, NOTHING, dtype=np.int64)
        before = np.full(count, NOTHING, dtype=np.int64)
        after[source[single]] = target[single]
        before[target[single]] = source[single]
        self.next_array, self.previous_array = after, before
        self.next: list[int] = after.tolist()
        self.previous: list[int] = before.tolist()


class _Pairing:
    def __init__(self, before: WorkSequence, after: WorkSequence) -> None:
        self._sides = before, after
        self._chains = _Chains(before), _Chains(after)
        self._keys: tuple[list[int], list[int]] = before.key.tolist(), after.key.tolist()
        self._ops: tuple[list[int], list[int]] = before.op.tolist(), after.op.tolist()
        # One additional item, so that NOTHING as an index counts as paired.
        self._partner = [[NOTHING] * len(before.key) + [0], [NOTHING] * len(after.key) + [0]]
        self._method = [0] * len(after.key)
        self._sure = [0.0] * len(after.key)
        self._forward = self._chains[0].next, self._chains[1].next
        self._backward = self._chains[0].previous, self._chains[1].previous
        self._onward = self._forward
        self._head = [0] * len(after.key)
        self._tail = [NOTHING] * len(after.key)
        # For the chain that starts at an index: can be entered, was entered, was partly entered.
        self._opened = [False] * len(after.key)
        self._entered = [False] * len(after.key)
        self._started = [False] * len(after.key)
        self._entries: dict[int, list[int]] = {}
        self._splits: list[tuple[int, int]] = []
        source, target = after.edges[:, 0], after.edges[:, 1]
        self._before = _Neighbours(target, source, len(after.key))
        self._after = _Neighbours(source, target, len(after.key))

    def compute_pairs(self) -> ItemPairs:
        self._pair_by_order()
        self._pair_by_context()
        before, after = self._sides
        for method, eager_codes, graph_codes in (
            (PairMethod.NAME_AND_LAUNCH, before.key, after.key),
            (PairMethod.OPERATOR, before.op, after.op),
            (PairMethod.NAME, before.name, after.name),
        ):
            self._pair_between(method, eager_codes, graph_codes)
        self._pair_by_split()
        partner = np.array(self._partner[1][:-1], dtype=np.int64)
        paired_rows = np.flatnonzero(partner >= 0)
        extra = np.array(self._splits, dtype=np.int64).reshape(-1, 2)
        graph_items = np.concatenate((paired_rows, extra[:, 1]))
        methods = np.array(self._method, dtype=np.int64)[paired_rows]
        confidence = np.array(self._sure, dtype=np.float64)[paired_rows]
        order = np.argsort(graph_items, kind="stable")
        return ItemPairs(
            before=np.concatenate((partner[paired_rows], extra[:, 0]))[order],
            after=graph_items[order],
            method=np.concatenate((methods, np.full(len(extra), int(PairMethod.SPLIT))))[order],
            confidence=np.concatenate(
                (confidence, np.full(len(extra), _CONFIDENCE[PairMethod.SPLIT]))
            )[order],
        )

    def _add_pair(self, eager: int, graph: int, method: PairMethod, confidence: float) -> None:
        self._partner[0][eager], self._partner[1][graph] = graph, eager
        self._method[graph], self._sure[graph] = method, confidence

    # -- order ------------------------------------------------------------------------------------

    def _pair_by_order(self) -> None:
        keys, partner = self._keys, self._partner
        self._find_chains()
        for eager in range(len(keys[0])):
            if partner[0][eager] != NOTHING:
                continue
            candidates = self._entries.get(keys[0][eager])
            if not candidates:
                continue
            open_nodes = [node for node in candidates if not self._entered[self._head[node]]]
            self._entries[keys[0][eager]] = open_nodes
            entered = self._find_entry(
                eager, list(dict.fromkeys(self._head[node] for node in open_nodes))
            )
            if entered is not None:
                eager_start, node, confidence = entered
                head = self._head[node]
                self._started[head] = self._entered[head] = True
                stopped = self._follow_chains(eager_start, node, PairMethod.ORDER, confidence)
                self._open_successors(head)
                if stopped != NOTHING:
                    self._split_chain(stopped)

    def _split_chain(self, stopped: int) -> None:
        chain = _walk_chain(stopped, self._chains[1].next)
        for node in chain:
            self._head[node] = stopped
        self._started[stopped], self._entered[stopped] = True, False
        self._tail[stopped] = chain[-1]
        self._open_chain(stopped)

    def _open_chain(self, head: int) -> None:
        for node in _walk_chain(head, self._chains[1].next, _ENTRY_ITEMS):
            self._entries.setdefault(self._keys[1][node], []).append(node)

    def _open_successors(self, head: int) -> None:
        for next_chain in self._after[self._tail[head]]:
            if not self._opened[next_chain]:
                self._opened[next_chain] = True
                self._open_chain(next_chain)

    def _find_entry(self, eager: int, heads: list[int]) -> tuple[int, int, float] | None:
        """Return where an eager chain and a graph chain agree from ``eager`` on, with a confidence.

        A chain can be entered once at least one of its predecessors has been entered.
        """
        # In a long row of equal chains, the first ones are as good as any.
        ready = [(level, head) for head in heads if (level := self._get_readiness(head))][:32]
        matches: list[tuple[int, float, int, tuple[int, int]]] = []
        for level, head in ready:
            alignment = self._align_chains(eager, head)
            if alignment.share >= (_MIN_SHARE if level == _READY else _MIN_SHARE_NOT_READY):
                matches.append((level, alignment.score, -head, (alignment.eager, alignment.graph)))
        if not matches:
            return None
        level, score, _, positions = max(matches)
        tied = sum((level, score) == other[:2] for other in matches)
        return *positions, _CONFIDENCE[PairMethod.ORDER] if tied == 1 else 1 / tied

    def _find_chains(self) -> None:
        """Find head and tail of each chain, and open chains without dependencies."""
        for head in np.flatnonzero(self._chains[1].previous_array == NOTHING).tolist():
            chain = _walk_chain(head, self._chains[1].next)
            for node in chain:
                self._head[node] = head
            self._tail[head] = chain[-1]
            if not self._before[head]:
                self._opened[head] = True
                self._open_chain(head)

    def _get_readiness(self, node: int) -> int:
        before = [
            self._started[self._head[earlier_chain]]
            for earlier_chain in self._before[self._head[node]]
        ]
        return _READY if all(before) else _HALF_READY if any(before) else _NOT_READY

    def _align_chains(self, eager: int, graph: int) -> _LocalAlignment:
        eager_items = self._get_unpaired_run(0, eager)
        graph_items = self._get_unpaired_run(1, graph)
        return _align_locally(
            eager_items,
            graph_items,
            [self._keys[0][item] for item in eager_items],
            [self._keys[1][item] for item in graph_items],
            [self._ops[0][item] for item in eager_items],
            [self._ops[1][item] for item in graph_items],
        )

    def _get_unpaired_run(self, side: int, item: int) -> list[int]:
        free_items: list[int] = []
        partners, onward_rows = self._partner[side], self._onward[side]
        while partners[item] == NOTHING and len(free_items) < _COMPARED_ITEMS:
            free_items.append(item)
            item = onward_rows[item]
        return free_items

    def _follow_chains(self, eager: int, graph: int, method: PairMethod, confidence: float) -> int:
        """Pair two chains while they agree; return the first unpaired graph item."""
        next_eager, next_graph = self._onward
        eager_partner, graph_partner = self._partner
        eager_keys, graph_keys = self._keys
        while eager_partner[eager] == NOTHING and graph_partner[graph] == NOTHING:
            if eager_keys[eager] == graph_keys[graph]:
                eager_partner[eager], graph_partner[graph] = graph, eager
                self._method[graph], self._sure[graph] = method, confidence
                eager, graph = next_eager[eager], next_graph[graph]
                continue
            resume_point = self._find_resume_point(eager, graph)
            if resume_point is None:
                break
            eager, graph = resume_point
        return graph if graph_partner[graph] == NOTHING else NOTHING

    def _find_resume_point(self, eager: int, graph: int) -> tuple[int, int] | None:
        (next_eager, next_graph), (eager_keys, graph_keys) = self._onward, self._keys
        eager_after, graph_after = next_eager[eager], next_graph[graph]
        if NOTHING not in (eager_after, graph_after):
            next_equal = eager_keys[eager_after] == graph_keys[graph_after]
            if next_equal and self._ops[0][eager] == self._ops[1][graph] != NOTHING:
                # A different kernel for the same operator, followed by equal items.
                return eager_after, graph_after
        alignment = self._align_chains(eager, graph)
        return None if alignment.eager == NOTHING else (alignment.eager, alignment.graph)

    # -- context ----------------------------------------------------------------------------------

    def _pair_by_context(self) -> None:
        for radius in (8, 2, 1, 0):
            free = [np.array(partner[:-1], dtype=np.int64) == NOTHING for partner in self._partner]
            if not free[0].any() or not free[1].any():
                return
            seeds = find_unique_pairs(
                (self._sides[0].key, self._chains[0].next_array, self._chains[0].previous_array),
                (self._sides[1].key, self._chains[1].next_array, self._chains[1].previous_array),
                radius,
            )
            for eager, graph in seeds:
                if self._partner[0][eager] == NOTHING and self._partner[1][graph] == NOTHING:
                    confidence = _CONFIDENCE[PairMethod.CONTEXT]
                    self._follow_chains(eager, graph, PairMethod.CONTEXT, confidence)
                    self._onward = self._backward
                    eager_before, graph_before = self._onward[0][eager], self._onward[1][graph]
                    self._follow_chains(eager_before, graph_before, PairMethod.CONTEXT, confidence)
                    self._onward = self._forward

    # -- remaining items ---------------------------------------------------------------------------

    def _pair_between(self, method: PairMethod, eager_codes: Ints, graph_codes: Ints) -> None:
        """Pair remaining items by a code, between the partners of the previous and next nodes."""
        unpaired_by_code: dict[int, list[int]] = {}
        partner = self._partner
        unpaired_rows = np.flatnonzero(np.array(partner[0][:-1], dtype=np.int64) == NOTHING)
        for item, code in zip(
            unpaired_rows.tolist(), eager_codes[unpaired_rows].tolist(), strict=True
        ):
            if code != NOTHING:
                unpaired_by_code.setdefault(code, []).append(item)
        free = np.flatnonzero(np.array(partner[1][:-1], dtype=np.int64) == NOTHING)
        low = dict.fromkeys(free.tolist(), NOTHING)
        high = self._find_upper_bounds(free.tolist())
        for node, code in zip(free.tolist(), graph_codes[free].tolist(), strict=True):
            for before in self._before[node]:
                bound = partner[1][before]
                low[node] = max(low[node], low.get(before, NOTHING) if bound == NOTHING else bound)
            candidates = unpaired_by_code.get(code)
            if not candidates:
                continue
            index = bisect_right(candidates, low[node])
            if index == len(candidates) or candidates[index] >= high[node]:
                continue
            if candidates[index] - low[node] > _MAX_DISTANCE:
                continue
            eager = candidates.pop(index)
            self._add_pair(eager, node, method, _CONFIDENCE[method])

    def _find_upper_bounds(self, unpaired: Sequence[int]) -> dict[int, int]:
        high = dict.fromkeys(unpaired, len(self._keys[0]))
        for node in reversed(unpaired):
            for after in self._after[node]:
                partner = self._partner[1][after]
                high[node] = min(
                    high[node], high.get(after, high[node]) if partner == NOTHING else partner
                )
        return high

    def _pair_by_split(self) -> None:
        for side, opposite in ((0, 1), (1, 0)):
            chain, ops = self._chains[side], self._ops[side]
            unpaired_rows = [
                item
                for item, partner in enumerate(self._partner[side][:-1])
                if partner == NOTHING and ops[item] != NOTHING
            ]
            joined_items: dict[int, int] = {}
            for item in unpaired_rows:
                for neighbour in (chain.previous[item], chain.next[item]):
                    if neighbour == NOTHING or ops[neighbour] != ops[item]:
                        continue
                    partner = self._partner[side][neighbour]
                    partner = (
                        joined_items.get(neighbour, NOTHING) if partner == NOTHING else partner
                    )
                    if partner == NOTHING:
                        continue
                    node = neighbour if side == 1 else partner
                    differs = neighbour in joined_items or self._method[node] == PairMethod.OPERATOR
                    if differs and self._ops[opposite][partner] == ops[item]:
                        joined_items[item] = partner
                        break
            self._splits += [
                (item, partner) if side == 0 else (partner, item)
                for item, partner in joined_items.items()
            ]


class _LocalAlignment(Struct, frozen=True):
    score: float
    share: float
    """Fraction of the shorter sequence with an equal partner, 0 to 1."""
    eager: int
    """First eager item with an equal partner, NOTHING if none."""
    graph: int
    """Its partner, NOTHING if none."""


def _align_locally(
    eager_items: list[int],
    graph_items: list[int],
    eager_keys: list[int],
    graph_keys: list[int],
    eager_ops: list[int],
    graph_ops: list[int],
) -> _LocalAlignment:
    """Align by Needleman and Wunsch (1970) with free ends: equal keys, equal operators, skipped
    items.
    """
    if not eager_items or not graph_items:
        return _LocalAlignment(0.0, 0.0, NOTHING, NOTHING)
    width = len(graph_items)
    row = [_LEFT_OUT * length for length in range(width + 1)]
    directions: list[list[int]] = []
    best, best_at = 0, (0, 0)
    # Innermost loop of the pairing: no calls other than append.
    for x, (eager_key, eager_op) in enumerate(zip(eager_keys, eager_ops, strict=True)):
        operator_score = _EQUAL_OP if eager_op != NOTHING else _UNLIKE
        left = _LEFT_OUT * (x + 1)
        current, row_directions = [left], []
        across_from = row[0]
        for graph_key, graph_op, above_score in zip(graph_keys, graph_ops, row[1:], strict=True):
            if eager_key == graph_key:
                highest = across_from + _EQUAL
            else:
                highest = across_from + (operator_score if eager_op == graph_op else _UNLIKE)
            across_from = above_score
            gap_score = above_score + _LEFT_OUT
            left += _LEFT_OUT
            step = _ACROSS
            if gap_score > highest:
                highest, step = gap_score, _UP
            if left > highest:
                highest, step = left, _LEFT
            row_directions.append(step)
            left = highest
            current.append(left)
            if left > best:
                best, best_at = left, (x + 1, len(row_directions))
        directions.append(row_directions)
        row = current
    equal = [(x, y) for x, y in _trace_back(directions, best_at) if eager_keys[x] == graph_keys[y]]
    if not equal:
        return _LocalAlignment(best, 0.0, NOTHING, NOTHING)
    x, y = equal[-1]
    return _LocalAlignment(
        best, len(equal) / min(len(eager_items), width), eager_items[x], graph_items[y]
    )


def _trace_back(directions: list[list[int]], end: tuple[int, int]) -> list[tuple[int, int]]:
    x, y = end
    aligned_pairs = []
    while x and y:
        step = directions[x - 1][y - 1]
        if step == _ACROSS:
            x, y = x - 1, y - 1
            aligned_pairs.append((x, y))
        elif step == _UP:
            x -= 1
        else:
            y -= 1
    return aligned_pairs


def _walk_chain(item: int, successors: list[int], max_count: int | None = None) -> list[int]:
    items: list[int] = []
    while item != NOTHING and (max_count is None or len(items) < max_count):
        items.append(item)
        item = successors[item]
    return items


class _Neighbours:
    """The values of each of ``count`` keys; ``by`` holds the key of each value."""

    def __init__(self, by: Ints, values: Ints, count: int) -> None:
        order = np.argsort(by, kind="stable")
        self._values: list[int] = values[order].tolist()
        self._first: list[int] = np.searchsorted(by[order], np.arange(count + 1)).tolist()

    def __getitem__(self, key: int) -> list[int]:
        return self._values[self._first[key] : self._first[key + 1]]
