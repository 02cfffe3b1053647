"""What names the nodes of a replay: the ids that the driver gave to graphs, and CUPTI's records.

Source of the terms: CUPTI's activity records of kernels, memcpys and memsets (``graphId``,
``graphNodeId``) and the driver's cudaGraphNodeGetToolsId, whose upper 32 bits are the id of the
graph that was launched and whose lower 32 bits number the node within its graph.
"""

from __future__ import annotations

from msgspec import Struct

from graphviz_dash.model.graph import Count, Dim3


class GraphIds(Struct, frozen=True, forbid_unknown_fields=True):
    """The ids of one graph in one process. ``graph`` is its id in the bundle; no graph that lies in
    another has ids of its own, for it is launched as a part of it.

    ``launched_as``: the ids of its executable graphs, which are what a record shows. ``nodes``: the
    number of each of its own nodes, in creation order.
    """

    graph: str
    launched_as: tuple[Count, ...]
    nodes: tuple[Count, ...]


class NodeLook(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """What a record shows of its work besides its times; rows share them."""

    kind: str
    """kernel, memcpy or memset."""
    name: str
    """The kernel's, demangled; of a copy its direction."""
    grid: Dim3 | None
    """Blocks in each direction; None for memcpys and memsets."""
    block: Dim3 | None
    """Threads of a block in each direction; None for memcpys and memsets."""
    shared: Count | None
    """Shared memory in bytes, static and dynamic together; None for memcpys and memsets."""
    registers: Count | None
    """Of a thread; None for memcpys and memsets."""
    bytes: Count | None
    """Of a copy or set; None for kernels."""


class NodeIdRow(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """One record of work that a graph ran."""

    launch: Count
    """Numbers the graph launches of the pass in the order of the calls."""
    graph: Count
    """The upper half of the record's node id: the executable graph."""
    node: Count
    """The lower half: the node within its graph."""
    look: Count
    """An index into ``NodeIdPass.looks``."""
    device: Count
    """The device's ordinal."""
    stream: Count
    """The stream's number."""
    start_ns: Count
    """Since the pass's first step, in ns."""
    duration_ns: Count
    """In ns."""


class NodeIdPass(Struct, frozen=True, forbid_unknown_fields=True):
    """node-ids.json.gz: replays as CUPTI's records show them, each with the id of its node.
    Measured in a process of its own, with cupti-python and without torch.profiler."""

    source: str
    """The package and its versions."""
    steps: Count
    """Iterations that were recorded."""
    dropped: Count
    """Records that CUPTI lost for want of room."""
    outside: Count
    """Records of work that no graph ran, which are not kept."""
    graphs: tuple[GraphIds, ...]
    """The ids of each graph in this process."""
    looks: tuple[NodeLook, ...]
    """What rows share."""
    launch_steps: tuple[Count, ...]
    """The step of each graph launch."""
    rows: tuple[NodeIdRow, ...]
    """The records, by time."""
