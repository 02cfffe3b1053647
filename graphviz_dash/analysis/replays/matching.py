"""Matching of the rows of one replay to the nodes of one graph, by order or by branch."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.graph.topology import GraphTopology
from graphviz_dash.analysis.replays.branches import BranchMatcher
from graphviz_dash.analysis.sequence_alignment import align
from graphviz_dash.analysis.trace.signatures import DRIVER_CODES, NO_NODE
from graphviz_dash.model.graph import CapturedGraph, MemcpyParams, MemsetParams, NodeKind

BY_ID: Final = "graph node id"
BY_ORDER: Final = "alignment: order"
BY_BRANCH: Final = "alignment: branches"

_FOREIGN_SIZE_WEIGHT: Final = 0.5
"""Weight of a copy with the size of another graph's copy, so that equal sizes count more."""
_MAX_PAIR_GAP_NS: Final = 5_000
"""Maximum gap between the two rows of one copy."""

MAX_GAP_CONFIDENCE: Final = 0.9
"""Maximum confidence of a row in a replay with missing or additional rows."""


class MatchedRows(Struct, frozen=True):
    """``node`` (index or -1) and ``confidence`` of each row of a replay, and the method."""

    node: Ints
    confidence: Floats
    method: str


class ReplayRows(Struct, frozen=True):
    """Rows of one replay by start, as parallel arrays of shape (rows,).

    ``code`` identifies the signature, ``lane`` is a dense stream number, ``start`` is in ns.
    """

    code: Ints
    lane: Ints
    start: Ints


class GraphMatcher:
    """Matcher for the replays of one graph; equal replays are matched only once."""

    def __init__(
        self, graph: CapturedGraph, codes: Ints, copy_codes: frozenset[int] = frozenset()
    ) -> None:
        """Prepare ``graph``, whose nodes have ``codes``; ``copy_codes`` are those of copies in all
        graphs, whose sizes CUPTI confuses."""
        self._codes = codes
        self._foreign_copies = np.array(sorted(copy_codes.difference(codes.tolist())), np.int64)
        self._of_code = Counter(code for code in codes.tolist() if code != NO_NODE)
        self._visible = sum(self._of_code.values())
        self._driver = np.full(len(codes), NO_NODE, dtype=np.int64)
        for node in graph.nodes:
            # A small copy or set may appear as a kernel that the driver runs for it.
            if isinstance(node.params, MemcpyParams | MemsetParams):
                self._driver[node.index] = DRIVER_CODES[node.kind]
        self._copies = {
            driver: Counter(codes[self._driver == driver].tolist())
            for driver in DRIVER_CODES.values()
        }
        self._graph = graph
        self._branches: BranchMatcher | None = None
        self._matched_before: dict[bytes, tuple[Ints, Floats, str]] = {}

    @cached_property
    def _topology(self) -> GraphTopology:
        return GraphTopology.from_graph(self._graph, self._codes != NO_NODE)

    @cached_property
    def _chain(self) -> Ints | None:
        return self._topology.find_chain()

    def compute_likeness(self, counts: Counter[int], rows: int) -> float:
        """Return the fraction of rows and nodes with a partner of the same signature, 0 to 1."""
        fits: dict[int, int] = {
            code: min(count, counts.get(code, 0)) for code, count in self._of_code.items()
        }
        common: float = sum(fits.values())
        foreign = sum(counts.get(code, 0) for code in self._foreign_copies.tolist())
        for driver, copies in self._copies.items():
            unmatched_count = sum(count - fits[code] for code, count in copies.items())
            by_driver = min(unmatched_count, counts.get(driver, 0))
            common += by_driver
            if driver == DRIVER_CODES[NodeKind.MEMCPY]:
                common += _FOREIGN_SIZE_WEIGHT * min(unmatched_count - by_driver, foreign)
        return common / max(rows, self._visible, 1)

    def replace_foreign_sizes(self, codes: Ints) -> Ints:
        """Return ``codes`` of rows, with copies of other graphs' sizes as copies of any size."""
        if not len(self._foreign_copies):
            return codes
        driver = DRIVER_CODES[NodeKind.MEMCPY]
        return np.where(np.isin(codes, self._foreign_copies), driver, codes)

    def find_second_rows(self, rows: ReplayRows, end: Ints) -> npt.NDArray[np.bool_]:
        """Find the second row of each captured copy that the trace shows as two equal rows.

        Executable graphs hold two nodes per captured copy (pytorch issue 191284). None are found
        unless the graph then has exactly the remaining copies. ``end`` holds the end of each row.
        """
        driver = DRIVER_CODES[NodeKind.MEMCPY]
        node_count = sum(self._copies[driver].values())
        is_copy = np.isin(rows.code, [*self._copies[driver], driver])
        second = np.zeros(len(rows.code), dtype=np.bool_)
        surplus = int(np.count_nonzero(is_copy)) - node_count
        if not node_count or surplus <= 0:
            return second
        order = np.argsort(rows.lane, kind="stable")
        for row, following in pairwise(order.tolist()):
            is_pair = (
                rows.lane[row] == rows.lane[following]
                and rows.code[row] == rows.code[following]
                and rows.start[following] - end[row] <= _MAX_PAIR_GAP_NS
            )
            if is_pair and is_copy[row] and not second[row]:
                second[following] = True
        return second if np.count_nonzero(second) == surplus else np.zeros_like(second)

    def match(self, rows: ReplayRows) -> MatchedRows:
        """Match the rows of one replay to nodes.

        A graph uses the same streams in each replay, with different interleaving. A replay with
        the same rows per stream as an earlier one therefore gets the same nodes.
        """
        by_lane = np.argsort(rows.lane, kind="stable")
        key = np.concatenate((rows.code, rows.lane)).reshape(2, -1)[:, by_lane]
        cached_match = self._matched_before.get(key.tobytes())
        if cached_match is not None:
            node = np.empty(len(by_lane), dtype=np.int64)
            confidence = np.empty(len(by_lane), dtype=np.float64)
            node[by_lane], confidence[by_lane] = cached_match[0], cached_match[1]
            if cached_match[2] != BY_BRANCH or self._topology.is_in_order(node, rows.start):
                return MatchedRows(node, confidence, cached_match[2])
        node_match = self._match_uncached(rows)
        if cached_match is None:
            parts = node_match.node[by_lane], node_match.confidence[by_lane], node_match.method
            self._matched_before[key.tobytes()] = parts
        return node_match

    def _match_uncached(self, rows: ReplayRows) -> MatchedRows:
        if self._chain is not None:
            return MatchedRows(*self._match_in_order(rows.code, self._chain), BY_ORDER)
        if self._branches is None:
            self._branches = BranchMatcher(self._topology, self._codes, self._driver)
        node, confidence = self._branches.match(rows.code.tolist(), rows.lane.tolist())
        if np.count_nonzero(node >= 0) < max(self._visible, len(node)):
            confidence = np.minimum(confidence, MAX_GAP_CONFIDENCE)
        return MatchedRows(node, confidence, BY_BRANCH)

    def _match_appearance(self, nodes: Ints, codes: Ints) -> npt.NDArray[np.bool_]:
        is_equal = (self._codes[nodes] == codes) | (self._driver[nodes] == codes)
        return np.asarray(is_equal & (codes != NO_NODE))

    def _match_in_order(self, codes: Ints, chain: Ints) -> tuple[Ints, Floats]:
        if len(chain) == len(codes) and np.all(self._match_appearance(chain, codes)):
            return chain, np.ones(len(codes))
        node = np.full(len(codes), -1, dtype=np.int64)
        confidence = np.zeros(len(codes))
        alignment = align(
            self._make_comparable(self._codes[chain], chain), self._make_comparable(codes)
        )
        if alignment is None:
            return node, confidence
        paired_rows = np.flatnonzero(alignment.partner >= 0)
        row = alignment.partner[paired_rows]
        is_equal = self._match_appearance(chain[paired_rows], codes[row])
        paired_rows, row = paired_rows[is_equal], row[is_equal]
        node[row] = chain[paired_rows]
        spread = alignment.spread[paired_rows]
        confidence[row] = np.where(spread == 0, MAX_GAP_CONFIDENCE, 1 / (1 + spread))
        return node, confidence

    def _make_comparable(self, codes: Ints, nodes: Ints | None = None) -> Ints:
        """Return codes in which memcpys and memsets equal the driver's kernels for them."""
        if nodes is not None:
            return np.where(self._driver[nodes] != NO_NODE, self._driver[nodes], codes)
        comparable = codes.copy()
        for code_of_node, driver in {
            (code, driver)
            for code, driver in zip(self._codes.tolist(), self._driver.tolist(), strict=True)
            if driver != NO_NODE
        }:
            comparable[codes == code_of_node] = driver
        return comparable
