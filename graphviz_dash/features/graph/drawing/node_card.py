"""Card of a node: all known facts in sections of label and text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.nodes.conditional_runs import ConditionalRuns
from graphviz_dash.analysis.nodes.measured_graph import UNTRACED, MeasuredGraph
from graphviz_dash.analysis.nodes.node_table import NodeRow, NodeTable
from graphviz_dash.analysis.nodes.replay_faults import GraphFaults
from graphviz_dash.analysis.replay_check import WrongOperator
from graphviz_dash.analysis.step_comparison.eager_change import EagerChange, EagerCounterpart
from graphviz_dash.analysis.trace.kernel_names import shorten_name
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.graph.drawing.node_note import build_node_lines
from graphviz_dash.features.prediction.analysis.needs import NodeNeed
from graphviz_dash.features.prediction.stream_narrative import format_need
from graphviz_dash.model.absence import Missing
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
from graphviz_dash.model.replay_check import WrongElements
from graphviz_dash.narrative.replay_check import format_fault, list_fault_facts
from graphviz_dash.units import format_bytes, format_count, format_ns, format_percent, pluralize

_MAX_BINS: Final = 24
_MAX_NEEDS: Final = 8
_ABSENT_TEXT: Final = "–"


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
    """A value of NodeKind."""
    category: str
    title: str
    """Operator or module, if known; otherwise the kernel."""
    name: str
    sections: tuple[tuple[str, tuple[Field, ...]], ...]
    """Titled lists of fields."""
    bins: tuple[int, ...]
    """Histogram of sample durations, ascending; empty without samples."""
    wrong_elements: WrongElements | None = None
    """Elements of its first wrong tensor, eager and replayed. None without any."""


def build_node_card(
    table: NodeTable,
    index: int,
    samples: Ints,
    measured: MeasuredGraph | None = None,
    eager: EagerCounterpart | None = None,
    needs: Sequence[NodeNeed] = (),
    faults: GraphFaults | None = None,
    position: int | None = None,
    runs: ConditionalRuns | None = None,
) -> NodeCard:
    """Build the card of a node (IndexError if there is none).

    ``samples`` are durations in ns, shape (replays,). ``measured`` is the launched graph, which
    provides the slack. ``position`` is the node's place in the graph of ``faults``. ``runs`` are
    those of a conditional node.
    """
    row = table.rows[index]
    label = escape_control_characters(row.node.label)
    parent = table.graph.parent
    fault_fields = _build_fault_fields(faults, position)
    return NodeCard(
        where=f"node {index}"
        + (f" of {escape_control_characters(table.graph.id)}" if parent else ""),
        kind=row.node.kind.value,
        category=row.category.value,
        title=build_node_lines(row)[0],
        name=label,
        sections=(
            *((("Replay check", fault_fields),) if fault_fields else ()),
            ("Origin", _build_origin_fields(row)),
            ("Launch", (*_build_state_fields(row), *_build_param_fields(row))),
            (
                "Time over replays",
                (
                    *_build_time_fields(row, table),
                    *_build_run_fields(runs),
                    *_build_slack_fields(table, index, measured),
                    *_build_eager_fields(eager),
                ),
            ),
            (
                "Dependencies",
                (
                    *_build_edge_fields(table, index),
                    *_build_holder_fields(table),
                    *_build_need_fields(needs, table, measured),
                ),
            ),
        ),
        bins=_compute_histogram(samples),
        wrong_elements=_find_wrong_elements(faults, position),
    )


def _build_fault_fields(faults: GraphFaults | None, position: int | None) -> tuple[Field, ...]:
    """Build the fields of a node that is wrong or runs after a wrong one."""
    if faults is None or position is None:
        return ()
    fields = [
        Field(label, escape_control_characters(text))
        for fault in faults.list_faults(position)
        for label, text in (("Fault", format_fault(fault)), *list_fault_facts(fault))
    ]
    cause = faults.find_cause(position)
    if cause is not None:
        nodes = ", ".join(map(str, cause.nodes[:_MAX_NEEDS]))
        fields.append(Field("State", "after the fault", f"fault: node {nodes}"))
    return tuple(fields)


def _find_wrong_elements(faults: GraphFaults | None, position: int | None) -> WrongElements | None:
    if faults is None or position is None:
        return None
    return next(
        (
            fault.elements
            for fault in faults.list_faults(position)
            if isinstance(fault, WrongOperator) and fault.elements is not None
        ),
        None,
    )


def _build_origin_fields(row: NodeRow) -> tuple[Field, ...]:
    origin = row.origin
    path = " > ".join(escape_control_characters(op) for op in origin.op_path)
    return (
        Field("Operator", _format_text(origin.op), origin.reason or ""),
        Field("Operator path", path or _ABSENT_TEXT),
        Field("Input shapes", _format_text(origin.input_dims)),
        Field("Input types", _format_text(origin.input_types)),
        Field("Module", _format_text(origin.module)),
        Field("Source", _format_text(origin.source), origin.source_method or ""),
        Field("Phase", origin.phase),
        Field("Launched by", _format_text(origin.launch_call)),
        Field("Attributed by", origin.method, f"confidence {format_percent(origin.confidence)}"),
    )


def _build_state_fields(row: NodeRow) -> tuple[Field, ...]:
    if row.node.enabled is not False:
        return ()
    return (Field("Runs", "no", "disabled in the graph exec"),)


def _build_param_fields(row: NodeRow) -> tuple[Field, ...]:
    match row.node.params:
        case KernelParams() as kernel:
            return _build_kernel_fields(kernel)
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
            return _build_other_fields(row)


def _build_kernel_fields(kernel: KernelParams) -> tuple[Field, ...]:
    fields = [
        Field("Grid", _format_dim3(kernel.grid)),
        Field("Block", _format_dim3(kernel.block)),
        Field("Dynamic shared", format_bytes(kernel.dynamic_shared)),
        Field("Static shared", format_bytes(kernel.static_shared)),
        Field("Registers", format_count(kernel.registers), "per thread"),
    ]
    if kernel.cluster is not None:
        fields.append(Field("Cluster", _format_dim3(kernel.cluster), "blocks"))
    if kernel.cooperative:
        fields.append(Field("Cooperative", "yes", "all blocks run concurrently"))
    if kernel.dynamic_parallelism:
        fields.append(Field("Launches kernels", "yes", "dynamic parallelism"))
    for title, value, instruction in (
        ("Waits for earlier", kernel.dependency_wait, "griddepcontrol.wait"),
        ("Releases later", kernel.early_trigger, "griddepcontrol.launch_dependents"),
    ):
        if value is not None:
            fields.append(Field(title, "yes" if value else "no", instruction))
    if kernel.priority:
        fields.append(Field("Priority", str(kernel.priority), "lower values run first"))
    return (*fields, Field("Mangled name", escape_control_characters(kernel.name)))


def _build_other_fields(row: NodeRow) -> tuple[Field, ...]:
    kind, bodies = row.node.kind, ", ".join(row.node.bodies)
    fields: tuple[Field, ...]
    match row.node.params:
        case HostParams(function=function, library=library):
            note = "" if function else "no symbol at its address"
            fields = (
                Field("Function", _format_text(function), note),
                Field("Library", _format_text(library)),
            )
        case MemAllocParams(bytes=count, device=device):
            fields = (Field("Bytes", format_bytes(count)), Field("Device", str(device)))
        case MemFreeParams(allocated_by=None):
            fields = (Field("Allocated by", _ABSENT_TEXT, "not by a node of this graph"),)
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
                    what.value if what else _ABSENT_TEXT,
                    "" if what else "not read",
                ),
                Field("Bodies", format_count(size), bodies),
            )
        case BatchMemOpParams(operations=operations):
            fields = (Field("Operations", escape_control_characters(", ".join(operations))),)
        case _ if kind is NodeKind.CHILD_GRAPH:
            fields = (Field("Contains", bodies or _ABSENT_TEXT, "" if bodies else "not read"),)
        case _ if kind is NodeKind.EMPTY:
            fields = (Field("Purpose", "only joins dependencies"),)
        case _:
            fields = (Field("Parameters", _ABSENT_TEXT, "not read"),)
    return fields


def _build_time_fields(row: NodeRow, table: NodeTable) -> tuple[Field, ...]:
    times = row.times
    if not times.samples:
        return (Field("Duration", _ABSENT_TEXT, times.note or ""),)
    return (
        Field("Median", format_ns(times.median_ns), times.note or times.timed_in or ""),
        Field("Min–max", f"{format_ns(times.min_ns)} to {format_ns(times.max_ns)}"),
        Field("Samples", f"{times.samples} of {table.replays} replays"),
        Field("Starts", f"{format_ns(times.start_median_ns)} after the replay's first work"),
        Field("Stream", str(times.stream), "of the first replay"),
        Field("Matched by", times.method, f"confidence {format_percent(times.confidence)}"),
    )


def _build_run_fields(runs: ConditionalRuns | None) -> tuple[Field, ...]:
    """Build the runs of a conditional node's bodies; empty for other nodes."""
    if runs is None:
        return ()
    bodies = " and ".join(
        _ABSENT_TEXT if count is None else format_count(count) for count in runs.body_replays
    )
    method = f"by {runs.method}" if runs.method else ""
    fields = [Field("Bodies ran in", f"{bodies} of {runs.replays} replays", method)]
    if isinstance(runs.iterations, Missing):
        fields.append(Field("Iterations", _ABSENT_TEXT, runs.iterations.reason))
    elif runs.iterations:
        mean = sum(runs.iterations) / len(runs.iterations)
        text = f"{min(runs.iterations)} to {max(runs.iterations)}"
        fields.append(Field("Iterations", text, f"{mean:.3g} on average"))
    if runs.time is not None:
        fields += [
            Field("Loop", format_ns(runs.time.loop_ns), "median, to the end of the last iteration"),
            Field("Last iteration", format_ns(runs.time.iteration_ns), "without nested loops"),
            Field("Maximum iterations", format_count(max(runs.time.limits)), "if all last as long"),
        ]
    return tuple(fields)


def _build_slack_fields(
    table: NodeTable, index: int, measured: MeasuredGraph | None
) -> tuple[Field, ...]:
    number = None if measured is None else measured.index_of.get((table.graph.id, index))
    if measured is None or number is None or measured.p50[number] == UNTRACED:
        return ()
    critical = number in measured.critical_nodes
    slack = int(measured.slack[number])
    lost = measured.lost_before[number]
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


def _build_eager_fields(work: EagerCounterpart | None) -> tuple[Field, ...]:
    if work is None:
        return ()
    if work.eager_ns is None:
        return (Field("Eager", _ABSENT_TEXT, work.change.value),)
    names = escape_control_characters(", ".join(shorten_name(name) for name in work.names))
    shared_text = (
        f", with {pluralize(work.node_count - 1, 'node')} alongside" if work.node_count > 1 else ""
    )
    change = (work.graph_ns - work.eager_ns) / work.eager_ns if work.eager_ns else 0.0
    note = f"{change:+.0%} in the graph's traced step{shared_text}"
    if work.change is EagerChange.OTHER:
        note += f"; eager runs {names}"
    return (Field("Eager", format_ns(work.eager_ns), note),)


def _build_edge_fields(table: NodeTable, index: int) -> tuple[Field, ...]:
    before = [edge for edge in table.graph.edges if edge.target == index]
    after = [edge for edge in table.graph.edges if edge.source == index]
    return (
        Field("After", _format_ends(before, [edge.source for edge in before])),
        Field("Before", _format_ends(after, [edge.target for edge in after])),
    )


def _build_holder_fields(table: NodeTable) -> tuple[Field, ...]:
    parent = table.graph.parent
    if parent is None:
        return ()
    return (Field("Inside", f"node {parent[1]} of {escape_control_characters(parent[0])}"),)


def _build_need_fields(
    needs: Sequence[NodeNeed], table: NodeTable, measured: MeasuredGraph | None
) -> tuple[Field, ...]:
    if measured is None:
        return ()
    shown = [
        Field(
            "Needs",
            f"{node} {build_node_lines(table.rows[node])[0]}"
            if graph == table.graph.id
            else f"{graph}#{node}",
            format_need(need),
        )
        for need in needs[:_MAX_NEEDS]
        for graph, node in (measured.nodes[need.source],)
    ]
    more = len(needs) - len(shown)
    return (*shown, Field("Needs", f"{more} more")) if more > 0 else tuple(shown)


def _format_ends(edges: list[GraphEdge], ends: list[int]) -> str:
    if not edges:
        return "nothing"
    parts = []
    for edge, end in zip(edges, ends, strict=True):
        data = [] if edge.type is EdgeType.FULL else [edge.type.value]
        if edge.from_port or edge.to_port:
            data.append(f"port {edge.from_port} to {edge.to_port}")
        parts.append(f"{end} ({', '.join(data)})" if data else str(end))
    return ", ".join(parts)


def _compute_histogram(samples: Ints) -> tuple[int, ...]:
    if not len(samples):
        return ()
    counts, _ = np.histogram(samples, bins=min(_MAX_BINS, max(1, len(np.unique(samples)))))
    return tuple(int(count) for count in counts)


def _format_text(value: str | None) -> str:
    return _ABSENT_TEXT if value is None else escape_control_characters(value)


def _format_dim3(size: tuple[int, int, int] | None) -> str:
    if size is None:
        return "–"
    return " x ".join(f"{value:,}" for value in size)
