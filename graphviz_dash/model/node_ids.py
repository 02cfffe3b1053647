"""Node ids of replays: the driver's graph ids and CUPTI's records.

Source of the terms: CUPTI's activity records of kernels, memcpys and memsets (``graphId``,
``graphNodeId``) and the driver's cudaGraphNodeGetToolsId. Its upper 32 bits are the id of the
launched graph, its lower 32 bits number the node within that graph.
"""

from __future__ import annotations

from msgspec import Struct

from graphviz_dash.model.graph import Count, Dim3


class GraphIds(Struct, frozen=True, forbid_unknown_fields=True):
    """Ids of one top-level graph in one process. Bodies have none; they are launched with it."""

    graph: str
    executable_ids: tuple[Count, ...]
    """Ids of its executable graphs, as in records."""
    nodes: tuple[Count, ...]
    """Number of each of its direct nodes, in creation order."""


class NodeSignature(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Attributes of a record other than its times, shared by rows."""

    kind: str
    """Kind of work: kernel, memcpy or memset."""
    name: str
    """Demangled kernel name, or direction of a copy."""
    grid: Dim3 | None
    """Blocks per dimension. None for memcpys and memsets."""
    block: Dim3 | None
    """Threads of a block per dimension. None for memcpys and memsets."""
    shared: Count | None
    """Static and dynamic, in bytes. None for memcpys and memsets."""
    registers: Count | None
    """Registers per thread. None for memcpys and memsets."""
    bytes: Count | None
    """Bytes of a copy or memset. None for kernels."""


class NodeIdRow(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """One record of work run by a graph."""

    launch: Count
    """Number of the graph launch, in call order."""
    graph: Count
    """Id of the executable graph: upper half of the record's node id."""
    node: Count
    """Number of the node within its graph: lower half of the record's node id."""
    signature: Count
    """Index in `signatures`."""
    device: Count
    """Ordinal of the device."""
    stream: Count
    start_ns: Count
    """Start since the first step of the pass, in ns."""
    duration_ns: Count


class NodeIdPass(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of node-ids.json.gz: CUPTI's records of replays with node ids.

    Measured in a separate process, with cupti-python and without torch.profiler.
    """

    source: str
    """Package and versions."""
    steps: Count
    """Recorded iterations."""
    dropped_records: Count
    """Records that CUPTI dropped."""
    outside_records: Count
    """Discarded records of work outside graphs."""
    graphs: tuple[GraphIds, ...]
    """Ids of each graph in this process."""
    signatures: tuple[NodeSignature, ...]
    """Attributes shared by rows."""
    launch_steps: tuple[Count, ...]
    """Step of each graph launch."""
    rows: tuple[NodeIdRow, ...]
    """Records, by time."""
