"""Which piece of work of one run is which piece of another: eager kernels and the nodes of a graph.

Both sides are sequences in the order of issue, with chains: what must follow what. On the eager
side a chain is a stream, in a graph a path without fork or join. The order of branches therefore
does not matter, only what is in them:

1. *order*: a chain of the graph is entered where an eager item looks like one of its first, and
   both are followed side by side as long as they look alike (key: operator path, name, launch
   shape). At a difference the two go on where they agree again with the least left out.
2. *context*: what is left is paired where an item with its neighbours is unique on both sides, and
   followed in both directions.
3. *name and launch*, *operator*, *name*: what is left between partners of the nodes before and
   after it, by the whole key, then by the operator alone (another kernel does its work), then by
   the name alone (the operator is not told, or is another).
4. *split*: what is left beside another kernel of its own operator is a part of that: one kernel
   here, several there.

Near-linear: items are compared with a bounded number of others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.unique_context import unique_pairs

NOTHING: Final = -1

_LOOK: Final = 20
"""Items of either side that are laid side by side where two chains differ."""
_EQUAL, _EQUAL_OP, _UNLIKE, _LEFT_OUT = 4, 1, -2, -2
"""Scores of two items side by side, and of one that is left out."""
_ACROSS, _UP, _LEFT = range(3)
_ENTRIES: Final = 8
"""First items of a chain by which it can be entered."""
_ALIKE: Final = 0.5
_VERY_ALIKE: Final = 0.8
"""Likeness from which on a chain is entered, when it is its turn, and when it is not quite."""
_READY, _HALF_READY, _NOT_READY = 2, 1, 0
_WINDOW: Final = 256
"""How far behind the partners of its predecessors a lost item is looked for."""


class PairMethod(IntEnum):
    """How a pair was found; the order is the order of trust."""

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
    """The items of one of two runs in the order of issue; arrays of shape (n,) with codes of a
    vocabulary that both runs share."""

    key: Ints
    """All that an item is known by."""
    op: Ints
    """Its operator path and kind; NOTHING where the trace has no operator."""
    name: Ints
    """Its kind and name."""
    edges: Ints
    """Items that must follow each other, shape (k, 2), source first; an item with one before and
    one after lies in a chain."""

    @classmethod
    def in_lanes(cls, key: Ints, op: Ints, name: Ints, lane: Ints) -> WorkSequence:
        """A side whose items follow each other on their lanes (streams).

        Where a lane pauses while others get more than a few items, what goes on after the pause may
        wait for those: there a chain ends.
        """
        order = np.argsort(lane, kind="stable")
        pause = 2 * len(np.unique(lane))
        same = np.flatnonzero((lane[order][1:] == lane[order][:-1]) & (np.diff(order) <= pause))
        return cls(key, op, name, np.stack((order[same], order[same + 1]), axis=1))


class ItemPairs(Struct, frozen=True):
    """Pairs as parallel arrays, sorted by ``after``. An item is in several pairs only where one
    operator runs another number of kernels in the other run."""

    before: Ints
    """Index of the item in the first sequence."""
    after: Ints
    """Index of the item in the second sequence."""
    method: Ints
    """How the pair was matched: a Method."""
    confidence: Floats
    """How sure the pair is, 0 to 1."""


def pair_items(before: WorkSequence, after: WorkSequence) -> ItemPairs:
    """Pairs the items of two sides; see the module for the method."""
    if len(before.key) == len(after.key) and np.array_equal(before.key, after.key):
        linear = len(after.edges) >= len(after.key) - 1 and _is_line(after)
        if linear and _is_line(before):
            places = np.arange(len(before.key), dtype=np.int64)
            return ItemPairs(places, places, np.zeros_like(places), np.full(len(places), _CERTAIN))
    return _Pairing(before, after).pairs()


def _is_line(side: WorkSequence) -> bool:
    places = np.arange(len(side.key) - 1, dtype=np.int64)
    return len(side.edges) == len(places) and np.array_equal(
        side.edges, np.stack((places, places + 1), axis=1)
    )


class _Chains:
    """Neighbours along chains: NOTHING where a side begins or ends, and at forks and joins."""

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
    """The pairing on its way."""

    def __init__(self, before: WorkSequence, after: WorkSequence) -> None:
        self._sides = before, after
        self._chains = _Chains(before), _Chains(after)
        self._keys: tuple[list[int], list[int]] = before.key.tolist(), after.key.tolist()
        self._ops: tuple[list[int], list[int]] = before.op.tolist(), after.op.tolist()
        # One item more, so that NOTHING as an index reads as paired.
        self._partner = [[NOTHING] * len(before.key) + [0], [NOTHING] * len(after.key) + [0]]
        self._method = [0] * len(after.key)
        self._sure = [0.0] * len(after.key)
        self._forward = self._chains[0].next, self._chains[1].next
        self._backward = self._chains[0].previous, self._chains[1].previous
        self._onward = self._forward
        self._head = [0] * len(after.key)
        self._tail = [NOTHING] * len(after.key)
        # Of the chain that begins at a place: may be entered, was entered, was entered in part.
        self._opened = [False] * len(after.key)
        self._entered = [False] * len(after.key)
        self._started = [False] * len(after.key)
        self._entries: dict[int, list[int]] = {}
        self._splits: list[tuple[int, int]] = []
        source, target = after.edges[:, 0], after.edges[:, 1]
        self._before = _Neighbours(target, source, len(after.key))
        self._after = _Neighbours(source, target, len(after.key))

    def pairs(self) -> ItemPairs:
        self._by_order()
        self._by_context()
        before, after = self._sides
        for method, eager_codes, graph_codes in (
            (PairMethod.NAME_AND_LAUNCH, before.key, after.key),
            (PairMethod.OPERATOR, before.op, after.op),
            (PairMethod.NAME, before.name, after.name),
        ):
            self._between(method, eager_codes, graph_codes)
        self._by_split()
        partner = np.array(self._partner[1][:-1], dtype=np.int64)
        paired = np.flatnonzero(partner >= 0)
        extra = np.array(self._splits, dtype=np.int64).reshape(-1, 2)
        graph_items = np.concatenate((paired, extra[:, 1]))
        methods = np.array(self._method, dtype=np.int64)[paired]
        sure = np.array(self._sure, dtype=np.float64)[paired]
        order = np.argsort(graph_items, kind="stable")
        return ItemPairs(
            before=np.concatenate((partner[paired], extra[:, 0]))[order],
            after=graph_items[order],
            method=np.concatenate((methods, np.full(len(extra), int(PairMethod.SPLIT))))[order],
            confidence=np.concatenate((sure, np.full(len(extra), _CONFIDENCE[PairMethod.SPLIT])))[
                order
            ],
        )

    def _take(self, eager: int, graph: int, method: PairMethod, sure: float) -> None:
        self._partner[0][eager], self._partner[1][graph] = graph, eager
        self._method[graph], self._sure[graph] = method, sure

    # -- order ------------------------------------------------------------------------------------

    def _by_order(self) -> None:
        keys, partner = self._keys, self._partner
        self._find_chains()
        for eager in range(len(keys[0])):
            if partner[0][eager] != NOTHING:
                continue
            waiting = self._entries.get(keys[0][eager])
            if not waiting:
                continue
            open_nodes = [node for node in waiting if not self._entered[self._head[node]]]
            self._entries[keys[0][eager]] = open_nodes
            entered = self._enter(
                eager, list(dict.fromkeys(self._head[node] for node in open_nodes))
            )
            if entered is not None:
                mine, node, sure = entered
                head = self._head[node]
                self._started[head] = self._entered[head] = True
                stopped = self._follow(mine, node, PairMethod.ORDER, sure)
                self._open_after(head)
                if stopped != NOTHING:
                    self._cut(stopped)

    def _cut(self, stopped: int) -> None:
        """Where two chains part for good the rest can be entered like a chain of its own."""
        chain = _walk(stopped, self._chains[1].next)
        for node in chain:
            self._head[node] = stopped
        self._started[stopped], self._entered[stopped] = True, False
        self._tail[stopped] = chain[-1]
        self._open(stopped)

    def _open(self, head: int) -> None:
        """Lets a chain be entered, by the keys of its first items."""
        for node in _walk(head, self._chains[1].next, _ENTRIES):
            self._entries.setdefault(self._keys[1][node], []).append(node)

    def _open_after(self, head: int) -> None:
        """Opens the chains that come after one that was entered."""
        for later in self._after[self._tail[head]]:
            if not self._opened[later]:
                self._opened[later] = True
                self._open(later)

    def _enter(self, eager: int, heads: list[int]) -> tuple[int, int, float] | None:
        """Where an eager chain and one of the graph's chains run alike from ``eager`` on: the two
        items, and how sure that is. A chain can be entered once those before it have been, or at
        least one of them."""
        # A long row of equal chains: the first are as good as any.
        ready = [(level, head) for head in heads if (level := self._readiness(head))][:32]
        good: list[tuple[int, float, int, tuple[int, int]]] = []
        for level, head in ready:
            alike = self._compare(eager, head)
            if alike.share >= (_ALIKE if level == _READY else _VERY_ALIKE):
                good.append((level, alike.score, -head, (alike.eager, alike.graph)))
        if not good:
            return None
        level, score, _, places = max(good)
        tied = sum((level, score) == other[:2] for other in good)
        return *places, _CONFIDENCE[PairMethod.ORDER] if tied == 1 else 1 / tied

    def _find_chains(self) -> None:
        """Head and tail of each chain of the graph; those that depend on nothing are opened."""
        for head in np.flatnonzero(self._chains[1].previous_array == NOTHING).tolist():
            chain = _walk(head, self._chains[1].next)
            for node in chain:
                self._head[node] = head
            self._tail[head] = chain[-1]
            if not self._before[head]:
                self._opened[head] = True
                self._open(head)

    def _readiness(self, node: int) -> int:
        """Whether all the chains before the node's have been entered, some of them, or none."""
        before = [self._started[self._head[earlier]] for earlier in self._before[self._head[node]]]
        return _READY if all(before) else _HALF_READY if any(before) else _NOT_READY

    def _compare(self, eager: int, graph: int) -> _Alike:
        """How the free items of two chains go on from (one, other)."""
        eager_items = self._free(0, eager)
        graph_items = self._free(1, graph)
        return _alike(
            eager_items,
            graph_items,
            [self._keys[0][item] for item in eager_items],
            [self._keys[1][item] for item in graph_items],
            [self._ops[0][item] for item in eager_items],
            [self._ops[1][item] for item in graph_items],
        )

    def _free(self, side: int, item: int) -> list[int]:
        """The next items of a chain, until one that has its partner."""
        free_items: list[int] = []
        partners, onward = self._partner[side], self._onward[side]
        while partners[item] == NOTHING and len(free_items) < _LOOK:
            free_items.append(item)
            item = onward[item]
        return free_items

    def _follow(self, eager: int, graph: int, method: PairMethod, sure: float) -> int:
        """Pairs two chains from (one, other) on, as long as they go on alike; the item of the graph
        at which they do so no more."""
        next_eager, next_graph = self._onward
        eager_partner, graph_partner = self._partner
        eager_keys, graph_keys = self._keys
        while eager_partner[eager] == NOTHING and graph_partner[graph] == NOTHING:
            if eager_keys[eager] == graph_keys[graph]:
                eager_partner[eager], graph_partner[graph] = graph, eager
                self._method[graph], self._sure[graph] = method, sure
                eager, graph = next_eager[eager], next_graph[graph]
                continue
            resumed = self._resync(eager, graph)
            if resumed is None:
                break
            eager, graph = resumed
        return graph if graph_partner[graph] == NOTHING else NOTHING

    def _resync(self, eager: int, graph: int) -> tuple[int, int] | None:
        """Where two chains that differ at (one, other) agree again."""
        (next_eager, next_graph), (eager_keys, graph_keys) = self._onward, self._keys
        eager_after, graph_after = next_eager[eager], next_graph[graph]
        if NOTHING not in (eager_after, graph_after):
            both = eager_keys[eager_after] == graph_keys[graph_after]
            if both and self._ops[0][eager] == self._ops[1][graph] != NOTHING:
                # Another kernel for the same operator, and then as before.
                return eager_after, graph_after
        alike = self._compare(eager, graph)
        return None if alike.eager == NOTHING else (alike.eager, alike.graph)

    # -- context ----------------------------------------------------------------------------------

    def _by_context(self) -> None:
        for radius in (8, 2, 1, 0):
            free = [np.array(partner[:-1], dtype=np.int64) == NOTHING for partner in self._partner]
            if not free[0].any() or not free[1].any():
                return
            seeds = unique_pairs(
                (self._sides[0].key, self._chains[0].next_array, self._chains[0].previous_array),
                (self._sides[1].key, self._chains[1].next_array, self._chains[1].previous_array),
                radius,
            )
            for eager, graph in seeds:
                if self._partner[0][eager] == NOTHING and self._partner[1][graph] == NOTHING:
                    sure = _CONFIDENCE[PairMethod.CONTEXT]
                    self._follow(eager, graph, PairMethod.CONTEXT, sure)
                    self._onward = self._backward
                    eager_before, graph_before = self._onward[0][eager], self._onward[1][graph]
                    self._follow(eager_before, graph_before, PairMethod.CONTEXT, sure)
                    self._onward = self._forward

    # -- what is left -----------------------------------------------------------------------------

    def _between(self, method: PairMethod, eager_codes: Ints, graph_codes: Ints) -> None:
        """Pairs what is left by a code, between the partners of the nodes before and after."""
        lost: dict[int, list[int]] = {}
        partner = self._partner
        unpaired = np.flatnonzero(np.array(partner[0][:-1], dtype=np.int64) == NOTHING)
        for item, code in zip(unpaired.tolist(), eager_codes[unpaired].tolist(), strict=True):
            if code != NOTHING:
                lost.setdefault(code, []).append(item)
        free = np.flatnonzero(np.array(partner[1][:-1], dtype=np.int64) == NOTHING)
        low = dict.fromkeys(free.tolist(), NOTHING)
        high = self._bounds_above(free.tolist())
        for node, code in zip(free.tolist(), graph_codes[free].tolist(), strict=True):
            for before in self._before[node]:
                bound = partner[1][before]
                low[node] = max(low[node], low.get(before, NOTHING) if bound == NOTHING else bound)
            waiting = lost.get(code)
            if not waiting:
                continue
            at = bisect_right(waiting, low[node])
            if at == len(waiting) or waiting[at] >= high[node]:
                continue
            if waiting[at] - low[node] > _WINDOW:
                continue
            eager = waiting.pop(at)
            self._take(eager, node, method, _CONFIDENCE[method])

    def _bounds_above(self, free: Sequence[int]) -> dict[int, int]:
        """For each node the partner of the first after it that has one."""
        high = dict.fromkeys(free, len(self._keys[0]))
        for node in reversed(free):
            for after in self._after[node]:
                partner = self._partner[1][after]
                high[node] = min(
                    high[node], high.get(after, high[node]) if partner == NOTHING else partner
                )
        return high

    def _by_split(self) -> None:
        """What is left beside another kernel of its own operator belongs to that kernel's pair."""
        for side, opposite in ((0, 1), (1, 0)):
            chain, ops = self._chains[side], self._ops[side]
            free = [
                item
                for item, partner in enumerate(self._partner[side][:-1])
                if partner == NOTHING and ops[item] != NOTHING
            ]
            joined: dict[int, int] = {}
            for item in free:
                for beside in (chain.previous[item], chain.next[item]):
                    if beside == NOTHING or ops[beside] != ops[item]:
                        continue
                    partner = self._partner[side][beside]
                    partner = joined.get(beside, NOTHING) if partner == NOTHING else partner
                    if partner == NOTHING:
                        continue
                    node = beside if side == 1 else partner
                    differs = beside in joined or self._method[node] == PairMethod.OPERATOR
                    if differs and self._ops[opposite][partner] == ops[item]:
                        joined[item] = partner
                        break
            self._splits += [
                (item, partner) if side == 0 else (partner, item)
                for item, partner in joined.items()
            ]


class _Alike(Struct, frozen=True):
    """The best way to lay two short sequences side by side."""

    score: float
    """The score of the alignment; see _EQUAL."""
    share: float
    """The share of the shorter sequence that has an equal partner, 0 to 1."""
    eager: int
    """The first eager item that has an equal partner, NOTHING without any."""
    graph: int
    """That partner, NOTHING without any."""


def _alike(
    eager_items: list[int],
    graph_items: list[int],
    eager_keys: list[int],
    graph_keys: list[int],
    eager_ops: list[int],
    graph_ops: list[int],
) -> _Alike:
    """Needleman and Wunsch (1970), with free ends: equal keys, equal operators, one left out."""
    if not eager_items or not graph_items:
        return _Alike(0.0, 0.0, NOTHING, NOTHING)
    width = len(graph_items)
    row = [_LEFT_OUT * length for length in range(width + 1)]
    ways: list[list[int]] = []
    best, best_at = 0, (0, 0)
    # The innermost loop of the pairing: no calls in it but of append.
    for x, (eager_key, eager_op) in enumerate(zip(eager_keys, eager_ops, strict=True)):
        like = _EQUAL_OP if eager_op != NOTHING else _UNLIKE
        left = _LEFT_OUT * (x + 1)
        current, way = [left], []
        across_from = row[0]
        for graph_key, graph_op, up_from in zip(graph_keys, graph_ops, row[1:], strict=True):
            if eager_key == graph_key:
                highest = across_from + _EQUAL
            else:
                highest = across_from + (like if eager_op == graph_op else _UNLIKE)
            across_from = up_from
            up = up_from + _LEFT_OUT
            left += _LEFT_OUT
            step = _ACROSS
            if up > highest:
                highest, step = up, _UP
            if left > highest:
                highest, step = left, _LEFT
            way.append(step)
            left = highest
            current.append(left)
            if left > best:
                best, best_at = left, (x + 1, len(way))
        ways.append(way)
        row = current
    equal = [(x, y) for x, y in _traced(ways, best_at) if eager_keys[x] == graph_keys[y]]
    if not equal:
        return _Alike(best, 0.0, NOTHING, NOTHING)
    x, y = equal[-1]
    return _Alike(best, len(equal) / min(len(eager_items), width), eager_items[x], graph_items[y])


def _traced(ways: list[list[int]], end: tuple[int, int]) -> list[tuple[int, int]]:
    """The places side by side on the best way to ``end``, from there back."""
    x, y = end
    aligned = []
    while x and y:
        step = ways[x - 1][y - 1]
        if step == _ACROSS:
            x, y = x - 1, y - 1
            aligned.append((x, y))
        elif step == _UP:
            x -= 1
        else:
            y -= 1
    return aligned


def _walk(item: int, onward: list[int], most: int | None = None) -> list[int]:
    """The items of a chain from ``item`` on, at most so many."""
    items: list[int] = []
    while item != NOTHING and (most is None or len(items) < most):
        items.append(item)
        item = onward[item]
    return items


class _Neighbours:
    """The values of each of ``count`` keys, which ``by`` has beside ``values``."""

    def __init__(self, by: Ints, values: Ints, count: int) -> None:
        order = np.argsort(by, kind="stable")
        self._values: list[int] = values[order].tolist()
        self._first: list[int] = np.searchsorted(by[order], np.arange(count + 1)).tolist()

    def __getitem__(self, key: int) -> list[int]:
        return self._values[self._first[key] : self._first[key + 1]]
