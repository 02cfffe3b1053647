"""Concurrency of a measured graph in sentences, for the page and the terminal."""

from __future__ import annotations

from typing import Final

from graphviz_dash.analysis.nodes.concurrency import Concurrency
from graphviz_dash.analysis.nodes.conditional_runs import ConditionalRuns
from graphviz_dash.analysis.nodes.measured_graph import UNTRACED, MeasuredGraph
from graphviz_dash.analysis.nodes.needless_edges import RedundantEdges
from graphviz_dash.analysis.nodes.while_loops import WhileLoops
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.graph import ConditionalType
from graphviz_dash.units import format_count, format_ns, format_percent, pluralize


def describe_concurrency(concurrency: Concurrency) -> tuple[str, ...]:
    """Describe the concurrency of a measured graph."""
    measured, needless = concurrency.measured, concurrency.redundant
    traced_count = int((measured.p50 != UNTRACED).sum())
    path = measured.path.length
    runs = [describe_conditional_runs(runs) for runs in concurrency.conditionals[:_MAX_NODES]]
    if len(concurrency.conditionals) > _MAX_NODES:
        omitted_count = len(concurrency.conditionals) - _MAX_NODES
        runs.append(
            f"{pluralize(omitted_count, 'more conditional node')} in the JSON of the graph."
        )
    if concurrency.loops is not None:
        return (
            _describe_loops(measured, concurrency.loops),
            *runs,
            _describe_streams(measured),
            _describe_gaps(measured),
            _describe_edges(measured, needless),
        )
    duration = (
        f"A replay lasts {format_ns(measured.span_ns)} from its first start to its last end "
        f"(median of {pluralize(measured.replays, 'replay')} in the {measured.source})."
    )
    if len(measured.nodes) == 1:
        return (f"The graph has one node and no dependencies. {duration}",)
    return (
        f"The critical path lasts {format_ns(path)}, over {format_count(len(measured.path.nodes))} "
        f"of {pluralize(traced_count, 'node')} in the trace. With these kernels and dependencies, "
        f"the graph cannot be faster on any number of streams. {duration}",
        *runs,
        _describe_streams(measured),
        _describe_gaps(measured),
        _describe_edges(measured, needless),
    )


def _describe_loops(graph: MeasuredGraph, loops: WhileLoops) -> str:
    text = (
        f"The nodes of {graph.graph} outside conditional bodies take {format_ns(graph.span_ns)} "
        "from their first start to their last end, including loops between them (median of "
        f"{pluralize(graph.replays, 'replay')} in the {graph.source})."
    )
    if loops.replay_ns is None:
        return f"{text} The time of whole replays was not sampled."
    return (
        f"{text} A whole replay takes {format_ns(round(loops.replay_ns))} between CUDA events "
        f"(median of {pluralize(loops.samples, 'sample')})."
    )


def describe_conditional_runs(runs: ConditionalRuns) -> str:
    """Describe the runs of a conditional node's bodies."""
    name = "Conditional" if runs.type is None else runs.type.value
    subject = f"{name} node {runs.node} of {runs.graph}"
    bodies = " and ".join(
        "an unknown number" if count is None else format_count(count) for count in runs.body_replays
    )
    text = (
        f"{subject}: {'its body' if len(runs.body_replays) == 1 else 'its bodies'} ran in {bodies} "
        f"of {pluralize(runs.replays, 'replay')}"
    )
    text += f" (by {runs.method})." if runs.method else "."
    if runs.type is not ConditionalType.WHILE:
        return text
    if not isinstance(runs.iterations, Missing):
        low, high = min(runs.iterations), max(runs.iterations)
        mean = sum(runs.iterations) / len(runs.iterations)
        return f"{text} Iterations: {low} to {high}, {mean:.3g} on average."
    text += f" Iterations are not counted: {runs.iterations.reason}."
    if runs.time is None:
        return text
    return (
        f"{text} The loop takes {format_ns(runs.time.loop_ns)} and its last iteration "
        f"{format_ns(runs.time.iteration_ns)} without nested loops (medians), so there are at most "
        f"{format_count(max(runs.time.limits))} iterations if all last as long."
    )


def _describe_gaps(measured: MeasuredGraph) -> str:
    if measured.is_stitched:
        return (
            "Gaps between nodes are unknown: the trace combines the times of several replays, so "
            "durations include the gaps."
        )
    share = format_percent(measured.lost_ns / measured.span_ns) if measured.span_ns else "0%"
    return (
        "Gaps between dependent nodes of the critical path add up to "
        f"{format_ns(measured.lost_ns)}, {share} of the replay: a node was ready but had not "
        "started. The profiler lengthens these gaps."
    )


def _describe_streams(measured: MeasuredGraph) -> str:
    on = f"on {pluralize(measured.streams, 'stream')}"
    last = measured.schedules[-1]
    if last.streams == 1:
        return f"Its dependencies form a chain: no two nodes can run concurrently. It ran {on}."
    fewer = ", ".join(
        f"{format_ns(schedule.length)} on {schedule.streams}"
        for schedule in measured.schedules[:-1]
    )
    return (
        f"Its dependencies allow {measured.available_concurrency:.2f} concurrent nodes on average; "
        f"{measured.achieved_concurrency:.2f} ran concurrently, {on}, while the GPU was busy. "
        f"List scheduling reaches the critical path on {last.streams} streams. Fewer streams: "
        f"{fewer}. "
        "Kernels that share the GPU run longer than alone, so these are lower bounds."
    )


_MAX_NODES: Final = 8
"""Maximum number of described conditional nodes."""

_REDUNDANT_BACKWARD_EDGES: Final = (
    "parts of one backward operator (gradients of the operands of a product and of its bias) that "
    "do not use each other's results"
)


def _describe_edges(measured: MeasuredGraph, needless: RedundantEdges) -> str:
    if needless.unknown_nodes is None:
        return _describe_edges_by_meaning(measured, needless)
    count = len(needless.edges)
    by_memory = count - needless.operator_only_count
    more = (
        f", {format_count(needless.operator_only_count)} more connect {_REDUNDANT_BACKWARD_EDGES}"
    )
    unknown = (
        f" {format_count(needless.unknown_nodes)} nodes keep their order because the memory "
        "they access "
        "is unknown."
        if needless.unknown_nodes
        else ""
    )
    joining = format_count(by_memory) if by_memory else "none"
    return (
        f"It has {format_count(len(measured.edges))} edges, of which {joining} connect nodes "
        f"that share no memory, according to the addresses among their arguments"
        f"{more if needless.operator_only_count else ''}. "
        f"{_describe_without_redundant_edges(measured, needless)}Nodes that only read the same "
        "memory count as dependent. "
        f"Memory that a kernel reaches through pointers stored in memory is not visible."
        f"{unknown}"
    )


def _describe_edges_by_meaning(measured: MeasuredGraph, needless: RedundantEdges) -> str:
    unknown = (
        "The edges that carry data are unknown: the topology has stream order, and the bundle does "
        "not record the memory that its nodes access."
    )
    if not needless.edges:
        return f"{unknown} By the meaning of its operators, no edge is redundant."
    return (
        f"{unknown} By the meaning of its operators, {format_count(len(needless.edges))} edges are "
        f"redundant: {_REDUNDANT_BACKWARD_EDGES}. "
        f"{_describe_without_redundant_edges(measured, needless)}".rstrip()
    )


def _describe_without_redundant_edges(measured: MeasuredGraph, needless: RedundantEdges) -> str:
    """Return the description; empty if there are no redundant edges."""
    if not needless.edges:
        return ""
    saved = measured.path.length - needless.path_ns
    if not saved:
        return "Without them the critical path is just as long. "
    return (
        f"Capturing them on separate streams would shorten the critical path by at most "
        f"{format_ns(saved)}, to {format_ns(needless.path_ns)}. "
    )
