"""Assignment of graph launches in a trace to captured graphs.

Equal-looking graphs (for example, separately captured layers of a model) are distinguished by the
id of the executable graph, if the trace has it and the driver identified it. Otherwise the order of
launches per step from the node-id pass decides, or else the capture order, the usual launch order.
The latter is reliable only if the counts fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.graph.nesting import iter_enclosing_nodes
from graphviz_dash.analysis.graph.topology import GraphTopology
from graphviz_dash.analysis.replays.branches import BranchMatcher
from graphviz_dash.analysis.sequence_alignment import align
from graphviz_dash.analysis.trace.signatures import DRIVER_CODES, NO_NODE
from graphviz_dash.model.graph import CapturedGraph, MemcpyParams, MemsetParams, NodeKind
from graphviz_dash.model.node_ids import GraphIds
from graphviz_dash.model.trace import Trace

_MIN_AGREEMENT: Final = 0.99
"""Minimum fraction of rows that look like the node named by their id."""


class IdMatcher:
    """Matcher for the replays of one root graph.

    ``code_of`` holds the signature of each node, including contained graphs.
    """

    def __init__(
        self,
        root: CapturedGraph,
        by_id: Mapping[str, CapturedGraph],
        root_numbers: tuple[int, ...] | None,
        code_of: Mapping[NodeKey, int],
        graphs: Sequence[str],
    ) -> None:
        numbers = number_executable_nodes(root, by_id, root_numbers)
        size = max(numbers, default=-1) + 1
        graph_index = {name: index for index, name in enumerate(graphs)}
        self._graph, self._index = (np.full(size, -1, dtype=np.int64) for _ in range(2))
        self._code, self._driver = (np.full(size, NO_NODE, dtype=np.int64) for _ in range(2))
        self._repeats = np.zeros(size, dtype=bool)
        for number, (name, index) in numbers.items():
            node = by_id[name].nodes[index]
            self._graph[number], self._index[number] = graph_index[name], index
            self._code[number] = code_of.get((name, index), NO_NODE)
            if isinstance(node.params, MemcpyParams | MemsetParams):
                self._driver[number] = DRIVER_CODES[node.kind]
            # A conditional node's body can run repeatedly.
            self._repeats[number] = any(
                outer.kind is NodeKind.CONDITIONAL
                for _, outer in iter_enclosing_nodes(by_id[name], by_id)
            )

    def match(self, codes: Ints, ident: Ints, exec_id: int) -> tuple[Ints, Ints] | None:
        """Return graph (index in ``graphs``) and node of each row of one replay, -1 if none.

        None if the rows have no ids or do not look like the named nodes. Zero is a valid node id
        but also appears on eager kernels, so it counts only with an executable graph id (not -1). A
        node that appears twice in a replay is rejected, except in the body of a conditional node.
        """
        if not np.any(ident > 0) and exec_id <= 0:
            return None
        number = ident & 0xFFFF_FFFF
        inside = (ident >= 0) & (number < len(self._code))
        slot = np.where(inside, number, 0)
        looks = (self._code[slot] == codes) | (self._driver[slot] == codes)
        agree = inside & looks & (codes != NO_NODE)
        if np.count_nonzero(agree) < _MIN_AGREEMENT * len(codes):
            return None
        is_repeated = np.ones(len(slot), dtype=bool)
        is_repeated[np.unique(np.where(agree, slot, -1), return_index=True)[1]] = False
        is_reliable = agree & (~is_repeated | self._repeats[slot])
        return np.where(is_reliable, self._graph[slot], -1), np.where(
            is_reliable, self._index[slot], -1
        )


NodeKey = tuple[str, int]


def number_executable_nodes(
    root: CapturedGraph,
    by_id: Mapping[str, CapturedGraph],
    root_numbers: tuple[int, ...] | None = None,
) -> dict[int, NodeKey]:
    """Map numbers in the executable graph to (graph id, node index), for everything in ``root``.

    ``root_numbers`` holds the numbers of the root's nodes in creation order. If None, the position
    in creation order is used, which is correct unless nodes were removed.
    """
    numbers = root_numbers if root_numbers is not None else tuple(range(len(root.nodes)))
    nodes_by_number: dict[int, NodeKey] = {
        number: (root.id, node.index) for number, node in zip(numbers, root.nodes, strict=True)
    }
    following = max(numbers, default=-1) + 1
    pending = [root]
    while pending:
        for node in pending.pop().nodes:
            for name in node.bodies:
                body = by_id.get(name)
                if body is None:
                    continue
                for inner in body.nodes:
                    nodes_by_number[following + inner.index] = (name, inner.index)
                following += len(body.nodes)
                pending.append(body)
    return nodes_by_number


BY_ID: Final = "graph node id"
BY_ORDER: Final = "alignment: order"
BY_BRANCH: Final = "alignment: branches"

_FOREIGN_SIZE_WEIGHT: Final = 0.5
"""Weight of a copy with another graph's size, so that equal sizes count more."""
_MAX_PAIR_GAP_NS: Final = 5_000
"""Maximum gap between the two rows of one copy."""

MAX_GAP_CONFIDENCE: Final = 0.9
"""Maximum confidence in a replay with missing or additional rows."""


class MatchedRows(Struct, frozen=True):
    """``node`` (index or -1) and ``confidence`` of each row of a replay, and the method."""

    node: Ints
    confidence: Floats
    method: str


class ReplayRows(Struct, frozen=True):
    """Rows of one replay by start, as parallel arrays of shape (rows,).

    ``code`` identifies the signature, ``lane`` the stream; ``start`` is in ns.
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
        graphs, whose sizes CUPTI confuses.
        """
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

    def merge_copies(self, rows: Ints, replay: ReplayRows, duration: Ints) -> Ints:
        """Return ``rows`` without the second rows of copies, whose time is added to the first in
        ``duration``.
        """
        is_second = self._find_second_rows(replay, replay.start + duration[rows])
        if not is_second.any():
            return rows
        order = np.argsort(replay.lane, kind="stable")
        positions = np.flatnonzero(is_second[order])
        first, second = order[positions - 1], order[positions]
        end = replay.start[second] + duration[rows[second]]
        duration[rows[first]] = end - replay.start[first]
        return rows[~is_second]

    def _find_second_rows(self, rows: ReplayRows, end: Ints) -> npt.NDArray[np.bool_]:
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

        A graph uses the same streams in each replay, with different interleaving, so a replay with
        the same rows per stream as an earlier one gets the same nodes.
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


TURN_CONFIDENCE: Final = 0.9
"""Confidence that equal-looking graphs were launched in capture order, once each per step."""

MIN_LIKENESS: Final = 0.5
"""Minimum fraction of equal rows and nodes to assign a launch to a graph."""


class GraphIdentities(Struct, frozen=True):
    """Known identities of the graphs in addition to their appearance.

    ``ids`` belong to the traced process. ``order`` lists the graphs that a step launches, from
    another process of the program; empty if unknown.
    """

    ids: tuple[GraphIds, ...] = ()
    order: tuple[str, ...] = ()


NO_IDENTITIES: Final = GraphIdentities()


class GraphLaunch(NamedTuple):
    """A graph launch: signatures of its rows, its step (-1: none) and executable graph id (-1:
    none).
    """

    codes: Ints
    step: int
    exec_id: int


class GraphChoice(NamedTuple):
    """The graph chosen for a launch.

    ``matcher`` is an index (-1: no match), ``share`` the confidence, 0 to 1, and ``variant_count``
    the number of equally good ways to run the graph.
    """

    matcher: int
    share: float
    variant_count: int = 1


def locate_steps(times: Ints, trace: Trace, prefix: str) -> Ints:
    """Return the index of the range named ``prefix...`` around each of ``times``, or -1."""
    ranges = trace.annotations.filter(trace.annotations["name"].str.starts_with(prefix))
    begins = ranges["ts"].to_numpy().astype(np.int64)
    if not len(begins):
        return np.full(len(times), -1, dtype=np.int64)
    ends = begins + ranges["dur"].to_numpy().astype(np.int64)
    range_index = np.searchsorted(begins, times, "right") - 1
    return np.where((range_index >= 0) & (times <= ends[range_index]), range_index, -1)


class GraphChooser:
    """Chooser of graphs for launches.

    ``roots`` names the graph of each matcher; a graph has one matcher per way to run.
    """

    def __init__(
        self, matchers: Sequence[GraphMatcher], roots: Sequence[str], identities: GraphIdentities
    ) -> None:
        self._matchers = matchers
        self._roots = roots
        self._identities = identities
        self._named = {ident: ids.graph for ids in identities.ids for ident in ids.executable_ids}
        self._likest_of: dict[bytes, tuple[int, ...]] = {}

    def choose(self, launches: Sequence[GraphLaunch]) -> list[GraphChoice]:
        """Return the choice for each launch of a trace, in time order."""
        candidates = [self._find_candidates(launch) for launch in launches]
        chosen: list[GraphChoice | None] = [None] * len(launches)
        for number, (launch, best) in enumerate(zip(launches, candidates, strict=True)):
            if not best:
                chosen[number] = GraphChoice(-1, 0.0)
            elif len(self._get_graph_names(best)) == 1:
                chosen[number] = self._make_choice(self._roots[best[0]], best, 1.0)
            elif (name := self._named.get(launch.exec_id)) in self._get_graph_names(best):
                chosen[number] = self._make_choice(name, best, 1.0)
        sections = list(_split_sections(launches, len(self._identities.order)))
        for section in sections:
            self._choose_by_order(section, candidates, chosen)
        self._choose_by_turn(sections, launches, candidates, chosen)
        return [choice or GraphChoice(-1, 0.0) for choice in chosen]

    def _find_candidates(self, launch: GraphLaunch) -> tuple[int, ...]:
        """Prefer the matchers of the graph identified by id to the most similar ones."""
        name = self._named.get(launch.exec_id)
        key = np.append(np.sort(launch.codes), hash(name)).tobytes()
        if key not in self._likest_of:
            indices = [index for index, root in enumerate(self._roots) if root == name]
            likest = self._find_most_similar(launch.codes, indices) if indices else ()
            self._likest_of[key] = likest or self._find_most_similar(
                launch.codes, range(len(self._roots))
            )
        return self._likest_of[key]

    def _find_most_similar(self, codes: Ints, candidates: Sequence[int]) -> tuple[int, ...]:
        counts = Counter(codes.tolist())
        scores = {
            index: self._matchers[index].compute_likeness(counts, len(codes))
            for index in candidates
        }
        highest = max(scores.values(), default=0.0)
        if highest < MIN_LIKENESS:
            return ()
        return tuple(index for index, score in scores.items() if score == highest)

    def _get_graph_names(self, matchers: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._roots[index] for index in matchers))

    def _make_choice(self, name: str, matchers: tuple[int, ...], share: float) -> GraphChoice:
        indices = [index for index in matchers if self._roots[index] == name]
        return GraphChoice(indices[0], share, len(indices))

    def _choose_by_order(
        self,
        section: list[int],
        candidates: list[tuple[int, ...]],
        chosen: list[GraphChoice | None],
    ) -> None:
        """Assign graphs by the launch order of the node-id pass, if it fits."""
        order = self._identities.order
        fits = len(section) == len(order) and all(
            name in self._get_graph_names(candidates[number])
            for number, name in zip(section, order, strict=True)
        )
        if not fits:
            return
        for number, name in zip(section, order, strict=True):
            if chosen[number] is None:
                chosen[number] = self._make_choice(name, candidates[number], 1.0)

    def _choose_by_turn(
        self,
        sections: list[list[int]],
        launches: Sequence[GraphLaunch],
        candidates: list[tuple[int, ...]],
        chosen: list[GraphChoice | None],
    ) -> None:
        undecided_launches = [number for number, choice in enumerate(chosen) if choice is None]
        share = {
            best: 1 / len(self._get_graph_names(best))
            for best in {candidates[p] for p in undecided_launches}
        }
        for best in share:
            if self._is_once_per_step(best, sections, launches, candidates):
                share[best] = TURN_CONFIDENCE
        exec_ids: dict[tuple[int, ...], set[int]] = {}
        for number in undecided_launches:
            exec_ids.setdefault(candidates[number], set()).add(launches[number].exec_id)
        turns: Counter[tuple[int, ...]] = Counter()
        for number in undecided_launches:
            best = candidates[number]
            names = self._get_graph_names(best)
            if len(exec_ids[best]) == len(names):
                # Executable graphs are numbered on creation, which follows capture order.
                name = names[sorted(exec_ids[best]).index(launches[number].exec_id)]
                chosen[number] = self._make_choice(name, best, TURN_CONFIDENCE)
                continue
            name = names[turns[best] % len(names)]
            turns[best] += 1
            chosen[number] = self._make_choice(name, best, share[best])

    def _is_once_per_step(
        self,
        best: tuple[int, ...],
        sections: list[list[int]],
        launches: Sequence[GraphLaunch],
        candidates: list[tuple[int, ...]],
    ) -> bool:
        count = len(self._get_graph_names(best))
        steps = [section for section in sections if launches[section[0]].step >= 0]
        if not steps:
            return self._is_equally_often(candidates)
        before = sum(candidates[p] == best for p, launch in enumerate(launches) if launch.step < 0)
        return before % count == 0 and all(
            sum(candidates[p] == best for p in section) == count for section in steps
        )

    def _is_equally_often(self, candidates: Sequence[tuple[int, ...]]) -> bool:
        """Return whether a trace without marked steps shows every graph equally often.

        The trace then consists of complete steps that launch each graph once.
        """
        times = Counter(candidates)
        graph_names = {root for best in times for root in self._get_graph_names(best)}
        rounds = {
            divmod(count, len(self._get_graph_names(best) or "-")) for best, count in times.items()
        }
        is_single = len(times) == 1
        return (
            not is_single
            and graph_names == set(self._roots)
            and len(rounds) == 1
            and next(iter(rounds))[1] == 0
        )


def _split_sections(launches: Sequence[GraphLaunch], length: int) -> Iterator[list[int]]:
    """Split the launches into steps.

    Launches outside steps form sections of ``length`` if they divide evenly, else one section.
    """
    start = 0
    for number in range(1, len(launches) + 1):
        if number < len(launches) and launches[number].step == launches[start].step:
            continue
        run = list(range(start, number))
        if launches[start].step < 0 and length and len(run) % length == 0:
            yield from (run[first : first + length] for first in range(0, len(run), length))
        else:
            yield run
        start = number
