"""What names the nodes of a replay: the ids that the driver gave to graphs, and CUPTI's records.

Source of the terms: CUPTI's activity records of kernels, copies and sets (``graphId``,
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
    """What a record shows of its work besides its times; rows share them.

    ``kind`` is kernel, memcpy or memset. Grid, block, ``shared`` (bytes, static and dynamic
    together) and ``registers`` are a kernel's, ``bytes`` those of a copy or set.
    """

    kind: str
    name: str
    grid: Dim3 | None
    block: Dim3 | None
    shared: Count | None
    registers: Count | None
    bytes: Count | None


class NodeIdRow(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """One record of work that a graph ran. ``launch`` numbers the graph launches of the pass in
    the order of the calls, ``graph`` and ``node`` are the ids of the record (upper and lower half),
    ``look`` is a place in ``NodeIdPass.looks``, ``start_ns`` counts from the pass's first step."""

    launch: Count
    graph: Count
    node: Count
    look: Count
    device: Count
    stream: Count
    start_ns: Count
    duration_ns: Count


class NodeIdPass(Struct, frozen=True, forbid_unknown_fields=True):
    """node-ids.json.gz: replays as CUPTI's records show them, each with the id of its node.

    Measured in a process of its own, with cupti-python and without torch.profiler. ``source`` names
    package and versions. ``steps`` iterations were recorded; ``launch_steps`` has the step of each
    graph launch. ``outside`` counts records of work that no graph ran, which are not kept,
    ``dropped`` those that CUPTI lost for want of room.
    """

    source: str
    steps: Count
    dropped: Count
    outside: Count
    graphs: tuple[GraphIds, ...]
    looks: tuple[NodeLook, ...]
    launch_steps: tuple[Count, ...]
    rows: tuple[NodeIdRow, ...]
