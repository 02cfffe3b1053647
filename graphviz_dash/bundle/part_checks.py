"""What the parts of a bundle say of each other, beyond what their types can hold.

Each takes the part, the bundle's graphs and the part's file, and raises InputError with that file.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from graphviz_dash.errors import InputError
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.memory import MemoryPass, Stage
from graphviz_dash.model.node_ids import GraphIds, NodeIdPass
from graphviz_dash.model.observers import Observer, ObserverPass
from graphviz_dash.model.recording import Recording
from graphviz_dash.model.run import GraphUpdates
from graphviz_dash.model.timings import CleanTimings


def check_clean(clean: CleanTimings, _graphs: tuple[CapturedGraph, ...], file: Path) -> None:
    """Refuses processes that do not have all iterations of the series together."""
    for series, rows, counts in (
        ("steps", clean.steps, [process.steps for process in clean.processes]),
        ("back_to_back_ns", clean.back_to_back_ns, [p.back_to_back for p in clean.processes]),
    ):
        if counts and sum(counts) != len(rows):
            raise InputError(
                file,
                f"processes with {sum(counts):,} rows of {series}",
                f"as many as there are, {len(rows):,}",
            )


def check_graph_ids(
    ids: tuple[GraphIds, ...], graphs: tuple[CapturedGraph, ...], file: Path
) -> None:
    """Refuses ids of a graph that the bundle lacks, ids for another number of nodes, and two graphs
    under one id."""
    nodes = {graph.id: len(graph.nodes) for graph in graphs}
    launched: set[int] = set()
    seen: set[str] = set()
    for row in ids:
        if row.graph not in nodes or row.graph in seen:
            raise InputError(file, f"ids of {row.graph!r}", "ids of each graph of the bundle once")
        seen.add(row.graph)
        if len(row.nodes) != nodes[row.graph] or len(set(row.nodes)) != len(row.nodes):
            different = f"{len(set(row.nodes)):,} different ids for {row.graph!r}"
            raise InputError(file, different, f"one for each of its {nodes[row.graph]:,} nodes")
        if launched & set(row.launched_as):
            raise InputError(
                file, f"an id of {row.graph!r} that is another's", "an id for one graph"
            )
        launched.update(row.launched_as)


def check_node_ids(records: NodeIdPass, graphs: tuple[CapturedGraph, ...], file: Path) -> None:
    """Refuses rows that point at nothing, and launches that go back in time."""
    check_graph_ids(records.graphs, graphs, file)
    steps = records.launch_steps
    if any(later < earlier for earlier, later in pairwise((*steps, max(0, records.steps - 1)))):
        raise InputError(
            file, "launch_steps out of order", f"steps below {records.steps}, ascending"
        )
    for number, row in enumerate(records.rows):
        if row.launch >= len(steps) or row.look >= len(records.looks):
            raise InputError(
                file,
                f"row {number} of launch {row.launch} and look {row.look}",
                f"one of {len(steps):,} launches and {len(records.looks):,} looks",
            )


def check_updates(updates: GraphUpdates, graphs: tuple[CapturedGraph, ...], file: Path) -> None:
    """Refuses an update of a graph that is not launched by itself, and an answer about a node that
    the bundle does not have."""
    # Without a capture pass the graphs are not in the bundle, and their answers stand alone.
    by_id = {graph.id: graph for graph in graphs}
    for pair in updates.pairs if by_id else ():
        for name in (pair.of, pair.by):
            if name not in by_id or by_id[name].parent is not None:
                expected = "the id of a graph that is launched by itself"
                raise InputError(file, f"an update of graph {name!r}", expected)
        graph = by_id.get(pair.answer.graph or pair.by)
        node = pair.answer.node
        if graph is None or (node is not None and node >= len(graph.nodes)):
            raise InputError(file, f"node {node} of {pair.answer.graph!r}", "a node of the bundle")


def check_observers(
    observers: ObserverPass, _graphs: tuple[CapturedGraph, ...], file: Path
) -> None:
    """Refuses a series without a step, one with more rows than steps, and a pass in which nothing
    was timed without an observer: then there is nothing to compare with."""
    for series in observers.observed:
        rows = len(series.steps), len(series.device_ns), len(series.reported_ns)
        if not rows[0] or max(rows) > observers.iterations:
            raise InputError(
                file,
                f"{max(rows):,} rows of {series.observer.value!r} for {rows[0]:,} steps",
                f"from 1 step to {observers.iterations:,}, and no more rows than that",
            )
    if not any(series.observer is Observer.NONE for series in observers.observed):
        raise InputError(file, "every series is observed", "one with nothing attached")


def check_recording(recording: Recording, graphs: tuple[CapturedGraph, ...], file: Path) -> None:
    """Refuses a recording that does not fit the bundle's graphs."""
    nodes = {graph.id: len(graph.nodes) for graph in graphs}
    seen: set[str] = set()
    for graph in recording.graphs:
        if graph.graph in seen:
            raise InputError(file, f"graph {graph.graph!r} twice", "each capture once")
        seen.add(graph.graph)
        if graph.nodes and nodes.get(graph.graph) != graph.nodes:
            there = nodes.get(graph.graph)
            what = "is not there" if there is None else f"has {there}"
            claim = f"{graph.nodes} nodes of {graph.graph!r}, which {what}"
            raise InputError(file, claim, "the nodes of the graph's file")
        if graph.window_replays > graph.replays:
            claim = f"{graph.window_replays} of {graph.replays} replays in the window"
            raise InputError(file, claim, "no more than there were")


def check_memory_pass(memory: MemoryPass, _graphs: tuple[CapturedGraph, ...], file: Path) -> None:
    """Refuses other stages, an extent outside its segment, and one in a segment not listed."""
    stages = [row.stage.value for row in memory.stages]
    if stages != [stage.value for stage in Stage]:
        raise InputError(file, f"stages {', '.join(stages) or 'none'}", f"{', '.join(Stage)}")
    sizes = [segment.bytes for segment in memory.segments]
    extents = [(extent.segment, extent.begin, extent.end) for extent in memory.live]
    for graph in memory.graphs:
        extents += [(extent.segment, extent.begin, extent.end) for extent in graph.extents]
    for segment, begin, end in extents:
        if segment >= len(sizes):
            raise InputError(file, f"segment {segment}", f"one of the {len(sizes)} listed")
        if not begin < end <= sizes[segment]:
            raise InputError(
                file,
                f"bytes {begin} to {end} of segment {segment}",
                f"a stretch inside its {sizes[segment]} bytes",
            )
