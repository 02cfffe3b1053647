"""What a measured graph's concurrency comes to, in sentences for the page and the terminal."""

from __future__ import annotations

from typing import Final

from graphviz_dash.analysis.nodes.concurrency import Concurrency
from graphviz_dash.analysis.nodes.measured_graph import NOT_SEEN, MeasuredGraph
from graphviz_dash.analysis.nodes.needless_edges import NeedlessEdges
from graphviz_dash.units import counted, format_count, format_ns, format_percent


def concurrency_sentences(concurrency: Concurrency) -> tuple[str, ...]:
    """What the concurrency of a measured graph comes to."""
    measured, needless = concurrency.measured, concurrency.needless
    shown = int((measured.p50 != NOT_SEEN).sum())
    path = measured.path.length
    took = (
        f"A replay took {format_ns(measured.span_ns)} from its first start to its last end (median "
        f"of {counted(measured.replays, 'replay')} of the {measured.source})."
    )
    if len(measured.nodes) == 1:
        return (f"The graph is one node, which nothing waits for. {took}",)
    return (
        f"The critical path takes {format_ns(path)}, over {format_count(len(measured.path.nodes))} "
        f"of {counted(shown, 'node')} that the trace shows: with these kernels and dependencies "
        f"the graph cannot be faster on any number of streams. {took}",
        _streams(measured),
        _about_gaps(measured),
        _about_edges(measured, needless),
    )


def _about_gaps(measured: MeasuredGraph) -> str:
    if measured.stitched:
        return (
            "What is lost between nodes is unknown: the trace stitches the times of replays "
            "together, so that durations hold the gaps."
        )
    share = format_percent(measured.lost_ns / measured.span_ns) if measured.span_ns else "0%"
    return (
        f"Between dependent nodes of the critical path {format_ns(measured.lost_ns)} are lost, "
        f"{share} of the replay: a node could begin and had not yet. The profiler lengthens these "
        "gaps."
    )


def _streams(measured: MeasuredGraph) -> str:
    on = f"on {counted(measured.streams, 'stream')}"
    last = measured.schedules[-1]
    if last.streams == 1:
        return f"Its dependencies leave one order only: no two nodes can run at once. It ran {on}."
    fewer = ", ".join(
        f"{format_ns(schedule.length)} on {schedule.streams}"
        for schedule in measured.schedules[:-1]
    )
    return (
        f"Its dependencies let {measured.available:.2f} nodes run at once on average; "
        f"{measured.achieved:.2f} did, {on}, while anything ran. "
        f"List scheduling reaches the critical path on {last.streams} streams; it takes {fewer}. "
        "Kernels that share the GPU take longer than alone, so these are bounds."
    )


_BY_MEANING: Final = (
    "parts of one backward operator (gradients of the operands of a product and of its bias) that "
    "do not use each other's results"
)


def _about_edges(measured: MeasuredGraph, needless: NeedlessEdges) -> str:
    if needless.unknown is None:
        return _by_meaning(measured, needless)
    count = len(needless.edges)
    by_memory = count - needless.by_meaning
    more = f", {format_count(needless.by_meaning)} more join {_BY_MEANING}"
    unknown = (
        f" {format_count(needless.unknown)} nodes keep their order: what they reach is unknown."
        if needless.unknown
        else ""
    )
    joining = format_count(by_memory) if by_memory else "none"
    return (
        f"Of its {format_count(len(measured.edges))} edges {joining} join nodes "
        f"that can reach no memory in common, by the addresses among their arguments"
        f"{more if needless.by_meaning else ''}. "
        f"{_without(measured, needless)}Nodes that only read the same memory count as in need of "
        f"their order; what a kernel reaches through addresses that lie in memory is not seen."
        f"{unknown}"
    )


def _by_meaning(measured: MeasuredGraph, needless: NeedlessEdges) -> str:
    unknown = (
        "Which of its edges carry data is unknown: the topology has the order of streams, and the "
        "bundle does not say what memory its nodes reach."
    )
    if not needless.edges:
        return f"{unknown} The meaning of its operators shows no edge that is without need."
    return (
        f"{unknown} From the meaning of operators {format_count(len(needless.edges))} edges are "
        f"without need: {_BY_MEANING}. {_without(measured, needless)}".rstrip()
    )


def _without(measured: MeasuredGraph, needless: NeedlessEdges) -> str:
    """What the graph would be without its needless edges; empty without any."""
    if not needless.edges:
        return ""
    saved = measured.path.length - needless.path_ns
    if not saved:
        return "The critical path is as long without them. "
    return (
        f"Captured on streams of their own they would shorten the critical path by "
        f"{format_ns(saved)} at most, to {format_ns(needless.path_ns)}. "
    )
