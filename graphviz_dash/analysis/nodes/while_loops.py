"""Time of a replay that repeats work in While nodes, of which a trace shows the last iteration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.replays.replays import ReplayMatch
from graphviz_dash.model.graph import CapturedGraph, ConditionalParams, ConditionalType
from graphviz_dash.model.run import Run


class WhileLoops(Struct, frozen=True):
    """While nodes of a graph and the time of its replays."""

    nodes: int
    """While nodes, including nested ones."""
    replay_ns: float | None
    """Median GPU time of a replay between CUDA events, in ns. None if not sampled."""
    samples: int
    """Timed replays."""
    iteration_ns: float | None
    """Median time of the kernels of an iteration of all outer loops, without nested loops, in ns.
    None if not in the trace."""

    def limit_iterations(self, span_ns: int) -> int | None:
        """Return the maximum number of iterations of the outer loop; ``span_ns`` is the traced time
        outside loops. None if unknown."""
        if self.replay_ns is None or not self.iteration_ns:
            return None
        return max(1, int((self.replay_ns - span_ns) / self.iteration_ns))


def find_while_loops(
    run: Run, graph: CapturedGraph, match: ReplayMatch | None
) -> WhileLoops | None:
    """Find the While nodes of a launched graph. None without any."""
    parents = {child.id: child for child in run.graphs}
    descendants = [child for child in run.graphs if _find_root(child, parents) == graph.id]
    count = sum(_has_loop(node.params) for child in descendants for node in child.nodes)
    if not count:
        return None
    outer = [child.id for child in descendants if sum(_list_loops(child, parents)) == 1]
    times = () if run.loop is None else _get_replay_times(run, graph.id)
    return WhileLoops(
        nodes=count,
        replay_ns=float(np.median(times)) if times else None,
        samples=len(times),
        iteration_ns=None if match is None else _measure_iteration(match, outer),
    )


def _has_loop(params: object) -> bool:
    return isinstance(params, ConditionalParams) and params.type is ConditionalType.WHILE


def _find_root(graph: CapturedGraph, graphs: Mapping[str, CapturedGraph]) -> str:
    while graph.parent is not None and graph.parent[0] in graphs:
        graph = graphs[graph.parent[0]]
    return graph.id


def _list_loops(graph: CapturedGraph, graphs: Mapping[str, CapturedGraph]) -> Iterator[bool]:
    """Yield True for each While node that contains ``graph``."""
    while graph.parent is not None and graph.parent[0] in graphs:
        parent, index = graph.parent
        graph = graphs[parent]
        yield any(node.index == index and _has_loop(node.params) for node in graph.nodes)


def _get_replay_times(run: Run, graph: str) -> tuple[int, ...]:
    assert run.loop is not None
    return next((cost.gpu_ns for cost in run.loop.graphs if cost.graph == graph), ())


def _measure_iteration(match: ReplayMatch, bodies: list[str]) -> float | None:
    numbers = [match.graphs.index(body) for body in bodies if body in match.graphs]
    rows = np.flatnonzero(np.isin(match.graph, numbers))
    if not len(rows):
        return None
    _, replays = np.unique(match.replay[rows], return_inverse=True)
    totals = np.bincount(replays, weights=match.duration[rows].astype(np.float64))
    return float(np.median(totals))
