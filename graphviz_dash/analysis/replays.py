"""Which row of a replay's trace is which node of the graph: a ladder, and each row says its rung.

1. "graph node id": the trace names the node (newer torch and CUPTI).
2. "alignment: order": the graph's nodes are one chain, so the rows by start are the nodes in order.
3. "alignment: branches": rows by start are given to nodes whose predecessors have all started, of
   the same signature, following the stream; branches that look alike cannot be told apart, and the
   confidence says so.
"""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from graphviz_dash.analysis.calls import CallClass, call_class
from graphviz_dash.analysis.lanes import Ints, column
from graphviz_dash.analysis.signatures import DRIVER_COPY, Signatures
from graphviz_dash.model.graph import CapturedGraph, NodeKind

if TYPE_CHECKING:
    from graphviz_dash.model.trace import Trace

Floats = npt.NDArray[np.float64]

BY_ID: Final = "graph node id"
BY_ORDER: Final = "alignment: order"
BY_BRANCH: Final = "alignment: branches"
UNMATCHED: Final = "none"
METHODS: Final = (UNMATCHED, BY_ID, BY_ORDER, BY_BRANCH)

_RESYNCHRONISED = 0.9
"""Confidence where rows before or after were missing or new, but the signatures agree again."""

_OUT_OF_ORDER = 0.5
"""Confidence of a row whose node's predecessors were not all seen."""

_AGREE = 0.99
"""Share of rows whose name must fit the node that an id names, for ids to be believed."""


@dataclass(frozen=True)
class ReplayMatch:
    """All rows of all replays, as parallel arrays of shape (rows,).

    ``replay`` numbers the graph launches of the trace by time, ``graph`` indexes ``graphs`` (-1:
    a graph that no captured one looks like), ``gpu_row`` is the row of ``trace.gpu``, ``node`` the
    node index or -1, ``method`` indexes METHODS, ``start`` (ns since its replay's first row),
    ``duration`` (ns) and ``stream`` are the trace's.
    """

    graphs: tuple[str, ...]
    replay: Ints
    graph: Ints
    gpu_row: Ints
    node: Ints
    method: Ints
    confidence: Floats
    start: Ints
    duration: Ints
    stream: Ints

    @property
    def matched(self) -> int:
        """Rows that were matched to a node."""
        return int(np.count_nonzero(self.node >= 0))

    def of_graph(self, graph_id: str) -> npt.NDArray[np.bool_]:
        """Which rows belong to replays of the graph, shape (rows,)."""
        if graph_id not in self.graphs:
            return np.zeros(len(self.graph), dtype=bool)
        return np.asarray(self.graph == self.graphs.index(graph_id))

    def replays_of(self, graph_id: str) -> int:
        """How often the trace shows the graph launched."""
        return len(np.unique(self.replay[self.of_graph(graph_id)]))

    def rows_of(self, graph_id: str, node: int) -> Ints:
        """The places, in these arrays, of one node's rows in the order of replays."""
        order, bounds = self._by_node
        if graph_id not in self.graphs:
            return np.zeros(0, dtype=np.int64)
        key = self._key(self.graphs.index(graph_id), node)
        first, last = np.searchsorted(bounds, [key, key + 1])
        return order[first:last]

    def samples(self, graph_id: str, node: int) -> Ints:
        """The durations of one node, a value for each replay that shows it, in ns."""
        return self.duration[self.rows_of(graph_id, node)]

    @staticmethod
    def _key(graph: int, node: int) -> int:
        return (graph << 40) + node

    @cached_property
    def _by_node(self) -> tuple[Ints, Ints]:
        rows = np.flatnonzero(self.node >= 0)
        keys = (self.graph[rows] << 40) + self.node[rows]
        order = np.argsort(keys, kind="stable")
        return rows[order], keys[order]


def match_replays(graphs: tuple[CapturedGraph, ...], trace: Trace) -> ReplayMatch:
    """Matches the GPU rows of every graph launch in ``trace`` with the nodes of ``graphs``.

    Graphs that are bodies of others are not launched by themselves and are left out.
    """
    roots = tuple(graph for graph in graphs if graph.parent is None)
    signatures = Signatures(roots)
    matchers = [_Matcher(graph, signatures.of_graph(graph.id)) for graph in roots]
    codes = signatures.of_trace(trace)
    begin = column(trace.gpu, "ts")
    stream = column(trace.gpu, "stream")
    ids = column(trace.gpu, "graph_node_id") if len(trace.gpu) else codes
    parts: dict[str, list[Ints]] = {
        name: [] for name in ("replay", "graph", "row", "node", "method")
    }
    confidences: list[Floats] = []
    starts: list[Ints] = []
    for number, rows in enumerate(_launched_rows(trace)):
        which = _graph_of(matchers, codes[rows])
        if which < 0:
            node = np.full(len(rows), -1, dtype=np.int64)
            method, confidence = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows))
        else:
            node, method, confidence = matchers[which].match(codes[rows], stream[rows], ids[rows])
        for name, values in (
            ("replay", np.full(len(rows), number)),
            ("graph", np.full(len(rows), which)),
            ("row", rows),
            ("node", node),
            ("method", method),
        ):
            parts[name].append(values)
        confidences.append(confidence)
        starts.append(begin[rows] - begin[rows[0]])
    joined = {name: _joined(values) for name, values in parts.items()}
    row = joined["row"]
    return ReplayMatch(
        graphs=tuple(graph.id for graph in roots),
        replay=joined["replay"],
        graph=joined["graph"],
        gpu_row=row,
        node=joined["node"],
        method=joined["method"],
        confidence=np.concatenate(confidences) if confidences else np.zeros(0),
        start=_joined(starts),
        duration=column(trace.gpu, "dur")[row],
        stream=stream[row],
    )


def _joined(parts: list[Ints]) -> Ints:
    if not parts:
        return np.zeros(0, dtype=np.int64)
    return np.concatenate(parts).astype(np.int64, copy=False)


def _launched_rows(trace: Trace) -> list[Ints]:
    """For each graph launch that has any, its GPU rows by start; launches by time."""
    names = trace.runtime["name"].cast(str).to_list()
    is_launch = np.array(
        [call_class(name or "") is CallClass.GRAPH_LAUNCH for name in names], dtype=bool
    )
    launches = column(trace.runtime, "correlation")[is_launch]
    gpu = column(trace.gpu, "correlation")
    order = np.argsort(gpu, kind="stable")
    first = np.searchsorted(gpu[order], launches, "left")
    last = np.searchsorted(gpu[order], launches, "right")
    # The table is sorted by start, and a stable sort by correlation keeps that.
    return [
        order[a:b]
        for correlation, a, b in zip(launches.tolist(), first, last, strict=True)
        if b > a and correlation >= 0
    ]


def _graph_of(matchers: list[_Matcher], codes: Ints) -> int:
    """The graph that a replay's rows look like most, or -1 when less than half of them fit."""
    if not matchers:
        return -1
    seen = Counter(codes[codes >= 0].tolist())
    scores = [matcher.likeness(seen, len(codes)) for matcher in matchers]
    best = int(np.argmax(scores))
    return best if scores[best] >= 0.5 else -1


class _Matcher:
    """Matches replays of one graph; replays that look alike are matched once."""

    def __init__(self, graph: CapturedGraph, codes: list[int]) -> None:
        self._codes = codes
        self._count = len(codes)
        self._successors: list[list[int]] = [[] for _ in range(self._count)]
        self._degree = [0] * self._count
        for edge in graph.edges:
            self._successors[edge.source].append(edge.target)
            self._degree[edge.target] += 1
        self._predecessors: list[list[int]] = [[] for _ in range(self._count)]
        for edge in graph.edges:
            self._predecessors[edge.target].append(edge.source)
        self._of_code = Counter(code for code in codes if code >= 0)
        self._copies = np.array(
            [node.kind in (NodeKind.MEMCPY, NodeKind.MEMSET) for node in graph.nodes], dtype=bool
        )
        copy_codes = {codes[node] for node in np.flatnonzero(self._copies).tolist()}
        # With one kind of copy in the graph a copy of unknown size can only be that one.
        self._only_copy = copy_codes.pop() if len(copy_codes) == 1 else -1
        self._chain = self._visible_chain()
        self._known: dict[bytes, tuple[Ints, Ints, Floats]] = {}

    def likeness(self, seen: Counter[int], rows: int) -> float:
        """Share of rows and nodes that have a partner of the same signature, 0 to 1."""
        common = sum(min(count, seen.get(code, 0)) for code, count in self._of_code.items())
        return common / max(rows, sum(self._of_code.values()), 1)

    def match(self, codes: Ints, stream: Ints, ids: Ints) -> tuple[Ints, Ints, Floats]:
        """Node, method and confidence of each row of one replay, by start."""
        lanes = np.unique(stream, return_inverse=True)[1].reshape(-1)
        if self._only_copy >= 0:
            codes = np.where(codes == DRIVER_COPY, self._only_copy, codes)
        key = np.concatenate((codes, lanes, ids)).tobytes()
        found = self._known.get(key)
        if found is None:
            found = self._match(codes, lanes, ids)
            self._known[key] = found
        return found

    def _match(self, codes: Ints, lanes: Ints, ids: Ints) -> tuple[Ints, Ints, Floats]:
        by_id = self._by_id(codes, ids)
        if by_id is not None:
            node, confidence, method = by_id, np.where(by_id >= 0, 1.0, 0.0), BY_ID
        elif self._chain is not None:
            node, confidence = self._in_order(codes, self._chain)
            method = BY_ORDER
        else:
            node, confidence = self._by_branch(codes.tolist(), lanes.tolist())
            method = BY_BRANCH
        methods = np.where(node >= 0, METHODS.index(method), METHODS.index(UNMATCHED))
        return node, methods.astype(np.int64), confidence

    def _by_id(self, codes: Ints, ids: Ints) -> Ints | None:
        """Nodes by the id that the trace gives, if it does and names agree with signatures.

        The value is the node's own id, or has the graph's id in the upper half.
        """
        low = ids & 0xFFFFFFFF
        if np.any(ids <= 0) and not np.any(ids > 0):
            return None
        inside = (ids >= 0) & (low < self._count)
        node = np.where(inside, low, -1)
        own = np.array(self._codes, dtype=np.int64)
        agree = inside & (own[np.where(inside, low, 0)] == codes)
        if np.count_nonzero(agree) < _AGREE * len(codes):
            return None
        return np.where(agree, node, -1)

    def _visible_chain(self) -> list[int] | None:
        """The visible nodes in order if the graph is one chain, else None."""
        roots = [node for node in range(self._count) if self._degree[node] == 0]
        if len(roots) != 1 or any(len(after) > 1 for after in self._successors):
            return None
        order, node = [], roots[0]
        while True:
            if self._codes[node] >= 0:
                order.append(node)
            if not self._successors[node]:
                return order
            node = self._successors[node][0]

    def _in_order(self, codes: Ints, chain: list[int]) -> tuple[Ints, Floats]:
        own = np.array([self._codes[node] for node in chain], dtype=np.int64)
        nodes = np.array(chain, dtype=np.int64)
        if len(own) == len(codes):
            copied = (codes == DRIVER_COPY) & self._copies[nodes]
            if np.all((own == codes) | copied):
                return nodes, np.ones(len(codes))
        node = np.full(len(codes), -1, dtype=np.int64)
        matcher = difflib.SequenceMatcher(None, own.tolist(), codes.tolist(), autojunk=False)
        for block in matcher.get_matching_blocks():
            node[block.b : block.b + block.size] = nodes[block.a : block.a + block.size]
        return node, np.where(node >= 0, _RESYNCHRONISED, 0.0)

    def _by_branch(self, codes: list[int], lanes: list[int]) -> tuple[Ints, Floats]:
        state = _Ready(self._codes, self._successors, list(self._degree))
        certain = [0.0] * self._count
        last_on: dict[int, int] = {}
        node = np.full(len(codes), -1, dtype=np.int64)
        confidence = np.zeros(len(codes))
        for row, (code, lane) in enumerate(zip(codes, lanes, strict=True)):
            if code < 0:
                continue
            candidates = state.ready(code)
            before = last_on.get(lane)
            follows = [n for n in candidates if before is not None and self._follows(n, before)]
            if follows:
                chosen = follows[0]
                sure = certain[before] if before is not None else 1.0
            elif candidates:
                chosen = candidates[0]
                sure = self._sureness(chosen, candidates, certain)
            else:
                late = state.waiting(code)
                if late is None:
                    continue
                chosen, sure = late, _OUT_OF_ORDER
            if self._of_code[code] == 1:
                sure = 1.0
            state.take(chosen)
            certain[chosen] = sure
            last_on[lane] = chosen
            node[row], confidence[row] = chosen, sure
        return node, confidence

    def _sureness(self, chosen: int, candidates: list[int], certain: list[float]) -> float:
        if len(candidates) > 1:
            return 1.0 / len(candidates)
        # Alone ready now, but if its predecessor may be another branch's, so may this one.
        seen = [certain[p] for p in self._predecessors[chosen] if self._codes[p] >= 0]
        return min(seen) if len(seen) == 1 else 1.0

    def _follows(self, node: int, before: int) -> bool:
        """Whether ``node`` depends on ``before`` directly, or through nodes without a row."""
        pending = list(self._predecessors[node])
        while pending:
            one = pending.pop()
            if one == before:
                return True
            if self._codes[one] < 0:
                pending.extend(self._predecessors[one])
        return False


class _Ready:
    """Nodes whose predecessors were all taken, by signature; invisible ones take themselves."""

    def __init__(self, codes: list[int], successors: list[list[int]], degree: list[int]) -> None:
        self._codes = codes
        self._successors = successors
        self._degree = degree
        self._ready: dict[int, list[int]] = {}
        self._taken = [False] * len(codes)
        self._places: dict[int, list[int]] = {}
        for node, code in enumerate(codes):
            self._places.setdefault(code, []).append(node)
        self._next_place = dict.fromkeys(self._places, 0)
        for node in range(len(codes)):
            if degree[node] == 0:
                self._release(node)

    def ready(self, code: int) -> list[int]:
        """Ready nodes of a signature, in creation order."""
        return self._ready.get(code, [])

    def waiting(self, code: int) -> int | None:
        """The first node of a signature that was not taken, ready or not."""
        places = self._places.get(code, [])
        place = self._next_place.get(code, 0)
        while place < len(places) and self._taken[places[place]]:
            place += 1
        self._next_place[code] = place
        return places[place] if place < len(places) else None

    def take(self, node: int) -> None:
        """Marks a node as started, which makes its successors ready once all of theirs have."""
        self._taken[node] = True
        ready = self._ready.get(self._codes[node], [])
        if node in ready:
            ready.remove(node)
        for after in self._successors[node]:
            self._degree[after] -= 1
            if self._degree[after] == 0 and not self._taken[after]:
                self._release(after)

    def _release(self, node: int) -> None:
        pending = [node]
        while pending:
            one = pending.pop()
            if self._codes[one] >= 0:
                ready = self._ready.setdefault(self._codes[one], [])
                ready.append(one)
                ready.sort()
                continue
            self._taken[one] = True
            for after in self._successors[one]:
                self._degree[after] -= 1
                if self._degree[after] == 0:
                    pending.append(after)
