"""What a difference of graphs, an update and a device launch come to, in words."""

from __future__ import annotations

from statistics import median

from graphviz_dash.analysis.diff.graph_diff import Change, GraphDiff
from graphviz_dash.analysis.diff.update_prediction import UpdatePrediction, UpdateResult
from graphviz_dash.analysis.graph.device_launch import DeviceLaunch, Launchable
from graphviz_dash.model.graph import DriverAnswer
from graphviz_dash.model.run import GraphUpdate
from graphviz_dash.units import format_count, format_ns


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
