"""Two graphs of loaded runs side by side: what differs, and whether one could be updated to the
other, as predicted and as the driver answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from graphviz_dash.analysis.diff.graph_diff import Change, GraphDiff, diff_graphs
from graphviz_dash.analysis.diff.update_prediction import (
    UpdatePrediction,
    UpdateResult,
    predict_update,
)
from graphviz_dash.analysis.graph.device_launch import DeviceLaunch, Launchable, device_launch
from graphviz_dash.model.graph import CapturedGraph, DriverAnswer
from graphviz_dash.model.run import GraphUpdate, Run
from graphviz_dash.units import format_count, format_ns


@dataclass(frozen=True)
class GraphPair:
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
        offence, answer = self.prediction.offence, self.recorded.answer
        if offence is None:
            return answer.result == UpdateResult.SUCCESS
        said = (offence.result, offence.node, offence.from_node)
        return said == (answer.result, answer.node, answer.from_node)


def pair_graphs(run_a: Run, graph_a: str, run_b: Run, graph_b: str) -> GraphPair:
    """Compares a graph of one run with a graph of another, or of the same.

    Raises:
        KeyError: a run has no graph of that id.
    """
    first, second = with_bodies(run_a.graphs, graph_a), with_bodies(run_b.graphs, graph_b)
    recorded = None
    if run_a.path == run_b.path and run_a.updates is not None:
        recorded = next(
            (one for one in run_a.updates.pairs if (one.of, one.by) == (graph_a, graph_b)), None
        )
    return GraphPair(diff_graphs(first, second), predict_update(first, second), recorded)


def with_bodies(graphs: Sequence[CapturedGraph], graph_id: str) -> tuple[CapturedGraph, ...]:
    """The graph of that id, then the graphs in it, from the outside in (KeyError: none)."""
    by_id = {graph.id: graph for graph in graphs}
    found = [by_id[graph_id]]
    for graph in found:
        found += [by_id[body] for node in graph.nodes for body in node.bodies if body in by_id]
    return tuple(found)


def check_device_launch(run: Run, graph_id: str) -> DeviceLaunch:
    """Whether a graph of ``run`` could be launched from the device (KeyError: no such graph)."""
    return device_launch(with_bodies(run.graphs, graph_id), run.manifest.environment)


# -- in words ------------------------------------------------------------------------------------


def diff_sentence(diff: GraphDiff) -> str:
    """How much differs: "2 nodes added, 1 changed; 3 edges added, 1 removed"."""
    if diff.reordered:
        return "The two graphs are the same, created in another order."
    if diff.same:
        return "The two graphs are the same."
    parts = [
        text
        for what, counts in (("node", diff.node_counts()), ("edge", diff.edge_counts()))
        if (text := _counted(what, counts))
    ]
    inside = sum(not body.same for body in diff.bodies)
    if inside:
        parts.append(f"{format_count(inside)} bod{'y differs' if inside == 1 else 'ies differ'}")
    return "; ".join(parts) + "."


def _counted(what: str, counts: dict[Change, int]) -> str:
    known = [
        f"{format_count(count)} {change.value}"
        for change, count in counts.items()
        if count and change is not Change.SAME
    ]
    if not known:
        return ""
    first, *others = known
    number, _, verb = first.partition(" ")
    plural = "" if number == "1" else "s"
    return ", ".join([f"{number} {what}{plural} {verb}", *others])


def prediction_sentence(prediction: UpdatePrediction) -> str:
    """What cudaGraphExecUpdate would answer by its documented rules."""
    offence = prediction.offence
    if offence is not None:
        where = "" if offence.node is None else f" at node {offence.node} of {offence.graph}"
        return f"refused, {offence.result.value}{where}: {offence.reason}"
    if prediction.unknown:
        return f"accepted, unless: {'; '.join(prediction.unknown)}"
    return "accepted"


def answer_sentence(update: GraphUpdate) -> str:
    """What the driver answered, and what the call took beside instantiating anew."""
    said = "accepted" if update.answer.result == UpdateResult.SUCCESS else "refused"
    detail = "" if said == "accepted" else f", {_where(update.answer)}"
    if not update.update_ns or not update.instantiate_ns:
        return said + detail
    took, anew = median(update.update_ns), median(update.instantiate_ns)
    cost = f"the call takes {format_ns(took)}, instantiating anew {format_ns(anew)}"
    return f"{said}{detail}; {cost} (medians of {format_count(len(update.update_ns))})"


def launch_sentence(found: DeviceLaunch) -> str:
    """Whether a graph could be launched from the device, with the first reason why not."""
    match found.verdict:
        case Launchable.YES:
            return "yes"
        case Launchable.NO:
            first, more = found.violations[0], len(found.violations) - 1
        case Launchable.UNKNOWN:
            first, more = found.unknown[0], len(found.unknown) - 1
    where = f"{first.graph}" if first.node is None else f"node {first.node} of {first.graph}"
    others = f", and {format_count(more)} more" if more else ""
    return f"{found.verdict.value}, {where}: {first.reason}{others}"


def launch_answer(answer: DriverAnswer) -> str:
    """What the driver said to instantiating a graph for launches from the device."""
    return "yes" if answer.result == "SUCCESS" else f"no, {_where(answer)}"


def _where(answer: DriverAnswer) -> str:
    place = "" if answer.node is None else f" at node {answer.node} of {answer.graph}"
    return f"{answer.result}{place}"
