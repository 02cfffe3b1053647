"""Consistency checks between the parts of a bundle, beyond their types.

Each check raises InputError with the part's file.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Final

from graphviz_dash.errors import InputError
from graphviz_dash.model.ceilings import ArithmeticTime, Ceilings, MemoryTime
from graphviz_dash.model.compilation import Compilation
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.ledger import Ledger
from graphviz_dash.model.loop import GraphFamily, LoopSteps, ProgramLoop, StepKind
from graphviz_dash.model.memory import MemoryPass, Stage
from graphviz_dash.model.node_ids import GraphIds, NodeIdPass
from graphviz_dash.model.observers import Observer, ObserverPass
from graphviz_dash.model.parallel import ParallelPlan
from graphviz_dash.model.recording import Recording
from graphviz_dash.model.run import GraphUpdates
from graphviz_dash.model.source_code import MAX_CODE_LENGTH, MAX_LINES, SourceCode
from graphviz_dash.model.timings import CleanTimings

_LINE: Final = re.compile(r".+:\d+", re.S)
"""``file:line``."""


def check_clean(clean: CleanTimings, _graphs: tuple[CapturedGraph, ...], file: Path) -> None:
    """Reject processes whose iterations do not add up to the series."""
    for series, rows, counts in (
        ("steps", clean.steps, [process.step_count for process in clean.processes]),
        ("back_to_back_ns", clean.back_to_back_ns, [p.back_to_back_count for p in clean.processes]),
    ):
        if counts and sum(counts) != len(rows):
            raise InputError(
                file,
                f"processes with {sum(counts):,} rows of {series}",
                f"as many as there are, {len(rows):,}",
            )


def check_compilation(
    compilation: Compilation, graphs: tuple[CapturedGraph, ...], file: Path
) -> None:
    """Reject an inconsistent tree, or references to graphs missing from the bundle."""
    known_ids = {graph.id for graph in graphs}
    functions = {function.id for function in compilation.functions}
    seen: set[int] = set()
    for node in compilation.nodes:
        if node.id in seen or (node.parent is not None and node.parent not in seen):
            raise InputError(file, f"node {node.id}", "each node once, after its parent")
        if node.function not in functions:
            raise InputError(file, f"function {node.function}", "a listed function")
        if node.graph is not None and node.graph not in known_ids:
            raise InputError(file, f"the graph {node.graph!r}", "a graph of the bundle")
        seen.add(node.id)
    frames = [frame.id for frame in compilation.frames]
    if len(set(frames)) != len(frames):
        raise InputError(file, "a duplicate compilation", "each compilation once")


def check_graph_ids(
    ids: tuple[GraphIds, ...], graphs: tuple[CapturedGraph, ...], file: Path
) -> None:
    """Reject ids of missing graphs, a wrong number of node ids, and ids shared by two graphs."""
    nodes = {graph.id: len(graph.nodes) for graph in graphs}
    executable_ids: set[int] = set()
    known_ids: set[str] = set()
    for row in ids:
        if row.graph not in nodes or row.graph in known_ids:
            raise InputError(file, f"ids of {row.graph!r}", "ids of each graph of the bundle once")
        known_ids.add(row.graph)
        if len(row.nodes) != nodes[row.graph] or len(set(row.nodes)) != len(row.nodes):
            distinct = f"{len(set(row.nodes)):,} distinct ids for {row.graph!r}"
            raise InputError(file, distinct, f"one for each of its {nodes[row.graph]:,} nodes")
        if executable_ids & set(row.executable_ids):
            raise InputError(
                file, f"an id of {row.graph!r} that belongs to another graph", "one id per graph"
            )
        executable_ids.update(row.executable_ids)


def check_node_ids(records: NodeIdPass, graphs: tuple[CapturedGraph, ...], file: Path) -> None:
    """Reject rows with invalid references, and launches whose steps are out of order."""
    check_graph_ids(records.graphs, graphs, file)
    steps = records.launch_steps
    if any(later < earlier for earlier, later in pairwise((*steps, max(0, records.steps - 1)))):
        raise InputError(
            file, "launch_steps out of order", f"steps below {records.steps}, ascending"
        )
    for number, row in enumerate(records.rows):
        if row.launch >= len(steps) or row.signature >= len(records.signatures):
            raise InputError(
                file,
                f"row {number} of launch {row.launch} and look {row.signature}",
                f"one of {len(steps):,} launches and {len(records.signatures):,} looks",
            )


def check_updates(updates: GraphUpdates, graphs: tuple[CapturedGraph, ...], file: Path) -> None:
    """Reject an update of a body graph, and a result about a node missing from the bundle."""
    # Without a capture pass, the bundle contains results but no graphs.
    by_id = {graph.id: graph for graph in graphs}
    for pair in updates.pairs if by_id else ():
        for name in (pair.source_graph, pair.target_graph):
            if name not in by_id or by_id[name].parent is not None:
                expected = "the id of a top-level graph"
                raise InputError(file, f"an update of graph {name!r}", expected)
        graph = by_id.get(pair.result.graph or pair.target_graph)
        node = pair.result.node
        if graph is None or (node is not None and node >= len(graph.nodes)):
            raise InputError(file, f"node {node} of {pair.result.graph!r}", "a node of the bundle")


def check_observers(
    observers: ObserverPass, _graphs: tuple[CapturedGraph, ...], file: Path
) -> None:
    """Reject a series without steps or with more rows than steps, and a pass without an unobserved
    series."""
    for series in observers.series:
        rows = len(series.steps), len(series.device_ns), len(series.reported_ns)
        if not rows[0] or max(rows) > observers.iterations:
            raise InputError(
                file,
                f"{max(rows):,} rows of {series.observer.value!r} for {rows[0]:,} steps",
                f"from 1 step to {observers.iterations:,}, and no more rows than that",
            )
    if not any(series.observer is Observer.NONE for series in observers.series):
        raise InputError(file, "every series has an observer", "one without an observer")


def check_recording(recording: Recording, graphs: tuple[CapturedGraph, ...], file: Path) -> None:
    """Reject a recording that contradicts the bundle's graphs."""
    nodes = {graph.id: len(graph.nodes) for graph in graphs}
    known_ids: set[str] = set()
    for graph in recording.graphs:
        if graph.graph in known_ids:
            raise InputError(file, f"graph {graph.graph!r} twice", "each capture once")
        known_ids.add(graph.graph)
        if graph.nodes and nodes.get(graph.graph) != graph.nodes:
            actual_nodes = nodes.get(graph.graph)
            mismatch = "is missing" if actual_nodes is None else f"has {actual_nodes}"
            description = f"{graph.nodes} nodes of {graph.graph!r}, which {mismatch}"
            raise InputError(file, description, "the nodes of the graph's file")
        if graph.window_replays > graph.replays:
            description = f"{graph.window_replays} of {graph.replays} replays in the window"
            raise InputError(file, description, "at most the number of replays")


def check_ceilings(ceilings: Ceilings, _graphs: tuple[CapturedGraph, ...], file: Path) -> None:
    """Reject limits without measurements, and measurements of nothing or without a duration."""
    empty_durations = ceilings.empty_kernel_ns
    if not empty_durations or min(empty_durations) < 1:
        raise InputError(file, "no duration of an empty kernel", "at least one, above 0")
    entries: tuple[MemoryTime | ArithmeticTime, ...] = (*ceilings.memory, *ceilings.arithmetic)
    for entry in entries:
        amount = entry.bytes if isinstance(entry, MemoryTime) else entry.flops
        if not entry.duration_ns or min(entry.duration_ns) < 1 or amount < 1:
            raise InputError(file, "a measurement of 0", "bytes or FLOPs, and durations above 0")


def check_source_code(code: SourceCode, _graphs: tuple[CapturedGraph, ...], file: Path) -> None:
    """Reject code that is too long, or that belongs to no line."""
    if len(code.lines) > MAX_LINES:
        raise InputError(file, f"{len(code.lines):,} lines", f"at most {MAX_LINES:,}")
    for line, text in code.lines.items():
        if not _LINE.fullmatch(line):
            raise InputError(file, f"code of {line[:80]!r}", "code of file:line")
        if len(text) > MAX_CODE_LENGTH:
            excess = f"{len(text):,} characters of {line[:80]!r}"
            raise InputError(file, excess, f"at most {MAX_CODE_LENGTH}")


def check_loop(loop: ProgramLoop, _graphs: tuple[CapturedGraph, ...], file: Path) -> None:
    """Reject graphs without costs, keys unlike their family's axes, uneven columns, and invalid
    references."""
    graphs_with_costs = {row.graph for row in loop.graphs}
    if len(graphs_with_costs) != len(loop.graphs):
        raise InputError(file, "costs of a graph twice", "each graph once")
    for family in loop.families:
        _check_family(family, graphs_with_costs, file)
    count = _check_columns(loop.steps, file)
    if count > loop.step_count:
        description = f"{count:,} rows of {loop.step_count:,} steps"
        raise InputError(file, description, "at most one row per step")
    if count < loop.clean_steps:
        raise InputError(file, f"{loop.clean_steps:,} clean steps", f"at most {count:,}")
    second_range = loop.later_clean_steps
    if second_range is not None and not (
        loop.clean_steps <= second_range[0] <= second_range[1] <= count
    ):
        text = f"later clean steps {second_range[0]:,} to {second_range[1]:,}"
        raise InputError(file, text, f"rows from {loop.clean_steps:,} to {count:,}")
    if any(row is not None and row >= count for row in loop.window_rows):
        raise InputError(file, "a step of the window without a row", f"rows below {count:,}")
    _check_steps(loop, file)


def _check_family(family: GraphFamily, costed: set[str], file: Path) -> None:
    family_name = f"family {family.name!r}"
    if family.size_axis is not None and family.size_axis >= len(family.axes):
        raise InputError(file, f"size axis {family.size_axis} of {family_name}", "one of its axes")
    for member in family.members:
        if not member.graphs or not costed.issuperset(member.graphs):
            raise InputError(
                file, f"a member of {family_name} with {member.graphs}", "graphs with costs"
            )
        if (member.key is None) != (member.method is None):
            raise InputError(file, f"a key without a method in {family_name}", "both, or neither")
        if member.key is not None and len(member.key) != len(family.axes):
            description = f"a key of {len(member.key)} numbers in {family_name}"
            raise InputError(file, description, f"{len(family.axes)}, one per axis")


def _check_columns(steps: LoopSteps, file: Path) -> int:
    lengths = {name: len(getattr(steps, name)) for name in steps.__struct_fields__}
    if not steps.requests:
        del lengths["requests"]
    if len(set(lengths.values())) != 1:
        description = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        raise InputError(
            file, f"columns of different lengths ({description})", "columns of equal length"
        )
    return len(steps.kind)


def _check_steps(loop: ProgramLoop, file: Path) -> None:
    members = [len(family.members) for family in loop.families]
    steps = loop.steps
    rows = zip(steps.kind, steps.family, steps.member, strict=True)
    for number, (kind, family, member) in enumerate(rows):
        if family is not None and family >= len(members):
            raise InputError(file, f"step {number} of family {family}", "one of the families")
        if member is not None and (family is None or member >= members[family]):
            raise InputError(file, f"step {number} of member {member}", "a member of its family")
        if kind is StepKind.FALLBACK and member is not None:
            raise InputError(
                file, f"fallback {number} with a member", "none, because no graph fits"
            )
    if any(end < start for start, end in zip(steps.start_ns, steps.end_ns, strict=True)):
        raise InputError(file, "a step that ends before it starts", "an end after each start")


def check_memory_pass(memory: MemoryPass, _graphs: tuple[CapturedGraph, ...], file: Path) -> None:
    """Reject unexpected stages, and an extent outside its segment or of an unlisted one."""
    stages = [row.stage.value for row in memory.stages]
    if stages != [stage.value for stage in Stage]:
        raise InputError(file, f"stages {', '.join(stages) or 'none'}", f"{', '.join(Stage)}")
    sizes = [segment.bytes for segment in memory.segments]
    extents = [(extent.segment, extent.start, extent.end) for extent in memory.live_extents]
    for graph in memory.graphs:
        extents += [(extent.segment, extent.start, extent.end) for extent in graph.extents]
    for segment, start, end in extents:
        if segment >= len(sizes):
            raise InputError(file, f"segment {segment}", f"one of the {len(sizes)} listed")
        if not start < end <= sizes[segment]:
            raise InputError(
                file,
                f"bytes {start} to {end} of segment {segment}",
                f"a range within its {sizes[segment]} bytes",
            )


def check_parallel(plan: ParallelPlan, _graphs: tuple[CapturedGraph, ...], file: Path) -> None:
    """Reject references to missing operators or storages, and waits for later operators."""
    count = len(plan.operators)
    if len(plan.streams) != count or len(plan.waits) != count:
        raise InputError(
            file,
            f"{len(plan.streams):,} streams and {len(plan.waits):,} waits of {count:,} operators",
            "one of each per operator",
        )
    for index, (operator, waits) in enumerate(zip(plan.operators, plan.waits, strict=True)):
        if any(source >= index for source in waits):
            raise InputError(file, f"operator {index} waits for {waits}", "operators before it")
        if any(access.storage >= len(plan.storages) for access in operator.accesses):
            raise InputError(
                file,
                f"operator {index} accesses a missing storage",
                f"one of {len(plan.storages):,} storages",
            )
    if any(storage.creator is not None and storage.creator >= count for storage in plan.storages):
        raise InputError(
            file, "a storage created by a missing operator", f"one of {count:,} operators"
        )


def check_ledger(ledger: Ledger, _graphs: tuple[CapturedGraph, ...], file: Path) -> None:
    """Reject samples out of order, memory that does not add up, and states without samples.

    Graphs without files are allowed: captures may fail.
    """
    for before, after in pairwise(ledger.samples):
        if after.time_ns < before.time_ns:
            raise InputError(file, f"a sample at {after.time_ns:,} ns", "samples in order")
    for sample in ledger.samples:
        if sample.pool_bytes > sample.reserved_bytes:
            raise InputError(
                file,
                f"private pools of {sample.pool_bytes:,} bytes",
                f"at most the reserved {sample.reserved_bytes:,}",
            )
    for span in ledger.spans:
        if span.end_ns < span.start_ns:
            raise InputError(
                file, f"a span that ends at {span.end_ns:,} ns", "an end after its start"
            )
    for state in ledger.states:
        if state.sample >= len(ledger.samples):
            raise InputError(
                file, f"sample {state.sample}", f"one of {len(ledger.samples)} samples"
            )
