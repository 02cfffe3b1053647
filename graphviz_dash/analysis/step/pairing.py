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
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.unique_context import unique_pairs

Floats: TypeAlias = npt.NDArray[np.float64]

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


class Method(IntEnum):
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
    Method.ORDER: 0.99,
    Method.CONTEXT: 0.95,
    Method.NAME_AND_LAUNCH: 0.9,
    Method.OPERATOR: 0.8,
    Method.NAME: 0.6,
    Method.SPLIT: 0.6,
}
_CERTAIN: Final = 1.0


@dataclass(frozen=True)
class Side:
    """One side's items in the order of issue; arrays of shape (n,) with codes of both sides' common
    vocabulary.

    ``key`` stands for all that an item is known by, ``op`` for its operator path and kind (NOTHING:
    not told), ``name`` for its kind and name. ``edges`` (k, 2) are the places of items that must
    follow each other, source first; an item with one before and one after lies in a chain.
    """

    key: Ints
    op: Ints
    name: Ints
    edges: Ints

    @classmethod
    def in_lanes(cls, key: Ints, op: Ints, name: Ints, lane: Ints) -> Side:
        """A side whose items follow each other on their lanes (streams).

        Where a lane pauses while others get more than a few items, what goes on after the pause may
        wait for those: there a chain ends.
        """
        order = np.argsort(lane, kind="stable")
        pause = 2 * len(np.unique(lane))
        same = np.flatnonzero((lane[order][1:] == lane[order][:-1]) & (np.diff(order) <= pause))
        return cls(key, op, name, np.stack((order[same], order[same + 1]), axis=1))


@dataclass(frozen=True)
class Pairs:
    """Pairs as parallel arrays, by ``after``: places in both sides, how they were found (Method),
    and 0 to 1 how sure that is. An item is in several pairs only where one operator runs another
    number of kernels on the other side."""

    before: Ints
    after: Ints
    method: Ints
    confidence: Floats


def pair(before: Side, after: Side) -> Pairs:
    """Pairs the items of two sides; see the module for the method."""
    if len(before.key) == len(after.key) and np.array_equal(before.key, after.key):
        linear = len(after.edges) >= len(after.key) - 1 and _is_line(after)
        if linear and _is_line(before):
            places = np.arange(len(before.key), dtype=np.int64)
            return Pairs(places, places, np.zeros_like(places), np.full(len(places), _CERTAIN))
    return _Pairing(before, after).pairs()


def _is_line(side: Side) -> bool:
    places = np.arange(len(side.key) - 1, dtype=np.int64)
    return len(side.edges) == len(places) and np.array_equal(
        side.edges, np.stack((places, places + 1), axis=1)
    )


class _Chains:
    """Neighbours along chains: NOTHING where a side begins or ends, and at forks and joins."""

    def __init__(self, side: Side) -> None:
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

    def __init__(self, before: Side, after: Side) -> None:
        self._sides = before, after
        self._chains = _Chains(before), _Chains(after)
        self._keys: tuple[list[int], list[int]] = before.key.tolist(), after.key.tolist()
        self._ops: tuple[list[int], list[int]] = before.op.tolist(), after.op.tolist()
        # One place more, so that NOTHING as an index reads "taken".
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

    def pairs(self) -> Pairs:
        self._by_order()
        self._by_context()
        before, after = self._sides
        for how, one, other in (
            (Method.NAME_AND_LAUNCH, before.key, after.key),
            (Method.OPERATOR, before.op, after.op),
            (Method.NAME, before.name, after.name),
        ):
            self._between(how, one, other)
        self._by_split()
        partner = np.array(self._partner[1][:-1], dtype=np.int64)
        paired = np.flatnonzero(partner >= 0)
        extra = np.array(self._splits, dtype=np.int64).reshape(-1, 2)
        found = np.concatenate((paired, extra[:, 1]))
        method = np.array(self._method, dtype=np.int64)[paired]
        sure = np.array(self._sure, dtype=np.float64)[paired]
        order = np.argsort(found, kind="stable")
        return Pairs(
            before=np.concatenate((partner[paired], extra[:, 0]))[order],
            after=found[order],
            method=np.concatenate((method, np.full(len(extra), int(Method.SPLIT))))[order],
            confidence=np.concatenate((sure, np.full(len(extra), _CONFIDENCE[Method.SPLIT])))[
                order
            ],
        )

    def _take(self, one: int, other: int, method: Method, sure: float) -> None:
        self._partner[0][one], self._partner[1][other] = other, one
        self._method[other], self._sure[other] = method, sure

    # -- order ------------------------------------------------------------------------------------

    def _by_order(self) -> None:
        keys, partner = self._keys, self._partner
        self._find_chains()
        for one in range(len(keys[0])):
            if partner[0][one] != NOTHING:
                continue
            known = self._entries.get(keys[0][one])
            if not known:
                continue
            waiting = [node for node in known if not self._entered[self._head[node]]]
            self._entries[keys[0][one]] = waiting
            entered = self._enter(one, list(dict.fromkeys(self._head[node] for node in waiting)))
            if entered is not None:
                mine, node, sure = entered
                head = self._head[node]
                self._started[head] = self._entered[head] = True
                stopped = self._follow(mine, node, Method.ORDER, sure)
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

    def _enter(self, one: int, heads: list[int]) -> tuple[int, int, float] | None:
        """Where an eager chain and one of the graph's chains run alike from ``one`` on: the two
        items, and how sure that is. A chain can be entered once those before it have been, or at
        least one of them."""
        # A long row of equal chains: the first are as good as any.
        ready = [(level, head) for head in heads if (level := self._readiness(head))][:32]
        good: list[tuple[int, float, int, tuple[int, int]]] = []
        for level, head in ready:
            alike = self._compare(one, head)
            if alike.share >= (_ALIKE if level == _READY else _VERY_ALIKE):
                good.append((level, alike.score, -head, (alike.one, alike.other)))
        if not good:
            return None
        level, score, _, places = max(good)
        tied = sum((level, score) == other[:2] for other in good)
        return *places, _CONFIDENCE[Method.ORDER] if tied == 1 else 1 / tied

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
        before = [self._started[self._head[one]] for one in self._before[self._head[node]]]
        return _READY if all(before) else _HALF_READY if any(before) else _NOT_READY

    def _compare(self, one: int, other: int) -> _Alike:
        """How the free items of two chains go on from (one, other)."""
        mine = self._free(0, one)
        theirs = self._free(1, other)
        return _alike(
            mine,
            theirs,
            [self._keys[0][place] for place in mine],
            [self._keys[1][place] for place in theirs],
            [self._ops[0][place] for place in mine],
            [self._ops[1][place] for place in theirs],
        )

    def _free(self, side: int, place: int) -> list[int]:
        """The next items of a chain, until one that has its partner."""
        found: list[int] = []
        taken, onward = self._partner[side], self._onward[side]
        while taken[place] == NOTHING and len(found) < _LOOK:
            found.append(place)
            place = onward[place]
        return found

    def _follow(self, one: int, other: int, method: Method, sure: float) -> int:
        """Pairs two chains from (one, other) on, as long as they go on alike; the item of the graph
        at which they do so no more."""
        first, second = self._onward
        taken, gone = self._partner
        keys, others = self._keys
        while taken[one] == NOTHING and gone[other] == NOTHING:
            if keys[one] == others[other]:
                taken[one], gone[other] = other, one
                self._method[other], self._sure[other] = method, sure
                one, other = first[one], second[other]
                continue
            on = self._resync(one, other)
            if on is None:
                break
            one, other = on
        return other if gone[other] == NOTHING else NOTHING

    def _resync(self, one: int, other: int) -> tuple[int, int] | None:
        """Where two chains that differ at (one, other) agree again."""
        (first, second), (keys, others) = self._onward, self._keys
        next_one, next_other = first[one], second[other]
        if NOTHING not in (next_one, next_other):
            both = keys[next_one] == others[next_other]
            if both and self._ops[0][one] == self._ops[1][other] != NOTHING:
                # Another kernel for the same operator, and then as before.
                return next_one, next_other
        alike = self._compare(one, other)
        return None if alike.one == NOTHING else (alike.one, alike.other)

    # -- context ----------------------------------------------------------------------------------

    def _by_context(self) -> None:
        for radius in (8, 2, 1, 0):
            free = [np.array(partner[:-1], dtype=np.int64) == NOTHING for partner in self._partner]
            if not free[0].any() or not free[1].any():
                return
            found = unique_pairs(
                (self._sides[0].key, self._chains[0].next_array, self._chains[0].previous_array),
                (self._sides[1].key, self._chains[1].next_array, self._chains[1].previous_array),
                radius,
            )
            for one, other in found:
                if self._partner[0][one] == NOTHING and self._partner[1][other] == NOTHING:
                    sure = _CONFIDENCE[Method.CONTEXT]
                    self._follow(one, other, Method.CONTEXT, sure)
                    self._onward = self._backward
                    one_back, other_back = self._onward[0][one], self._onward[1][other]
                    self._follow(one_back, other_back, Method.CONTEXT, sure)
                    self._onward = self._forward

    # -- what is left -----------------------------------------------------------------------------

    def _between(self, method: Method, first: Ints, second: Ints) -> None:
        """Pairs what is left by a code, between the partners of the nodes before and after."""
        lost: dict[int, list[int]] = {}
        partner = self._partner
        places = np.flatnonzero(np.array(partner[0][:-1], dtype=np.int64) == NOTHING)
        for place, code in zip(places.tolist(), first[places].tolist(), strict=True):
            if code != NOTHING:
                lost.setdefault(code, []).append(place)
        free = np.flatnonzero(np.array(partner[1][:-1], dtype=np.int64) == NOTHING)
        low = dict.fromkeys(free.tolist(), NOTHING)
        high = self._bounds_above(free.tolist())
        for node, code in zip(free.tolist(), second[free].tolist(), strict=True):
            for before in self._before[node]:
                known = partner[1][before]
                low[node] = max(low[node], low.get(before, NOTHING) if known == NOTHING else known)
            waiting = lost.get(code)
            if not waiting:
                continue
            at = bisect_right(waiting, low[node])
            if at == len(waiting) or waiting[at] >= high[node]:
                continue
            if waiting[at] - low[node] > _WINDOW:
                continue
            one = waiting.pop(at)
            self._take(one, node, method, _CONFIDENCE[method])

    def _bounds_above(self, free: Sequence[int]) -> dict[int, int]:
        """For each node the partner of the first after it that has one."""
        high = dict.fromkeys(free, len(self._keys[0]))
        for node in reversed(free):
            for after in self._after[node]:
                known = self._partner[1][after]
                high[node] = min(
                    high[node], high.get(after, high[node]) if known == NOTHING else known
                )
        return high

    def _by_split(self) -> None:
        """What is left beside another kernel of its own operator belongs to that kernel's pair."""
        for side, other in ((0, 1), (1, 0)):
            chain, ops = self._chains[side], self._ops[side]
            free = [
                place
                for place, known in enumerate(self._partner[side][:-1])
                if known == NOTHING and ops[place] != NOTHING
            ]
            joined: dict[int, int] = {}
            for place in free:
                for beside in (chain.previous[place], chain.next[place]):
                    if beside == NOTHING or ops[beside] != ops[place]:
                        continue
                    known = self._partner[side][beside]
                    known = joined.get(beside, NOTHING) if known == NOTHING else known
                    if known == NOTHING:
                        continue
                    node = beside if side == 1 else known
                    differs = beside in joined or self._method[node] == Method.OPERATOR
                    if differs and self._ops[other][known] == ops[place]:
                        joined[place] = known
                        break
            self._splits += [
                (place, known) if side == 0 else (known, place) for place, known in joined.items()
            ]


@dataclass(frozen=True)
class _Alike:
    """The best way to lay two short sequences side by side: its score, the share of the shorter one
    that has an equal partner, and the first two items that are equal (NOTHING without any)."""

    score: float
    share: float
    one: int
    other: int


def _alike(
    mine: list[int],
    theirs: list[int],
    keys: list[int],
    others: list[int],
    ops: list[int],
    other_ops: list[int],
) -> _Alike:
    """Needleman and Wunsch (1970), with free ends: equal keys, equal operators, one left out."""
    if not mine or not theirs:
        return _Alike(0.0, 0.0, NOTHING, NOTHING)
    width = len(theirs)
    row = [_LEFT_OUT * place for place in range(width + 1)]
    ways: list[list[int]] = []
    best, best_at = 0, (0, 0)
    # The innermost loop of the pairing: no calls in it but of append.
    for x, (key, op) in enumerate(zip(keys, ops, strict=True)):
        like = _EQUAL_OP if op != NOTHING else _UNLIKE
        left = _LEFT_OUT * (x + 1)
        current, way = [left], []
        across_from = row[0]
        for other, other_op, up_from in zip(others, other_ops, row[1:], strict=True):
            if key == other:
                highest = across_from + _EQUAL
            else:
                highest = across_from + (like if op == other_op else _UNLIKE)
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
    equal = [(x, y) for x, y in _traced(ways, best_at) if keys[x] == others[y]]
    if not equal:
        return _Alike(best, 0.0, NOTHING, NOTHING)
    x, y = equal[-1]
    return _Alike(best, len(equal) / min(len(mine), width), mine[x], theirs[y])


def _traced(ways: list[list[int]], end: tuple[int, int]) -> list[tuple[int, int]]:
    """The places side by side on the best way to ``end``, from there back."""
    x, y = end
    found = []
    while x and y:
        step = ways[x - 1][y - 1]
        if step == _ACROSS:
            x, y = x - 1, y - 1
            found.append((x, y))
        elif step == _UP:
            x -= 1
        else:
            y -= 1
    return found


def _walk(place: int, onward: list[int], most: int | None = None) -> list[int]:
    """The items of a chain from ``place`` on, at most so many."""
    found: list[int] = []
    while place != NOTHING and (most is None or len(found) < most):
        found.append(place)
        place = onward[place]
    return found


class _Neighbours:
    """The values of each of ``count`` keys, which ``by`` has beside ``values``."""

    def __init__(self, by: Ints, values: Ints, count: int) -> None:
        order = np.argsort(by, kind="stable")
        self._values: list[int] = values[order].tolist()
        self._first: list[int] = np.searchsorted(by[order], np.arange(count + 1)).tolist()

    def __getitem__(self, key: int) -> list[int]:
        return self._values[self._first[key] : self._first[key + 1]]
