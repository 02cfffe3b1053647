"""Reading the parts of a bundle that name nodes: types first, then what they say of each other."""

from __future__ import annotations

import gzip
import zlib
from itertools import pairwise
from pathlib import Path

from graphviz_dash.bundle.schema import MAX_PART_BYTES
from graphviz_dash.errors import InputError
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.node_ids import GraphIds, NodeIdPass


def unpacked(file: Path) -> bytes:
    """The text of a gzip-compressed part.

    Raises:
        InputError: no gzip data, or more than MAX_PART_BYTES of text.
    """
    try:
        with gzip.open(file) as packed:
            content = packed.read(MAX_PART_BYTES + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(file, f"not readable as gzip ({error})", "gzip-compressed JSON") from error
    if len(content) > MAX_PART_BYTES:
        raise InputError(file, "too much text", f"at most {MAX_PART_BYTES:,} bytes unpacked")
    return content


def check_graph_ids(ids: tuple[GraphIds, ...], graphs: tuple[CapturedGraph, ...], at: Path) -> None:
    """Refuses ids of a graph that the bundle lacks, ids for another number of nodes, and two graphs
    under one id.

    Raises:
        InputError: as said, with the file ``at``.
    """
    nodes = {graph.id: len(graph.nodes) for graph in graphs}
    launched: set[int] = set()
    seen: set[str] = set()
    for one in ids:
        if one.graph not in nodes or one.graph in seen:
            raise InputError(at, f"ids of {one.graph!r}", "ids of each graph of the bundle once")
        seen.add(one.graph)
        if len(one.nodes) != nodes[one.graph] or len(set(one.nodes)) != len(one.nodes):
            found = f"{len(set(one.nodes)):,} different ids for {one.graph!r}"
            raise InputError(at, found, f"one for each of its {nodes[one.graph]:,} nodes")
        if launched & set(one.launched_as):
            raise InputError(at, f"an id of {one.graph!r} that is another's", "an id for one graph")
        launched.update(one.launched_as)


def check_node_ids(found: NodeIdPass, graphs: tuple[CapturedGraph, ...], at: Path) -> None:
    """Refuses rows that point at nothing, and launches that go back in time.

    Raises:
        InputError: as said, with the file ``at``.
    """
    check_graph_ids(found.graphs, graphs, at)
    steps = found.launch_steps
    if any(later < earlier for earlier, later in pairwise((*steps, max(0, found.steps - 1)))):
        raise InputError(at, "launch_steps out of order", f"steps below {found.steps}, ascending")
    for place, row in enumerate(found.rows):
        if row.launch >= len(steps) or row.look >= len(found.looks):
            raise InputError(
                at,
                f"row {place} of launch {row.launch} and look {row.look}",
                f"one of {len(steps):,} launches and {len(found.looks):,} looks",
            )
