"""Which node of one graph is which of another: by what a node is and by what lies around it.

No index is compared, so that a graph whose branches were created in another order is the same
graph. Nodes are matched at three levels, each among those that the level before left over: what is
equal in everything; what is the same operation with other parameters; what is of the same kind in
the same place. Within a level the surest evidence comes first: all that lies before and after a
node, all before, all after, a few steps around it, then the order in which the rest lie.

Method: hashes of neighbourhoods refined step by step (B. Weisfeiler and A. Leman, 1968), then
Myers' difference algorithm in what is left. Time grows with nodes plus edges, times the differences
in a stretch, which are bounded.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.graph.topology import GraphTopology
from graphviz_dash.analysis.sequence_alignment import partners
from graphviz_dash.model.graph import CapturedGraph

Keys: TypeAlias = Sequence[Hashable]

UNMATCHED: Final = -1

_RADII: Final = (12, 4, 1)
"""Steps around a node that are looked at where all before and after it is of no help."""

_MOST_DIFFERENCES: Final = 600
"""Items left over by an alignment beyond which a stretch is not the same with gaps."""


_Free: TypeAlias = Callable[[int, int], bool]
"""Whether nodes of a key may be matched in their order, by how many there are on each side."""


class Side(Struct, frozen=True):
    """One of the two graphs: its dependencies, and what its nodes are at each level, surest first.
    ``levels[i][node]`` may be compared with the other side's only."""

    topology: GraphTopology
    levels: tuple[Keys, ...]

    @classmethod
    def of(cls, graph: CapturedGraph, levels: tuple[Keys, ...]) -> Side:
        """The side of ``graph``, all of whose nodes count."""
        return cls(GraphTopology.of(graph, np.ones(len(graph.nodes), dtype=np.bool_)), levels)


def match_nodes(a: Side, b: Side) -> list[int]:
    """For each node of ``a`` its node of ``b``, or UNMATCHED; no node of ``b`` twice.

    Two nodes are matched only if they are equal at the last level.
    """
    match = _Match(a, b)
    for number, (left, right) in enumerate(zip(a.levels, b.levels, strict=True)):
        last = number == len(a.levels) - 1
        match.level(left, right, anywhere=not last)
    return match.partner


class _Match:
    """What is matched so far."""

    def __init__(self, a: Side, b: Side) -> None:
        self._a, self._b = a.topology, b.topology
        self.partner = [UNMATCHED] * len(self._a.order)
        self._owner = [UNMATCHED] * len(self._b.order)

    def level(self, left: Keys, right: Keys, anywhere: bool) -> None:
        """Matches what is equal by these keys; ``anywhere``: also what moved far."""
        if UNMATCHED not in self.partner or UNMATCHED not in self._owner:
            return
        up_a, up_b = _context(self._a, left, up=True), _context(self._b, right, up=True)
        down_a, down_b = _context(self._a, left, up=False), _context(self._b, right, up=False)
        both_a, both_b = list(zip(up_a, down_a, strict=True)), list(zip(up_b, down_b, strict=True))
        self._assign(both_a, both_b, down=True, free=_first)
        if anywhere:
            self._assign(up_a, up_b, down=True, free=_first)
            self._assign(down_a, down_b, down=False, free=_first)
            for radius in _RADII:
                near_a, near_b = _near(self._a, left, radius), _near(self._b, right, radius)
                self._assign(near_a, near_b, down=True, free=self._as_many)
        self._align(left, right)
        self._assign(left, right, down=True, free=_none)
        self._assign(left, right, down=False, free=_none)
        if anywhere:
            self._assign(left, right, down=True, free=self._alone)

    def _assign(self, left: Keys, right: Keys, down: bool, free: _Free) -> None:
        """Goes along the graph and gives each node one of its key: beside the partner of a node
        next to it if there is such a one, else what ``free`` picks from all of that key."""
        order = self._a.order if down else self._a.order[::-1]
        before = self._a.predecessors if down else self._a.successors
        after = self._b.successors if down else self._b.predecessors
        pools: dict[Hashable, deque[int]] = defaultdict(deque)
        for node in self._b.order if down else self._b.order[::-1]:
            if self._owner[node] == UNMATCHED:
                pools[right[node]].append(node)
        wanted: dict[Hashable, int] = defaultdict(int)
        for node in order:
            if self.partner[node] == UNMATCHED:
                wanted[left[node]] += 1
        chosen = {key for key in wanted if key in pools and free(wanted[key], len(pools[key]))}
        pools_beside: dict[int, dict[Hashable, deque[int]]] = {}
        for node in order:
            if self.partner[node] != UNMATCHED or left[node] not in pools:
                continue
            partner = self._beside(node, left[node], right, before, after, pools_beside)
            if partner is None and left[node] in chosen:
                partner = self._next(pools[left[node]])
            if partner is not None:
                self.partner[node], self._owner[partner] = partner, node

    def _beside(
        self,
        node: int,
        key: Hashable,
        right: Keys,
        before: list[list[int]],
        after: list[list[int]],
        pools: dict[int, dict[Hashable, deque[int]]],
    ) -> int | None:
        """A free node of ``key`` that comes after the partner of one that ``node`` comes after."""
        for neighbour in before[node]:
            other = self.partner[neighbour]
            if other == UNMATCHED:
                continue
            if other not in pools:
                pools[other] = defaultdict(deque)
                for follower in after[other]:
                    if self._owner[follower] == UNMATCHED:
                        pools[other][right[follower]].append(follower)
            free = self._next(pools[other].get(key, deque()))
            if free is not None:
                return free
        return None

    def _next(self, pool: deque[int]) -> int | None:
        while pool:
            node = pool.popleft()
            if self._owner[node] == UNMATCHED:
                return node
        return None

    def _align(self, left: Keys, right: Keys) -> None:
        """Aligns the unmatched nodes between matched ones that come in the same order in both."""
        position = {node: index for index, node in enumerate(self._b.order)}
        anchors = [
            (index, position[self.partner[node]])
            for index, node in enumerate(self._a.order)
            if self.partner[node] != UNMATCHED
        ]
        in_order = longest_ascending([second for _, second in anchors])
        stops = [*(anchors[index] for index in in_order), (len(self._a.order), len(self._b.order))]
        codes: dict[Hashable, int] = {}
        begin = (-1, -1)
        for stop in stops:
            nodes = [
                n for n in self._a.order[begin[0] + 1 : stop[0]] if self.partner[n] == UNMATCHED
            ]
            others = [
                n for n in self._b.order[begin[1] + 1 : stop[1]] if self._owner[n] == UNMATCHED
            ]
            begin = stop
            if not nodes or not others:
                continue
            first = [codes.setdefault(left[node], len(codes)) for node in nodes]
            second = [codes.setdefault(right[node], len(codes)) for node in others]
            aligned = partners(
                np.array(first, dtype=np.int64), np.array(second, dtype=np.int64), _MOST_DIFFERENCES
            )
            if aligned is None:
                continue
            for node, index in zip(nodes, aligned.tolist(), strict=True):
                if index >= 0:
                    self.partner[node], self._owner[others[index]] = others[index], node

    @staticmethod
    def _as_many(wanted: int, offered: int) -> bool:
        return wanted == offered

    @staticmethod
    def _alone(wanted: int, offered: int) -> bool:
        return wanted == offered == 1


def _first(_wanted: int, _offered: int) -> bool:
    return True


def _none(_wanted: int, _offered: int) -> bool:
    return False


def _context(topology: GraphTopology, keys: Keys, up: bool) -> list[int]:
    """A hash of each node with all that lies before it (``up``) or after it."""
    order = topology.order if up else topology.order[::-1]
    beside = topology.predecessors if up else topology.successors
    hashes = [0] * len(order)
    for node in order:
        hashes[node] = hash((keys[node], *sorted(hashes[other] for other in beside[node])))
    return hashes


def _near(topology: GraphTopology, keys: Keys, radius: int) -> list[tuple[int, int]]:
    """Hashes of each node with what lies at most ``radius`` steps before and after it."""
    pair = []
    for beside in (topology.predecessors, topology.successors):
        hashes = [hash(key) for key in keys]
        for _ in range(radius):
            hashes = [
                hash((key, *sorted(hashes[other] for other in others)))
                for key, others in zip(keys, beside, strict=True)
            ]
        pair.append(hashes)
    return list(zip(*pair, strict=True))


def longest_ascending(values: Sequence[int]) -> list[int]:
    """The indices of a longest ascending subsequence of different values, in order."""
    tails: list[int] = []
    ends: list[int] = []
    before = [UNMATCHED] * len(values)
    for index, value in enumerate(values):
        low, high = 0, len(tails)
        while low < high:
            middle = (low + high) // 2
            if tails[middle] < value:
                low = middle + 1
            else:
                high = middle
        before[index] = ends[low - 1] if low else UNMATCHED
        if low == len(tails):
            tails.append(value)
            ends.append(index)
        else:
            tails[low], ends[low] = value, index
    chain = []
    last = ends[-1] if ends else UNMATCHED
    while last != UNMATCHED:
        chain.append(last)
        last = before[last]
    return chain[::-1]
