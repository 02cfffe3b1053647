"""Comparison of two graphs of loaded runs, with predicted and recorded updates."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from graphviz_dash.analysis.graph.device_launch import DeviceLaunch, check_device_launch_rules
from graphviz_dash.analysis.graph.nesting import list_nested_graphs
from graphviz_dash.features.graph.diff.graph_diff import GraphDiff, diff_graphs
from graphviz_dash.features.graph.diff.update_prediction import (
    UpdatePrediction,
    UpdateResult,
    predict_update,
)
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import GraphUpdate, Run


class GraphPair(Struct, frozen=True):
    """Comparison of two graphs.

    ``recorded`` is the driver's update result; None if not recorded, or for graphs of two runs.
    """

    diff: GraphDiff
    prediction: UpdatePrediction
    recorded_update: GraphUpdate | None

    @property
    def is_prediction_correct(self) -> bool | None:
        """True if result and offending node match the prediction; None if unknown."""
        if self.recorded_update is None or self.prediction.is_accepted is None:
            return None
        violation, answer = self.prediction.violation, self.recorded_update.result
        if violation is None:
            return answer.result == UpdateResult.SUCCESS
        predicted = (violation.result, violation.node, violation.from_node)
        return predicted == (answer.result, answer.node, answer.from_node)


def compare_graphs(run_a: Run, graph_a: str, run_b: Run, graph_b: str) -> GraphPair:
    """Compare a graph of one run with a graph of the same or another run.

    Raises:
        KeyError: a run has no graph with that id.
    """
    first, second = collect_bodies(run_a.graphs, graph_a), collect_bodies(run_b.graphs, graph_b)
    recorded = None
    if run_a.path == run_b.path and run_a.updates is not None:
        recorded = next(
            (
                update
                for update in run_a.updates.pairs
                if (update.source_graph, update.target_graph) == (graph_a, graph_b)
            ),
            None,
        )
    return GraphPair(diff_graphs(first, second), predict_update(first, second), recorded)


def collect_bodies(graphs: Sequence[CapturedGraph], graph_id: str) -> tuple[CapturedGraph, ...]:
    """Return a graph and its nested graphs, outermost first (KeyError: none)."""
    by_id = {graph.id: graph for graph in graphs}
    return tuple(list_nested_graphs(by_id[graph_id], by_id))


def check_device_launch(run: Run, graph_id: str) -> DeviceLaunch:
    """Check a graph of ``run`` for device launch (KeyError: no such graph)."""
    return check_device_launch_rules(collect_bodies(run.graphs, graph_id), run.manifest.environment)
