"""Two graphs of loaded runs side by side: what differs, and whether one could be updated to the
other, as predicted and as the driver answered.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from graphviz_dash.analysis.graph.device_launch import DeviceLaunch, device_launch
from graphviz_dash.features.graph.diff.graph_diff import GraphDiff, diff_graphs
from graphviz_dash.features.graph.diff.update_prediction import (
    UpdatePrediction,
    UpdateResult,
    predict_update,
)
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import GraphUpdate, Run


class GraphPair(Struct, frozen=True):
    """``recorded`` is the driver's answer to updating ``diff.a`` to ``diff.b``, None where it was
    not asked: it is asked for graphs of one run only."""

    diff: GraphDiff
    prediction: UpdatePrediction
    recorded: GraphUpdate | None

    @property
    def agreed(self) -> bool | None:
        """Whether the driver answered as predicted, to the result and the offending node; None
        where there is nothing to compare."""
        if self.recorded is None or self.prediction.accepted is None:
            return None
        violation, answer = self.prediction.violation, self.recorded.answer
        if violation is None:
            return answer.result == UpdateResult.SUCCESS
        predicted = (violation.result, violation.node, violation.from_node)
        return predicted == (answer.result, answer.node, answer.from_node)


def pair_graphs(run_a: Run, graph_a: str, run_b: Run, graph_b: str) -> GraphPair:
    """Compares a graph of one run with a graph of another, or of the same.

    Raises:
        KeyError: a run has no graph of that id.
    """
    first, second = with_bodies(run_a.graphs, graph_a), with_bodies(run_b.graphs, graph_b)
    recorded = None
    if run_a.path == run_b.path and run_a.updates is not None:
        recorded = next(
            (
                update
                for update in run_a.updates.pairs
                if (update.of, update.by) == (graph_a, graph_b)
            ),
            None,
        )
    return GraphPair(diff_graphs(first, second), predict_update(first, second), recorded)


def with_bodies(graphs: Sequence[CapturedGraph], graph_id: str) -> tuple[CapturedGraph, ...]:
    """The graph of that id, then the graphs in it, from the outside in (KeyError: none)."""
    by_id = {graph.id: graph for graph in graphs}
    nested = [by_id[graph_id]]
    for graph in nested:
        nested += [by_id[body] for node in graph.nodes for body in node.bodies if body in by_id]
    return tuple(nested)


def check_device_launch(run: Run, graph_id: str) -> DeviceLaunch:
    """Whether a graph of ``run`` could be launched from the device (KeyError: no such graph)."""
    return device_launch(with_bodies(run.graphs, graph_id), run.manifest.environment)
