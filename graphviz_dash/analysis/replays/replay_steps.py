"""Step of each replay of a trace."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.replays.node_id_trace import build_node_id_trace
from graphviz_dash.analysis.replays.replays import NODE_ID_PASS, ReplayMatch
from graphviz_dash.analysis.trace.steps import StepMethod, find_steps
from graphviz_dash.model.run import Run
from graphviz_dash.model.trace import Trace


class ReplaySteps(Struct, frozen=True):
    """Steps of the replays of outermost graphs."""

    steps: int
    """Number of steps. 1 if the trace has no steps and counts as one."""
    is_whole_trace: bool
    """True if the trace has no steps."""
    by_graph: Mapping[str, Ints]
    """Step of each replay of a graph in time order, -1 outside steps; graphs with replays in
    steps."""

    @property
    def means(self) -> dict[str, float]:
        """Mean number of replays per step, by graph."""
        return {
            graph: float(np.count_nonzero(steps >= 0)) / self.steps
            for graph, steps in self.by_graph.items()
        }


def find_replay_steps(run: Run, replays: ReplayMatch) -> ReplaySteps:
    """Find the steps of ``replays``, which are of the traced or the node-id pass of ``run``."""
    trace = _get_trace(run, replays)
    steps = () if trace is None else find_steps(trace)
    row_steps = np.full(int(replays.gpu_row.max(initial=-1)) + 1, -1, dtype=np.int64)
    for number, step in enumerate(steps):
        row_steps[step.gpu_rows[step.gpu_rows < len(row_steps)]] = number
    by_graph = {}
    for graph in run.graphs:
        if graph.parent is not None or graph.id not in replays.graphs:
            continue
        rows = replays.find_first_rows(graph.id)
        graph_steps = row_steps[replays.gpu_row[rows]]
        if (graph_steps >= 0).any():
            by_graph[graph.id] = graph_steps
    is_whole_trace = any(step.method is StepMethod.WHOLE for step in steps)
    return ReplaySteps(len(steps), is_whole_trace, by_graph)


def _get_trace(run: Run, replays: ReplayMatch) -> Trace | None:
    if replays.source == NODE_ID_PASS and run.node_ids is not None:
        return build_node_id_trace(run.node_ids)
    return run.replay_trace
