"""Everything known of each node of a captured graph, in one row: the driver's facts, where the node
comes from, and its times over the replays. The DAG, the node card, the CLI and the exports all take
this one table.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphviz_dash.analysis.categories import Category
from graphviz_dash.model.graph import CapturedGraph, GraphNode


@dataclass(frozen=True)
class NodeOrigin:
    """What launched a node during capture.

    ``method`` names the rung of attribution ("capture order", "none"); ``confidence`` is 0 to 1.
    ``op`` is the innermost operator, ``op_path`` all of them, outermost first. ``input_dims`` and
    ``input_types`` are the JSON text of the trace. ``phase`` is forward, backward, optimizer or
    other. ``module`` is a dotted path. ``source`` is ``file:line`` with ``source_method`` telling
    how it was found. A field is None when the trace does not tell; ``reason`` then says why.
    """

    method: str
    confidence: float
    launch_call: str | None = None
    op: str | None = None
    op_path: tuple[str, ...] = ()
    input_dims: str | None = None
    input_types: str | None = None
    phase: str = "other"
    module: str | None = None
    source: str | None = None
    source_method: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class NodeTimes:
    """A node's duration over the traced replays, in ns, and how its kernels were found.

    ``method`` is the rung ("graph node id", "alignment: order", "alignment: branches", "none").
    ``samples`` is 0, and the times None, for a node that the profiler did not show.
    """

    method: str
    confidence: float
    samples: int
    median_ns: float | None
    min_ns: int | None
    max_ns: int | None
    start_median_ns: float | None  # since the start of its replay's first kernel
    stream: int | None  # of the first replay


@dataclass(frozen=True)
class NodeRow:
    """One node: driver facts, origin, times. ``category`` is read from its name."""

    node: GraphNode
    category: Category
    origin: NodeOrigin
    times: NodeTimes


@dataclass(frozen=True)
class NodeTable:
    """All nodes of one graph, by index, with the counts that tell how far to trust them."""

    graph: CapturedGraph
    rows: tuple[NodeRow, ...]
    attributed: int  # nodes with an op
    capture_launches: int  # launches seen in the capture trace inside this capture
    replays: int
    replay_kernels: int  # GPU rows of all replays
    matched_kernels: int  # of these, matched to a node
