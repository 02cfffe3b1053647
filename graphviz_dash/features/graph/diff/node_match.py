"""Matching of nodes between two graphs, by their parameters and neighbourhoods.

Indices are ignored. Three levels: equal nodes, the same operation with other parameters, the same
kind in the same place. Within a level, larger matching neighbourhoods come first.

Method: iterative hashing of neighbourhoods (B. Weisfeiler and A. Leman, 1968), then Myers'
difference algorithm for the remainder.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.graph.topology import GraphTopology
from graphviz_dash.analysis.sequence_alignment import find_partners
from graphviz_dash.model.graph import CapturedGraph

Keys: TypeAlias = Sequence[Hashable]

UNMATCHED: Final = -1

_RADII: Final = (12, 4, 1)
"""Neighbourhood radii, used if full ancestors and descendants do not help."""

_MAX_DIFFERENCES: Final = 600
"""Maximum number of unaligned items in a section."""


_MatchRule: TypeAlias = Callable[[int, int], bool]
"""Decides from the counts on both sides whether nodes of a key may be matched in order."""


class GraphSide(Struct, frozen=True):
    """One of the two graphs: dependencies, and node keys per level, strictest first.

    ``levels[i][node]`` is comparable only with the same level of the other side.
    """

    topology: GraphTopology
    levels: tuple[Keys, ...]

    @classmethod
    def from_graph(cls, graph: CapturedGraph, levels: tuple[Keys, ...]) -> GraphSide:
        """Build the side of ``graph``, including all its nodes."""
        return cls(
            GraphTopology.from_graph(graph, np.ones(len(graph.nodes), dtype=np.bool_)), levels
        )


def match_nodes(side_a: GraphSide, side_b: GraphSide) -> list[int]:
    """Find the node of ``b`` for each node of ``a``, or UNMATCHED; matches are one-to-one.

    Matched nodes are equal at least at the last level.
    """
    match = _MatchState(side_a, side_b)
    for number, (left, right) in enumerate(zip(side_a.levels, side_b.levels, strict=True)):
        last = number == len(side_a.levels) - 1
        match.match_level(left, right, anywhere=not last)
    return match.partner


class _MatchState:
    def __init__(self, a: GraphSide, b: GraphSide) -> None:
        self._a, self._b = a.topology, b.topology
        self.partner = [UNMATCHED] * len(self._a.order)
        self._owner = [UNMATCHED] * len(self._b.order)

    def match_level(self, left: Keys, right: Keys, anywhere: bool) -> None:
        """Match nodes with equal keys; ``anywhere`` includes nodes that moved far."""
        if UNMATCHED not in self.partner or UNMATCHED not in self._owner:
            return
        up_a, up_b = _hash_context(self._a, left, up=True), _hash_context(self._b, right, up=True)
        down_a, down_b = (
            _hash_context(self._a, left, up=False),
            _hash_context(self._b, right, up=False),
        )
        both_a, both_b = list(zip(up_a, down_a, strict=True)), list(zip(up_b, down_b, strict=True))
        self._match_neighbours(both_a, both_b, down=True, free=_accept_all)
        if anywhere:
            self._match_neighbours(up_a, up_b, down=True, free=_accept_all)
            self._match_neighbours(down_a, down_b, down=False, free=_accept_all)
            for radius in _RADII:
                near_a, near_b = (
                    _hash_neighbourhood(self._a, left, radius),
                    _hash_neighbourhood(self._b, right, radius),
                )
                self._match_neighbours(near_a, near_b, down=True, free=self._is_equal_count)
        self._align(left, right)
        self._match_neighbours(left, right, down=True, free=_reject_all)
        self._match_neighbours(left, right, down=False, free=_reject_all)
        if anywhere:
            self._match_neighbours(left, right, down=True, free=self._is_single)

    def _match_neighbours(self, left: Keys, right: Keys, down: bool, free: _MatchRule) -> None:
        """Match nodes in graph order.

        Prefers a neighbour of a matched neighbour's partner; else ``free`` selects among the key's
        nodes.
        """
        order = self._a.order if down else self._a.order[::-1]
        previous_a = self._a.predecessors if down else self._a.successors
        following_b = self._b.successors if down else self._b.predecessors
        pools: dict[Hashable, deque[int]] = defaultdict(deque)
        for node in self._b.order if down else self._b.order[::-1]:
            if self._owner[node] == UNMATCHED:
                pools[right[node]].append(node)
        needed: dict[Hashable, int] = defaultdict(int)
        for node in order:
            if self.partner[node] == UNMATCHED:
                needed[left[node]] += 1
        allowed = {key for key in needed if key in pools and free(needed[key], len(pools[key]))}
        neighbour_pools: dict[int, dict[Hashable, deque[int]]] = {}
        for node in order:
            if self.partner[node] != UNMATCHED or left[node] not in pools:
                continue
            partner = self._find_adjacent(
                node, left[node], right, previous_a, following_b, neighbour_pools
            )
            if partner is None and left[node] in allowed:
                partner = self._pop_free(pools[left[node]])
            if partner is not None:
                self.partner[node], self._owner[partner] = partner, node

    def _find_adjacent(
        self,
        node: int,
        key: Hashable,
        right: Keys,
        before: list[list[int]],
        after: list[list[int]],
        pools: dict[int, dict[Hashable, deque[int]]],
    ) -> int | None:
        for neighbour in before[node]:
            partner = self.partner[neighbour]
            if partner == UNMATCHED:
                continue
            if partner not in pools:
                pools[partner] = defaultdict(deque)
                for follower in after[partner]:
                    if self._owner[follower] == UNMATCHED:
                        pools[partner][right[follower]].append(follower)
            free = self._pop_free(pools[partner].get(key, deque()))
            if free is not None:
                return free
        return None

    def _pop_free(self, pool: deque[int]) -> int | None:
        while pool:
            node = pool.popleft()
            if self._owner[node] == UNMATCHED:
                return node
        return None

    def _align(self, left: Keys, right: Keys) -> None:
        """Align unmatched nodes between matched nodes of the same order in both graphs."""
        position = {node: index for index, node in enumerate(self._b.order)}
        anchors = [
            (index, position[self.partner[node]])
            for index, node in enumerate(self._a.order)
            if self.partner[node] != UNMATCHED
        ]
        in_order = find_longest_ascending([second for _, second in anchors])
        stops = [*(anchors[index] for index in in_order), (len(self._a.order), len(self._b.order))]
        codes: dict[Hashable, int] = {}
        start = (-1, -1)
        for stop in stops:
            nodes = [
                n for n in self._a.order[start[0] + 1 : stop[0]] if self.partner[n] == UNMATCHED
            ]
            others = [
                n for n in self._b.order[start[1] + 1 : stop[1]] if self._owner[n] == UNMATCHED
            ]
            start = stop
            if not nodes or not others:
                continue
            first = [codes.setdefault(left[node], len(codes)) for node in nodes]
            second = [codes.setdefault(right[node], len(codes)) for node in others]
            aligned = find_partners(
                np.array(first, dtype=np.int64), np.array(second, dtype=np.int64), _MAX_DIFFERENCES
            )
            if aligned is None:
                continue
            for node, index in zip(nodes, aligned.tolist(), strict=True):
                if index >= 0:
                    self.partner[node], self._owner[others[index]] = others[index], node

    @staticmethod
    def _is_equal_count(requested: int, offered: int) -> bool:
        return requested == offered

    @staticmethod
    def _is_single(requested: int, offered: int) -> bool:
        return requested == offered == 1


def _accept_all(_requested: int, _offered: int) -> bool:
    return True


def _reject_all(_requested: int, _offered: int) -> bool:
    return False


def _hash_context(topology: GraphTopology, keys: Keys, up: bool) -> list[int]:
    order = topology.order if up else topology.order[::-1]
    neighbours = topology.predecessors if up else topology.successors
    hashes = [0] * len(order)
    for node in order:
        hashes[node] = hash((keys[node], *sorted(hashes[other] for other in neighbours[node])))
    return hashes


def _hash_neighbourhood(topology: GraphTopology, keys: Keys, radius: int) -> list[tuple[int, int]]:
    pair = []
    for neighbours in (topology.predecessors, topology.successors):
        hashes = [hash(key) for key in keys]
        for _ in range(radius):
            hashes = [
                hash((key, *sorted(hashes[other] for other in adjacent)))
                for key, adjacent in zip(keys, neighbours, strict=True)
            ]
        pair.append(hashes)
    return list(zip(*pair, strict=True))


def find_longest_ascending(values: Sequence[int]) -> list[int]:
    """Find the indices of a longest ascending subsequence of distinct values."""
    tails: list[int] = []
    ends: list[int] = []
    previous = [UNMATCHED] * len(values)
    for index, value in enumerate(values):
        low, high = 0, len(tails)
        while low < high:
            middle = (low + high) // 2
            if tails[middle] < value:
                low = middle + 1
            else:
                high = middle
        previous[index] = ends[low - 1] if low else UNMATCHED
        if low == len(tails):
            tails.append(value)
            ends.append(index)
        else:
            tails[low], ends[low] = value, index
    chain = []
    last = ends[-1] if ends else UNMATCHED
    while last != UNMATCHED:
        chain.append(last)
        last = previous[last]
    return chain[::-1]
