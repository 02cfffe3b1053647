"""Graph differences, updates and device launches, in words."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Final

from graphviz_dash.analysis.absence import explain_missing
from graphviz_dash.analysis.attribution.graph_identity import GraphIdentity
from graphviz_dash.analysis.comparison.unseen_graphs import find_unseen_graphs
from graphviz_dash.analysis.failures import format_failure
from graphviz_dash.analysis.graph.change import Change
from graphviz_dash.analysis.graph.device_launch import DeviceLaunch, DeviceLaunchVerdict
from graphviz_dash.features.graph.device_launch import format_finding
from graphviz_dash.features.graph.diff.creation_order import OrderEffect
from graphviz_dash.features.graph.diff.graph_diff import GraphDiff, NodeDiff
from graphviz_dash.features.graph.diff.update_prediction import UpdatePrediction, UpdateResult
from graphviz_dash.model.absence import Fact
from graphviz_dash.model.graph import DriverResult
from graphviz_dash.model.run import GraphUpdate, Pass, Run
from graphviz_dash.narrative.low_confidence import describe_low_confidence
from graphviz_dash.units import format_count, format_ns, format_percent, pluralize

_MAKE_GRAPHS: Final = (Pass.CLEAN, Pass.CAPTURE, Pass.RECORDED)


def format_graph_title(graph: GraphIdentity) -> str:
    """Format a title such as "bs 64 · 15 replays · graph-3". A workload without names uses the
    shape of the first input."""
    shape = "×".join(map(str, graph.input_shape)) if graph.input_shape else ""
    key = graph.name or (f"input {shape}" if shape else "")
    replays = "" if graph.replays is None else pluralize(graph.replays, "replay")
    return " · ".join(part for part in (key, replays, graph.id) if part)


def describe_uncompared_properties(diff: GraphDiff) -> str:
    """List the properties that a graph difference ignores."""
    nodes = (*diff.a.nodes, *diff.b.nodes)
    if any(node.operands is not None for node in nodes):
        return (
            "Not compared: kernel argument values and addresses within allocations, which "
            "bundles do not contain."
        )
    return "Not compared: kernel argument values and addresses, which bundles do not contain."


def summarize_graph_diff(diff: GraphDiff) -> str:
    """Count the differences: "2 nodes added, 1 changed; 3 edges added, 1 removed"."""
    if diff.is_reordered:
        return "The two graphs are identical but were created in a different order."
    if diff.is_same:
        return "The two graphs are identical."
    parts = [
        text
        for noun, counts in (("node", diff.count_nodes()), ("edge", diff.count_edges()))
        if (text := _count_changes(noun, counts))
    ]
    inside = sum(not body.is_same for body in diff.bodies)
    if inside:
        parts.append(f"{format_count(inside)} bod{'y differs' if inside == 1 else 'ies differ'}")
    return "; ".join(parts) + "."


def _count_changes(noun: str, counts: dict[Change, int]) -> str:
    changes = [
        f"{format_count(count)} {change.value}"
        for change, count in counts.items()
        if count and change is not Change.SAME
    ]
    if not changes:
        return ""
    first, *others = changes
    number, _, verb = first.partition(" ")
    plural = "" if number == "1" else "s"
    return ", ".join([f"{number} {noun}{plural} {verb}", *others])


def describe_update_prediction(prediction: UpdatePrediction) -> str:
    """Predict cudaGraphExecUpdate from its documented rules."""
    violation = prediction.violation
    if violation is not None:
        suffix = "" if violation.node is None else f" at node {violation.node} of {violation.graph}"
        return f"refused, {violation.result.value}{suffix}: {violation.reason}"
    if prediction.unknown:
        return f"accepted, unless: {'; '.join(prediction.unknown)}"
    return "accepted"


def describe_update_result(update: GraphUpdate) -> str:
    """Format the driver's result, and its time compared with re-instantiation."""
    result = "accepted" if update.result.result == UpdateResult.SUCCESS else "refused"
    detail = "" if result == "accepted" else f", {_format_result(update.result)}"
    if not update.update_ns or not update.instantiate_ns:
        return result + detail
    update_ns, instantiate_ns = median(update.update_ns), median(update.instantiate_ns)
    cost = f"the call takes {format_ns(update_ns)}, re-instantiating {format_ns(instantiate_ns)}"
    return f"{result}{detail}; {cost} (medians of {format_count(len(update.update_ns))})"


def describe_device_launch(check: DeviceLaunch) -> str:
    """Describe whether device launch is possible, with the first reason if not."""
    match check.verdict:
        case DeviceLaunchVerdict.YES:
            return "yes"
        case DeviceLaunchVerdict.NO:
            first, more = check.violations[0], len(check.violations) - 1
        case DeviceLaunchVerdict.UNKNOWN:
            first, more = check.unknown[0], len(check.unknown) - 1
    suffix = f"{first.graph}" if first.node is None else f"node {first.node} of {first.graph}"
    others = f", and {format_count(more)} more" if more else ""
    return f"{check.verdict.value}, {suffix}: {format_finding(first)}{others}"


def format_device_launch_result(driver_result: DriverResult) -> str:
    """Format the driver's result for device launch."""
    return "yes" if driver_result.result == "SUCCESS" else f"no, {_format_result(driver_result)}"


def _format_result(driver_result: DriverResult) -> str:
    node = (
        ""
        if driver_result.node is None
        else f" at node {driver_result.node} of {driver_result.graph}"
    )
    return f"{driver_result.result}{node}"


def format_node_changes(node: NodeDiff) -> str:
    """Format different parameters and a changed position in one line; empty if equal."""
    changed = [f"{change.field} {change.old} to {change.new}" for change in node.fields]
    return ", ".join([*changed, *(["depends on other nodes"] if node.is_moved else [])])


def describe_order_effect(effect: OrderEffect) -> str:
    """Describe the effect of the creation order."""
    before, after = effect.step_ns
    text = (
        f"{effect.slower} and {effect.faster} contain the same graph, created in a different "
        f"order: {format_ns(before)} and {format_ns(after)} per step (clean)"
    )
    if effect.hidden_copy_shares is None:
        return f"{text}."
    least, maximum = (format_percent(share) for share in effect.hidden_copy_shares)
    return f"{text}, with {least} and {maximum} of the copy time hidden behind kernels (traced)."


def explain_missing_graphs(runs: Iterable[Run]) -> list[str]:
    """Explain why ``runs`` contain no graph, with graph launches in their traces."""
    reasons = []
    for run in runs:
        failed = [
            format_failure(run.name, failure)
            for failure in run.manifest.failures
            if failure.stage in _MAKE_GRAPHS
        ]
        reasons += failed or [f"{run.name}: {explain_missing(run, Fact.GRAPHS).reason}"]
        unseen = find_unseen_graphs(run, None)
        if unseen is not None:
            reasons += [
                f"{run.name}: {note.sentence}" for note in describe_low_confidence((unseen,))
            ]
    return reasons
