"""Combined content of a run's foreign files: graphs, memory, and missing facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from graphviz_dash.analysis.replays.inferred_graphs import find_captured_launches, infer_graphs
from graphviz_dash.importers.group import SourceGroup, SourcePart
from graphviz_dash.ingest.kineto.launch_arguments import read_launched_kernels
from graphviz_dash.ingest.limits import Limits
from graphviz_dash.model.absence import Fact
from graphviz_dash.model.compilation import Compilation
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.node_ids import GraphIds
from graphviz_dash.model.run import Absent, FileRole, MemoryUse
from graphviz_dash.model.trace import WHOLE_GRAPH_PATTERN, Trace
from graphviz_dash.units import pluralize

_NO_CLEAN_TIMINGS: Final = (
    "imported from traces, whose times all include profiler overhead, so there are no clean timings"
)
_NO_TIMINGS: Final = "imported without a trace, so there are no timings"


class RunContents(Struct, frozen=True):
    """Combined content of a run, ready to be written."""

    graphs: tuple[CapturedGraph, ...]
    """Numbered consecutively. Inferred from capture launches if no file describes graphs."""
    ids: tuple[GraphIds, ...]
    memory: MemoryUse | None
    """Allocator statistics. None without a snapshot."""
    compilation: Compilation | None
    """Results of torch.compile. None without a log."""
    absent: tuple[Absent, ...]
    """Facts missing from such files or from this import."""


def build_run_contents(group: SourceGroup, limits: Limits) -> RunContents:
    """Combine the contents of ``group``.

    Raises:
        InputError: A trace is no longer readable.
    """
    graphs: list[CapturedGraph] = []
    ids: list[GraphIds] = []
    has_trace = any(part.content.trace is not None for part in group.parts)
    absent = [Absent(Fact.CLEAN_PASS, _NO_CLEAN_TIMINGS if has_trace else _NO_TIMINGS)]
    for content in (part.content for part in group.parts):
        added = _renumber_graphs(content.graphs, len(_get_roots(graphs)))
        graphs += added
        if content.ids is not None:
            ids.append(msgspec.structs.replace(content.ids, graph=added[0].id))
            missing_fact = f"bodies and parameters of {added[0].id}"
            absent.append(Absent(missing_fact, f"not recorded in {content.kind}"))
    capture, replay = (
        group.get_trace(FileRole.CAPTURE_TRACE),
        group.get_trace(FileRole.REPLAY_TRACE),
    )
    if graphs:
        reason = f"{graphs[0].source_api} does not report which edges are programmatic"
        absent.append(Absent("types of edges", reason))
    else:
        inferred, reasons = _infer_all_graphs(group, limits)
        graphs += inferred
        absent += reasons
    if group.unmatched_captures:
        reason = f"the trace contains no replay of them: {', '.join(group.unmatched_captures)}"
        absent.append(Absent("other captures", reason))
    if capture is None:
        absent.append(Absent(Fact.CAPTURE_PASS, "no capture trace was imported"))
    if replay is None:
        absent.append(Absent(Fact.TRACED_PASS, "no replay trace was imported"))
    memory = next((part.content.memory for part in group.parts if part.content.memory), None)
    if memory is None:
        absent.append(Absent(Fact.MEMORY, "no memory snapshot was imported"))
    else:
        reason = "a snapshot shows allocations without owners at a single moment"
        absent.append(Absent(Fact.MEMORY_PASS, reason))
    absent += _iter_missing_environment(_get_trace(replay) or _get_trace(capture))
    logs = (part.content.compilation for part in group.parts)
    compilation = next((log for log in logs if log is not None), None)
    return RunContents(tuple(graphs), tuple(ids), memory, compilation, tuple(absent))


def _get_trace(part: SourcePart | None) -> Trace | None:
    return part.content.trace if part else None


def _infer_all_graphs(
    group: SourceGroup, limits: Limits
) -> tuple[list[CapturedGraph], tuple[Absent, ...]]:
    replay = _get_trace(group.get_trace(FileRole.REPLAY_TRACE))
    graphs: list[CapturedGraph] = []
    absent: list[Absent] = []
    for number, trace in enumerate([_get_trace(part) for part in group.captures] or [None]):
        inferred, reasons = _infer_graphs(trace, replay, limits)
        graphs += (
            msgspec.structs.replace(graph, capture_trace_index=number)
            for graph in _renumber_graphs(inferred, len(graphs))
        )
        absent += reasons
    # Several captures report the same reasons.
    return graphs, tuple(dict.fromkeys(absent))


def _infer_graphs(
    capture: Trace | None, replay: Trace | None, limits: Limits
) -> tuple[tuple[CapturedGraph, ...], list[Absent]]:
    """Infer graphs from capture launches."""
    source = capture or replay
    if source is None or not find_captured_launches(source):
        advice = "no debug DOT and no capture trace was imported"
        return (), [Absent(Fact.GRAPHS, advice)]
    if replay is None:
        reason = "a capture trace was imported without a replay trace"
        return (), [Absent(Fact.GRAPHS, reason)]
    rows = [row for launches, _ in find_captured_launches(source) for row in launches.tolist()]
    inferred = infer_graphs(source, replay, read_launched_kernels(source, rows, limits))
    absent = [Absent(Fact.GRAPHS, reason) for reason in inferred.missing]
    if inferred.graphs:
        reason = (
            "no debug DOT was imported: nodes are the capture's launches in order, and edges show "
            "only that replays ran them one after another on one stream"
        )
        absent.append(Absent("dependencies between nodes", reason))
    return inferred.graphs, absent


def _get_roots(graphs: Sequence[CapturedGraph]) -> list[CapturedGraph]:
    return [graph for graph in graphs if graph.parent is None]


def _renumber_graphs(graphs: Sequence[CapturedGraph], first: int) -> tuple[CapturedGraph, ...]:
    """Renumber the graphs from ``first`` on."""

    def moved(ident: str) -> str:
        number, dot, suffix = ident.removeprefix("graph-").partition(".")
        return f"graph-{int(number) + first}{dot}{suffix}"

    change = msgspec.structs.replace
    return tuple(
        change(
            graph,
            id=moved(graph.id),
            parent=graph.parent and (moved(graph.parent[0]), graph.parent[1]),
            nodes=tuple(
                change(node, bodies=tuple(map(moved, node.bodies))) if node.bodies else node
                for node in graph.nodes
            ),
        )
        for graph in graphs
    )


def _iter_missing_environment(trace: Trace | None) -> Iterator[Absent]:
    if trace is None:
        reason = "graphs and memory snapshots do not record their environment"
        yield Absent(Fact.ENVIRONMENT, reason)
        return
    reason = "the trace records at most the device and the CUDA version"
    yield Absent(Fact.ENVIRONMENT, reason)
    count = int(trace.gpu["name"].cast(str).str.contains(WHOLE_GRAPH_PATTERN).sum())
    if count:
        sizes = {len(rows) for rows, _ in find_captured_launches(trace)}
        nodes = (
            f" ({pluralize(sizes.pop(), 'node')} each, by the capture)" if len(sizes) == 1 else ""
        )
        reason = (
            f"the report traced {pluralize(count, 'graph launch')} as single units{nodes}; record "
            "it with --cuda-graph-trace=node to see their kernels"
        )
        yield Absent("kernels within graphs", reason)
