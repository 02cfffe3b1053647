"""Card of a node: all known facts in sections of label and text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.nodes.measured_graph import NOT_SEEN, MeasuredGraph
from graphviz_dash.analysis.nodes.node_table import NodeRow, NodeTable
from graphviz_dash.analysis.step_comparison.eager_change import EagerChange, EagerCounterpart
from graphviz_dash.analysis.trace.kernel_names import short_name
from graphviz_dash.errors import printable
from graphviz_dash.features.graph.drawing.node_note import node_lines
from graphviz_dash.features.prediction.analysis.needs import NodeNeed
from graphviz_dash.features.prediction.stream_narrative import need_text
from graphviz_dash.model.graph import (
    BatchMemOpParams,
    ConditionalParams,
    EdgeType,
    EventParams,
    GraphEdge,
    HostParams,
    KernelParams,
    MemAllocParams,
    MemcpyParams,
    MemFreeParams,
    MemsetParams,
    NodeKind,
    SemaphoreParams,
)
from graphviz_dash.units import counted, format_bytes, format_count, format_ns, format_percent

_BINS: Final = 24
_MOST_NEEDS: Final = 8
_ABSENT: Final = "–"


class Field(Struct, frozen=True):
    """Label with its text. ``note`` states the source, or the reason for absence."""

    label: str
    text: str
    note: str = ""


class NodeCard(Struct, frozen=True):
    """All known facts of a node."""

    where: str
    """Reference such as "node 3 of graph-0.7"."""
    kind: str
    """Kind, a value of NodeKind."""
    category: str
    """Kernel category."""
    title: str
    """Operator or module, if known; otherwise the kernel."""
    name: str
    """Full name."""
    sections: tuple[tuple[str, tuple[Field, ...]], ...]
    """Titled lists of fields."""
    bins: tuple[int, ...]
    """Histogram of sample durations, ascending; empty without samples."""


def node_card(
    table: NodeTable,
    index: int,
    samples: Ints,
    measured: MeasuredGraph | None = None,
    eager: EagerCounterpart | None = None,
    needs: Sequence[NodeNeed] = (),
) -> NodeCard:
    """Build the card of node ``index`` (IndexError if there is none).

    ``samples`` are its durations in ns, shape (replays,). ``measured`` is the launched graph, which
    provides the slack; ``eager`` is the eager counterpart, ``needs`` are the data dependencies.
    """
    row = table.rows[index]
    label = printable(row.node.label)
    parent = table.graph.parent
    return NodeCard(
        where=f"node {index}" + (f" of {printable(table.graph.id)}" if parent else ""),
        kind=row.node.kind.value,
        category=row.category.value,
        title=node_lines(row)[0],
        name=label,
        sections=(
            ("Origin", _origin(row)),
            ("Launch", _launch(row)),
            (
                "Time over replays",
                (*_times(row, table), *_slack(table, index, measured), *_eager(eager)),
            ),
            (
                "Dependencies",
                (*_edges(table, index), *_holder(table), *_needs(needs, table, measured)),
            ),
        ),
        bins=_histogram(samples),
    )


def _origin(row: NodeRow) -> tuple[Field, ...]:
    origin = row.origin
    path = " > ".join(printable(op) for op in origin.op_path)
    return (
        Field("Operator", _text(origin.op), origin.reason or ""),
        Field("Operator path", path or _ABSENT),
        Field("Input shapes", _text(origin.input_dims)),
        Field("Input types", _text(origin.input_types)),
        Field("Module", _text(origin.module)),
        Field("Source", _text(origin.source), origin.source_method or ""),
        Field("Phase", origin.phase),
        Field("Launched by", _text(origin.launch_call)),
        Field("Attributed by", origin.method, f"confidence {format_percent(origin.confidence)}"),
    )


def _launch(row: NodeRow) -> tuple[Field, ...]:
    return (*_state(row), *_params(row))


def _state(row: NodeRow) -> tuple[Field, ...]:
    """Build the state field of a disabled node."""
    if row.node.enabled is not False:
        return ()
    return (Field("Runs", "no", "disabled in the graph exec"),)


def _params(row: NodeRow) -> tuple[Field, ...]:
    match row.node.params:
        case KernelParams() as kernel:
            return _kernel(kernel)
        case MemcpyParams() as copy:
            return (
                Field("Direction", f"{copy.direction} ({copy.source} to {copy.target})"),
                Field("Bytes", format_bytes(copy.bytes)),
                Field("Extent", f"{copy.width:,} B x {copy.height:,} x {copy.depth:,}"),
                *((Field("Host memory", "pageable", "not pinned"),) if copy.pageable else ()),
            )
        case MemsetParams(width=int(width), height=int(height)) as fill:
            return (
                Field("Value", f"{fill.value} in elements of {fill.element_bytes} B"),
                Field("Bytes", format_bytes(fill.bytes)),
                Field("Extent", f"{width:,} elements x {height:,} rows"),
            )
        case MemsetParams(bytes=size):
            return (Field("Bytes", format_bytes(size)),)
        case _:
            return _others(row)


def _kernel(kernel: KernelParams) -> tuple[Field, ...]:
    fields = [
        Field("Grid", _dim3(kernel.grid)),
        Field("Block", _dim3(kernel.block)),
        Field("Dynamic shared", format_bytes(kernel.dynamic_shared)),
        Field("Static shared", format_bytes(kernel.static_shared)),
        Field("Registers", format_count(kernel.registers), "per thread"),
    ]
    if kernel.cluster is not None:
        fields.append(Field("Cluster", _dim3(kernel.cluster), "blocks"))
    if kernel.cooperative:
        fields.append(Field("Cooperative", "yes", "all blocks run concurrently"))
    if kernel.dynamic_parallelism:
        fields.append(Field("Launches kernels", "yes", "dynamic parallelism"))
    if kernel.priority:
        fields.append(Field("Priority", str(kernel.priority), "lower values run first"))
    return (*fields, Field("Mangled name", printable(kernel.name)))


def _others(row: NodeRow) -> tuple[Field, ...]:
    """Build the fields of a node that is no kernel, copy or set."""
    kind, bodies = row.node.kind, ", ".join(row.node.bodies)
    fields: tuple[Field, ...]
    match row.node.params:
        case HostParams(function=function, library=library):
            note = "" if function else "no symbol at its address"
            fields = (Field("Function", _text(function), note), Field("Library", _text(library)))
        case MemAllocParams(bytes=count, device=device):
            fields = (Field("Bytes", format_bytes(count)), Field("Device", str(device)))
        case MemFreeParams(allocated_by=None):
            fields = (Field("Allocated by", _ABSENT, "not by a node of this graph"),)
        case MemFreeParams(allocated_by=node):
            fields = (Field("Allocated by", f"node {node}"),)
        case EventParams(event=number):
            fields = (Field("Event", str(number), "shared by a record and its wait"),)
        case SemaphoreParams(semaphores=numbers, values=values):
            fields = (
                Field("Semaphores", ", ".join(map(str, numbers))),
                Field("Fence values", ", ".join(map(str, values)), "not used by binary semaphores"),
            )
        case ConditionalParams(type=what, size=size):
            fields = (
                Field(
                    "Type",
                    what.value if what else _ABSENT,
                    "" if what else "not read",
                ),
                Field("Bodies", format_count(size), bodies),
            )
        case BatchMemOpParams(operations=operations):
            fields = (Field("Operations", printable(", ".join(operations))),)
        case _ if kind is NodeKind.CHILD_GRAPH:
            fields = (Field("Contains", bodies or _ABSENT, "" if bodies else "not read"),)
        case _ if kind is NodeKind.EMPTY:
            fields = (Field("Purpose", "only joins dependencies"),)
        case _:
            fields = (Field("Parameters", _ABSENT, "not read"),)
    return fields


def _times(row: NodeRow, table: NodeTable) -> tuple[Field, ...]:
    times = row.times
    if not times.samples:
        return (Field("Duration", _ABSENT, times.note or ""),)
    return (
        Field("Median", format_ns(times.median_ns), times.note or times.timed_in or ""),
        Field("Min–max", f"{format_ns(times.min_ns)} to {format_ns(times.max_ns)}"),
        Field("Samples", f"{times.samples} of {table.replays} replays"),
        Field("Starts", f"{format_ns(times.start_median_ns)} after the replay's first work"),
        Field("Stream", str(times.stream), "of the first replay"),
        Field("Matched by", times.method, f"confidence {format_percent(times.confidence)}"),
    )


def _slack(table: NodeTable, index: int, measured: MeasuredGraph | None) -> tuple[Field, ...]:
    number = None if measured is None else measured.index_of.get((table.graph.id, index))
    if measured is None or number is None or measured.p50[number] == NOT_SEEN:
        return ()
    critical = number in measured.critical
    slack = int(measured.slack[number])
    lost = measured.lost[number]
    return (
        Field("p99", format_ns(int(measured.p99[number])), f"of {measured.replays} replays"),
        Field(
            "Slack",
            format_ns(slack),
            "on the critical path"
            if critical
            else "possible extension without a change of the critical path",
        ),
        Field(
            "Gap before",
            format_ns(lost),
            "from the end of its last dependency to its start, median",
        ),
    )


def _eager(work: EagerCounterpart | None) -> tuple[Field, ...]:
    """Build the field of the corresponding eager work."""
    if work is None:
        return ()
    if work.eager_ns is None:
        return (Field("Eager", _ABSENT, work.change.value),)
    names = printable(", ".join(short_name(name) for name in work.names))
    shared_text = (
        f", with {counted(work.together - 1, 'node')} alongside" if work.together > 1 else ""
    )
    change = (work.graph_ns - work.eager_ns) / work.eager_ns if work.eager_ns else 0.0
    note = f"{change:+.0%} in the graph's traced step{shared_text}"
    if work.change is EagerChange.OTHER:
        note += f"; eager runs {names}"
    return (Field("Eager", format_ns(work.eager_ns), note),)


def _edges(table: NodeTable, index: int) -> tuple[Field, ...]:
    before = [edge for edge in table.graph.edges if edge.target == index]
    after = [edge for edge in table.graph.edges if edge.source == index]
    return (
        Field("After", _ends(before, [edge.source for edge in before])),
        Field("Before", _ends(after, [edge.target for edge in after])),
    )


def _holder(table: NodeTable) -> tuple[Field, ...]:
    parent = table.graph.parent
    if parent is None:
        return ()
    return (Field("Inside", f"node {parent[1]} of {printable(parent[0])}"),)


def _needs(
    needs: Sequence[NodeNeed], table: NodeTable, measured: MeasuredGraph | None
) -> tuple[Field, ...]:
    """Build one field per data dependency."""
    if measured is None:
        return ()
    shown = [
        Field(
            "Needs",
            f"{node} {node_lines(table.rows[node])[0]}"
            if graph == table.graph.id
            else f"{graph}#{node}",
            need_text(need),
        )
        for need in needs[:_MOST_NEEDS]
        for graph, node in (measured.nodes[need.source],)
    ]
    more = len(needs) - len(shown)
    return (*shown, Field("Needs", f"{more} more")) if more > 0 else tuple(shown)


def _ends(edges: list[GraphEdge], ends: list[int]) -> str:
    if not edges:
        return "nothing"
    parts = []
    for edge, end in zip(edges, ends, strict=True):
        data = [] if edge.type is EdgeType.FULL else [edge.type.value]
        if edge.from_port or edge.to_port:
            data.append(f"port {edge.from_port} to {edge.to_port}")
        parts.append(f"{end} ({', '.join(data)})" if data else str(end))
    return ", ".join(parts)


def _histogram(samples: Ints) -> tuple[int, ...]:
    if not len(samples):
        return ()
    counts, _ = np.histogram(samples, bins=min(_BINS, max(1, len(np.unique(samples)))))
    return tuple(int(count) for count in counts)


def _text(value: str | None) -> str:
    return _ABSENT if value is None else printable(value)


def _dim3(size: tuple[int, int, int] | None) -> str:
    if size is None:
        return "–"
    return " x ".join(f"{value:,}" for value in size)
