"""Time of a replay that repeats work in While nodes, of which a trace shows the last iteration."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.graph.nesting import find_root
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


def find_while_loops(run: Run, graph: CapturedGraph) -> WhileLoops | None:
    """Find the While nodes of a launched graph. None without any."""
    parents = {child.id: child for child in run.graphs}
    descendants = [child for child in run.graphs if find_root(child, parents) == graph.id]
    count = sum(_has_loop(node.params) for child in descendants for node in child.nodes)
    if not count:
        return None
    times = () if run.loop is None else _get_replay_times(run, graph.id)
    return WhileLoops(
        nodes=count,
        replay_ns=float(np.median(times)) if times else None,
        samples=len(times),
    )


def _has_loop(params: object) -> bool:
    return isinstance(params, ConditionalParams) and params.type is ConditionalType.WHILE


def _get_replay_times(run: Run, graph: str) -> tuple[int, ...]:
    assert run.loop is not None
    return next((cost.gpu_ns for cost in run.loop.graphs if cost.graph == graph), ())
