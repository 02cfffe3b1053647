"""Matching of replay rows to nodes of a graph with parallel branches.

Rows are processed by start. A row can be any node of its signature whose predecessors have all
started. Among several, the node that continues the row's stream is preferred, then the node whose
successors best match the stream. Identical branches are distinguished by stream number, following
the driver's observed order. With fewer streams than branches this is impossible, which lowers the
confidence.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from typing import Final

import numpy as np
import numpy.typing as npt

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.graph.topology import GraphTopology
from graphviz_dash.analysis.trace.signatures import NO_NODE

_LOOK_AHEAD: Final = 64
"""Rows of a stream to compare with the successors of a candidate."""

_MAX_CANDIDATES: Final = 32
"""Maximum candidates to compare; of more, only the first are considered."""

_MAX_SKIPPED: Final = 4
"""Maximum nodes that one row can show to be missing from the replay."""

_STREAM_ORDER_CONFIDENCE: Final = 0.9
"""Confidence that equal-looking branches run on streams in creation order."""

_SKIPPED_CONFIDENCE: Final = 0.5
"""Confidence of a row with unseen predecessors, and of rows that may be a missing node."""


class BranchMatcher:
    """Matcher for the replays of one graph.

    ``codes`` are its nodes' signatures, ``driver`` those of the driver's kernels that may replace
    them.
    """

    def __init__(self, topology: GraphTopology, codes: Ints, driver: Ints) -> None:
        self.topology = topology
        self.codes: list[int] = codes.tolist()
        self.driver: list[int] = driver.tolist()
        self.twin_class = topology.compute_equivalence_classes(codes)
        sizes = Counter(self.twin_class)
        self.twins = [sizes[node_class] for node_class in self.twin_class]
        self._visible_predecessors: dict[int, list[int]] = {}
        self.of_code: dict[int, list[int]] = {}
        for node, (code, other) in enumerate(zip(self.codes, self.driver, strict=True)):
            for seen_as in {code, other} - {NO_NODE}:
                self.of_code.setdefault(seen_as, []).append(node)

    def match(self, codes: list[int], lanes: list[int]) -> tuple[Ints, npt.NDArray[np.float64]]:
        """Return node (-1: none) and confidence of each row of one replay, given by start."""
        return _Replay(self, codes, lanes).match()

    def has_appearance(self, node: int, code: int) -> bool:
        """Return whether a row of signature ``code`` can be ``node``."""
        return code != NO_NODE and code in (self.codes[node], self.driver[node])

    def find_next_visible(self, node: int) -> int | None:
        """Return the only visible successor of ``node``, or None."""
        while True:
            after = self.topology.successors[node]
            if len(after) != 1:
                return None
            node = after[0]
            if self.topology.visible[node]:
                return node

    def is_successor(self, node: int, predecessor: int) -> bool:
        """Return whether ``node`` depends on a visible node, directly or by rowless nodes."""
        return predecessor in self.find_visible_predecessors(node)

    def find_visible_predecessors(self, node: int) -> list[int]:
        """Return the nearest visible nodes that ``node`` depends on."""
        nodes = self._visible_predecessors.get(node)
        if nodes is None:
            nodes, pending = [], list(self.topology.predecessors[node])
            while pending:
                ancestor = pending.pop()
                if self.topology.visible[ancestor]:
                    nodes.append(ancestor)
                else:
                    pending.extend(self.topology.predecessors[ancestor])
            self._visible_predecessors[node] = nodes
        return nodes


class _Replay:
    def __init__(self, graph: BranchMatcher, codes: list[int], lanes: list[int]) -> None:
        self._graph = graph
        self._row_codes = codes
        self._row_lanes = lanes
        self._stream: list[list[int]] = [[] for _ in range(max(lanes, default=-1) + 1)]
        for code, lane in zip(codes, lanes, strict=True):
            self._stream[lane].append(code)
        self._position = [0] * len(self._stream)
        self._last: list[int | None] = [None] * len(self._stream)
        self._lane_of: dict[int, int] = {}
        self._waiting = [len(before) for before in graph.topology.predecessors]
        self._begun = [False] * len(graph.codes)
        self._ready: dict[int, list[int]] = {}
        self._doubt = [1.0] * len(graph.codes)
        self._limit = [1.0] * len(graph.codes)
        self._by_stream: set[int] = set()
        self._ordered: set[tuple[int, int]] = set()
        self._next_place = dict.fromkeys(graph.of_code, 0)
        for node, count in enumerate(list(self._waiting)):
            if count == 0:
                self._release(node)

    def match(self) -> tuple[Ints, npt.NDArray[np.float64]]:
        nodes = np.full(len(self._row_codes), -1, dtype=np.int64)
        for row, (code, lane) in enumerate(zip(self._row_codes, self._row_lanes, strict=True)):
            node = self._choose(code, lane) if code != NO_NODE else None
            self._position[lane] += 1
            if node is not None:
                self._mark_started(node)
                self._last[lane] = node
                self._lane_of[node] = lane
                nodes[row] = node
        confidence = [
            self._compute_confidence(node, code) if node >= 0 else 0.0
            for node, code in zip(nodes.tolist(), self._row_codes, strict=True)
        ]
        return nodes, np.array(confidence, dtype=np.float64)

    def _compute_confidence(self, node: int, code: int) -> float:
        if len(self._graph.of_code[code]) == 1:
            return 1.0
        twins = self._graph.twins[node]
        twin_confidence = (
            _STREAM_ORDER_CONFIDENCE if node in self._by_stream and twins > 1 else 1 / twins
        )
        return min(self._doubt[node], self._limit[node], twin_confidence)

    def _choose(self, code: int, lane: int) -> int | None:
        ready = self._ready.get(code, ())
        if not ready:
            return self._resume(code, lane)
        last = self._last[lane]
        pool = [] if last is None else [n for n in ready if self._graph.is_successor(n, last)]
        if not pool:
            pool = [n for n in ready if not self._is_expected_elsewhere(n, lane)] or list(ready)
        if len(pool) > 1:
            pool = self._select_most_similar(pool, lane)
        branch = self._find_branch_by_stream(pool, code, lane)
        branch_nodes = pool[branch or 0]
        twin_class = self._graph.twin_class[branch_nodes]
        if branch is not None:
            self._ordered.add(twin_class)
        if twin_class in self._ordered:
            self._by_stream.add(branch_nodes)
        before = self._graph.find_visible_predecessors(branch_nodes)
        if len(self._graph.of_code[code]) == 1:
            self._doubt[branch_nodes] = 1.0
        elif len(before) == 1:
            # Only the branch identifies this node, so its confidence is at most that of the branch.
            self._doubt[branch_nodes] = min(self._doubt[branch_nodes], self._doubt[before[0]])
            if before[0] in self._by_stream:
                self._by_stream.add(branch_nodes)
        return branch_nodes

    def _find_branch_by_stream(self, pool: list[int], code: int, lane: int) -> int | None:
        """Return which of several equal-looking branches the stream runs, or None if ambiguous.

        The driver assigns streams by rising number to branches in creation order, the first to the
        launch stream. Ambiguous for a single branch or another number of candidate streams.
        """
        if len(pool) < 2 or len({self._graph.twin_class[node] for node in pool}) > 1:
            return None
        waiting = [
            other
            for other, coming in enumerate(self._stream)
            if self._position[other] < len(coming)
            and coming[self._position[other]] == code
            and self._can_start_branch(other, pool)
        ]
        return waiting.index(lane) if len(waiting) == len(pool) and lane in waiting else None

    def _can_start_branch(self, lane: int, pool: list[int]) -> bool:
        """Return whether the stream can start a branch: it is unused, at a branch's end, or at the
        fork.
        """
        last = self._last[lane]
        if last is None or all(
            self._begun[after] for after in self._graph.topology.successors[last]
        ):
            return True
        return any(self._graph.is_successor(node, last) for node in pool)

    def _select_most_similar(self, pool: list[int], lane: int) -> list[int]:
        agreements = [self._count_agreement(n, lane) for n in pool[:_MAX_CANDIDATES]]
        best = max(agreements)
        tied = [n for n, length in zip(pool, agreements, strict=False) if length == best]
        if len({self._graph.twin_class[n] for n in tied}) > 1:
            # They differ, but not in any visible property.
            for node in tied:
                self._doubt[node] = min(self._doubt[node], 1 / len(tied))
        return tied

    def _is_expected_elsewhere(self, node: int, lane: int) -> bool:
        for before in self._graph.find_visible_predecessors(node):
            other = self._lane_of.get(before, lane)
            if other == lane or self._last[other] != before:
                continue
            position = self._position[other]
            coming = self._stream[other]
            if position < len(coming) and self._graph.has_appearance(node, coming[position]):
                return True
        return False

    def _count_agreement(self, node: int, lane: int, skip: int = 0) -> int:
        """Count the rows for which the stream, after ``skip`` rows, matches the graph from
        ``node``.
        """
        coming = self._stream[lane]
        position = self._position[lane] + skip
        expected_node: int | None = node
        for length in range(_LOOK_AHEAD):
            if expected_node is None or position + length >= len(coming):
                return length
            if not self._graph.has_appearance(expected_node, coming[position + length]):
                return length
            expected_node = self._graph.find_next_visible(expected_node)
        return _LOOK_AHEAD

    def _resume(self, code: int, lane: int) -> int | None:
        """Return where the graph continues if no ready node matches the row.

        Either the row is additional, or nodes before its own are missing. The stream's next rows
        decide.
        """
        best: tuple[int, int, int] | None = None
        skipped_nodes: list[int] = []
        for node in self._find_unstarted(code):
            missing = self._find_missing_predecessors(node)
            if missing is None:
                continue
            rank = (self._count_agreement(node, lane), -len(missing), -node)
            if best is None or rank > best:
                best, skipped_nodes = rank, missing
        if best is None:
            return None
        last = self._last[lane]
        if last is not None:
            following = self._graph.find_next_visible(last)
            if following is not None and not self._begun[following]:
                as_new = self._count_agreement(following, lane, skip=1)
                if as_new >= best[0]:
                    return None
        for node in skipped_nodes:
            self._limit_run_confidence(node)
            self._mark_started(node)
        best_node = -best[2]
        self._limit[best_node] = _SKIPPED_CONFIDENCE
        return best_node

    def _find_unstarted(self, code: int) -> list[int]:
        """Return nodes in creation order."""
        nodes = self._graph.of_code.get(code, [])
        first = self._next_place.get(code, 0)
        while first < len(nodes) and self._begun[nodes[first]]:
            first += 1
        self._next_place[code] = first
        return [n for n in nodes[first : first + 2 * _MAX_CANDIDATES] if not self._begun[n]]

    def _find_missing_predecessors(self, node: int) -> list[int] | None:
        """Return None if there are too many."""
        missing: list[int] = []
        visited_nodes = {node}
        pending = [node]
        while pending:
            for before in self._graph.topology.predecessors[pending.pop()]:
                if before in visited_nodes or self._begun[before]:
                    continue
                visited_nodes.add(before)
                pending.append(before)
                if self._graph.topology.visible[before]:
                    missing.append(before)
                if len(missing) > _MAX_SKIPPED or len(visited_nodes) > 64:
                    return None
        return sorted(missing, key=lambda one: self._waiting[one])

    def _limit_run_confidence(self, node: int) -> None:
        """Limit the confidence of equal rows before a missing node: they may be that node."""
        code = self._graph.codes[node]
        before = self._graph.find_visible_predecessors(node)
        while len(before) == 1 and self._graph.codes[before[0]] == code:
            self._limit[before[0]] = _SKIPPED_CONFIDENCE
            before = self._graph.find_visible_predecessors(before[0])

    def _mark_started(self, node: int) -> None:
        self._begun[node] = True
        for code in {self._graph.codes[node], self._graph.driver[node]}:
            ready = self._ready.get(code, [])
            position = bisect_left(ready, node)
            if position < len(ready) and ready[position] == node:
                del ready[position]
        self._update_successors(node)

    def _update_successors(self, node: int) -> None:
        for after in self._graph.topology.successors[node]:
            self._waiting[after] -= 1
            if self._waiting[after] == 0 and not self._begun[after]:
                self._release(after)

    def _release(self, node: int) -> None:
        """A node without a row starts immediately."""
        pending = [node]
        while pending:
            released_node = pending.pop()
            if self._graph.topology.visible[released_node]:
                for code in {
                    self._graph.codes[released_node],
                    self._graph.driver[released_node],
                } - {NO_NODE}:
                    insort(self._ready.setdefault(code, []), released_node)
                continue
            self._begun[released_node] = True
            for after in self._graph.topology.successors[released_node]:
                self._waiting[after] -= 1
                if self._waiting[after] == 0 and not self._begun[after]:
                    pending.append(after)
