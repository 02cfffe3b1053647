"""Runs of the bodies of conditional nodes: how often the data of each replay took them.

A profiler that records every iteration of a While shows its number of iterations in each replay.
CUPTI 13.0 records the last one, which limits the number only: see :class:`LoopTime`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.graph.flatten import VISIBLE_KINDS
from graphviz_dash.analysis.graph.nesting import iter_enclosing_nodes, list_nested_graphs
from graphviz_dash.analysis.replays.replays import METHODS, ReplayMatch
from graphviz_dash.analysis.trace.steps import compute_exclusive_ns
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.graph import CapturedGraph, ConditionalParams, ConditionalType, GraphNode

_ONE_ITERATION: Final = "the profiler records only the last iteration of a While in each replay"
_NO_ROWS: Final = "the trace has no row of its body"
_NO_OUTER_ROWS: Final = "the trace has no row of the loop around it to count from"


class LoopTime(Struct, frozen=True):
    """Time of a While of which a trace shows the last iteration, over replays with a row of it."""

    loop_ns: int
    """Median from the end of the nodes before it to the end of its last iteration, in ns."""
    iteration_ns: int
    """Median busy time of the last iteration, without nested loops, in ns."""
    limits: tuple[int, ...]
    """Maximum iterations of each replay, if all its iterations are as long as the last."""


class ConditionalRuns(Struct, frozen=True):
    """Runs of one conditional node."""

    graph: str
    node: int
    type: ConditionalType | None
    """None if it was not read."""
    replays: int
    """Replays of the launched graph."""
    body_replays: tuple[int | None, ...]
    """Replays with a row of each body. None for a body without work that profilers show."""
    method: str | None
    """Method that matched rows to nodes. None without rows."""
    iterations: tuple[int, ...] | Missing
    """Iterations of a While, by replay or by iteration of the loop around it; empty for other
    types."""
    time: LoopTime | None
    """None if iterations are known, or if the trace has no node before the loop or no row of it."""


def find_conditional_runs(
    graphs: tuple[CapturedGraph, ...], root: CapturedGraph, match: ReplayMatch
) -> tuple[ConditionalRuns, ...]:
    """Find the runs of all conditional nodes in a launched graph, outer nodes first."""
    rows = _Rows(graphs, match)
    replays = match.count_replays(root.id)
    return tuple(
        _describe_runs(rows, graph, node, replays)
        for graph in rows.list_contained(root.id)
        for node in graph.nodes
        if isinstance(node.params, ConditionalParams)
    )


def _describe_runs(
    rows: _Rows, graph: CapturedGraph, node: GraphNode, replays: int
) -> ConditionalRuns:
    assert isinstance(node.params, ConditionalParams)
    bodies = [rows.graphs[body] for body in node.bodies if body in rows.graphs]
    inside = [rows.select(body.id) for body in bodies]
    methods = rows.match.method[np.concatenate(inside)] if inside else np.zeros(0, np.int8)
    is_loop = node.params.type is ConditionalType.WHILE and bool(bodies)
    iterations = _count_iterations(rows, graph, bodies[0]) if is_loop else ()
    return ConditionalRuns(
        graph=graph.id,
        node=node.index,
        type=node.params.type,
        replays=replays,
        body_replays=tuple(
            len(np.unique(rows.match.replay[part])) if rows.is_visible(body) else None
            for body, part in zip(bodies, inside, strict=True)
        ),
        method=METHODS[int(np.bincount(methods).argmax())] if len(methods) else None,
        iterations=iterations,
        time=_measure_loop(rows, graph, node, bodies[0])
        if isinstance(iterations, Missing)
        else None,
    )


class _Rows:
    """Matched rows of a trace by the graph that contains them."""

    def __init__(self, graphs: tuple[CapturedGraph, ...], match: ReplayMatch) -> None:
        self.graphs: Mapping[str, CapturedGraph] = {graph.id: graph for graph in graphs}
        self.match = match
        self.begin = match.start
        self.end = match.start + match.duration

    def list_contained(self, graph_id: str) -> list[CapturedGraph]:
        """List a graph and all graphs inside it; empty if it is unknown."""
        graph = self.graphs.get(graph_id)
        return [] if graph is None else list_nested_graphs(graph, self.graphs)

    def select(self, graph_id: str, *, contents: bool = True, loops: bool = True) -> Ints:
        """Return the matched rows of a graph.

        ``contents``: Include the graphs inside it. ``loops``: Include those of nested loops.
        """
        names = [graph_id]
        if contents:
            names = [graph.id for graph in self.list_contained(graph_id)]
            if not loops:
                loop_bodies = {
                    inner.id
                    for graph in self.list_contained(graph_id)
                    for node in graph.nodes
                    if _is_loop(node)
                    for body in node.bodies
                    for inner in self.list_contained(body)
                }
                names = [name for name in names if name not in loop_bodies]
        numbers = [self.match.graphs.index(name) for name in names if name in self.match.graphs]
        return np.flatnonzero(np.isin(self.match.graph, numbers) & (self.match.node >= 0))

    def split(self, rows: Ints) -> dict[int, Ints]:
        """Return the rows of each replay."""
        row_order = np.sort(rows)
        replays, first = np.unique(self.match.replay[row_order], return_index=True)
        parts = np.split(row_order, first[1:])
        return dict(zip(replays.tolist(), parts, strict=False))

    def select_node(self, graph: CapturedGraph, index: int) -> Ints:
        """Return the rows of a node, and of the graphs inside it."""
        node = graph.nodes[index]
        if node.bodies:
            return np.concatenate([self.select(body) for body in node.bodies])
        graph_rows = self.select(graph.id, contents=False)
        return graph_rows[np.flatnonzero(self.match.node[graph_rows] == index)]

    def is_visible(self, graph: CapturedGraph) -> bool:
        """Check if profilers show any work of a graph."""
        return any(
            node.kind in VISIBLE_KINDS
            for inner in self.list_contained(graph.id)
            for node in inner.nodes
        )

    def find_outer_loop(self, graph: CapturedGraph) -> CapturedGraph | None:
        """Return the body of the innermost loop around a graph or equal to it, or None."""
        body = graph
        for outer, node in iter_enclosing_nodes(graph, self.graphs):
            if _is_loop(node):
                return body
            body = outer
        return None


def _is_loop(node: GraphNode) -> bool:
    return isinstance(node.params, ConditionalParams) and node.params.type is ConditionalType.WHILE


def _count_iterations(
    rows: _Rows, graph: CapturedGraph, body: CapturedGraph
) -> tuple[int, ...] | Missing:
    body_rows = rows.select(body.id, contents=False)
    if not len(body_rows):
        return Missing(Fact.NODE_TIMES, _NO_ROWS)
    outer = rows.find_outer_loop(graph)
    outer_rows = None if outer is None else rows.select(outer.id, contents=False)
    if outer_rows is not None and not len(outer_rows):
        return Missing(Fact.NODE_TIMES, _NO_OUTER_ROWS)
    turns_by_replay = {} if outer_rows is None else rows.split(outer_rows)
    counts: list[int] = []
    for replay, part in rows.split(body_rows).items():
        starts = _list_first_starts(rows, part)
        if outer_rows is None:
            counts.append(len(starts))
            continue
        turns = _list_first_starts(rows, turns_by_replay.get(replay, part[:0]))
        # The loop is either behind or before the first recorded node of the loop around it.
        follows_turn = len(turns) > 0 and turns[0] <= starts[0]
        place = np.searchsorted(turns, starts, "right" if follows_turn else "left") - int(
            follows_turn
        )
        counts += np.bincount(place, minlength=len(turns)).tolist()
    if max(counts) <= 1:
        return Missing(Fact.NODE_TIMES, _ONE_ITERATION)
    return tuple(counts)


def _list_first_starts(rows: _Rows, part: Ints) -> Ints:
    """Return the starts of the node that starts first among rows of one replay."""
    if not len(part):
        return np.zeros(0, dtype=np.int64)
    first = rows.match.node[part[np.argmin(rows.begin[part])]]
    return np.sort(rows.begin[part[rows.match.node[part] == first]])


def _measure_loop(
    rows: _Rows, graph: CapturedGraph, node: GraphNode, body: CapturedGraph
) -> LoopTime | None:
    sources: dict[int, list[int]] = {}
    for edge in graph.edges:
        sources.setdefault(edge.target, []).append(edge.source)
    before: set[int] = set()
    pending = [node.index]
    while pending:
        pending += [source for source in sources.get(pending.pop(), ()) if source not in before]
        before.update(pending)
    predecessors = [rows.select_node(graph, index) for index in sorted(before)]
    preceding = np.concatenate(predecessors) if predecessors else np.zeros(0, dtype=np.int64)
    before_by_replay, whole_by_replay = rows.split(preceding), rows.split(rows.select(body.id))
    loops, iterations = [], []
    for replay, part in rows.split(rows.select(body.id, loops=False)).items():
        first, last = before_by_replay.get(replay), whole_by_replay[replay]
        if first is None:
            continue
        turn = part[np.argsort(rows.begin[part], kind="stable")]
        loops.append(int(rows.end[last].max() - rows.end[first].max()))
        iterations.append(int(compute_exclusive_ns(rows.begin[turn], rows.end[turn]).sum()))
    if not loops or not min(iterations):
        return None
    return LoopTime(
        loop_ns=round(float(np.median(loops))),
        iteration_ns=round(float(np.median(iterations))),
        limits=tuple(
            max(1, loop // iteration) for loop, iteration in zip(loops, iterations, strict=True)
        ),
    )
