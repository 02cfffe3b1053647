"""Device memory of executable graphs, which the driver allocates outside torch's allocator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graphviz_dash.analysis.memory.report import DRIVER_CHUNK, NODE_BYTES
from graphviz_dash.model.ledger import SampleKind

if TYPE_CHECKING:
    from graphviz_dash.model.ledger import Ledger, MemorySample
    from graphviz_dash.model.run import Run

_MIN_MEASURED_BYTES: Final = 4 * DRIVER_CHUNK
"""Minimum total size for a measurement, because the driver allocates chunks."""
_MAX_NODE_BYTES: Final = 16_384
"""Largest plausible bytes per node. Above it, another process used the GPU's memory."""


class NodeBytes(Struct, frozen=True):
    """Device memory of executables per node."""

    bytes: float
    """Bytes per node."""
    graphs: int
    """Graphs behind the estimate. 0 means the built-in default, because the family's own
    graphs are too small to measure.
    """


def measure_node_bytes(sizes: Iterable[tuple[int, int]]) -> NodeBytes:
    """Measure the bytes per node from the bytes and the nodes of graphs, if they are large enough;
    else the default."""
    measurements = list(sizes)
    total_bytes = sum(size for size, _ in measurements)
    nodes = sum(count for _, count in measurements)
    if not _MIN_MEASURED_BYTES <= total_bytes <= nodes * _MAX_NODE_BYTES:
        return NodeBytes(NODE_BYTES, 0)
    return NodeBytes(total_bytes / nodes, len(measurements))


def find_capture_chunks(ledger: Ledger | None) -> dict[str, int]:
    """Find captures during which the driver allocated one chunk for earlier executables, in bytes.

    Larger growth, and that of the first capture, is kernels.
    """
    if ledger is None:
        return {}
    begins = {
        sample.name: sample.outside_bytes
        for sample in ledger.samples
        if sample.kind is SampleKind.CAPTURE_BEGIN
    }
    first = next(iter(begins), None)
    return {
        sample.name: DRIVER_CHUNK
        for sample in ledger.samples
        if sample.kind is SampleKind.CAPTURE_END
        and sample.name is not None
        and sample.name != first
        and sample.outside_bytes - begins.get(sample.name, 0) == DRIVER_CHUNK
    }


def measure_growth(ledger: Ledger) -> dict[str, int]:
    """Measure the growth by the executable of each graph, in bytes, chunks in captures included."""
    growth: dict[str, int] = {}
    chunks = find_capture_chunks(ledger)
    bodies: dict[str, MemorySample] = {}
    for sample in ledger.samples:
        if sample.name is None:
            continue
        if sample.kind in (SampleKind.CAPTURE_BEGIN, SampleKind.CAPTURE_END):
            bodies[sample.name] = sample
        elif sample.kind is SampleKind.INSTANTIATION and sample.name in bodies:
            increase = sample.outside_bytes - bodies[sample.name].outside_bytes
            growth[sample.name] = growth.get(sample.name, chunks.get(sample.name, 0)) + increase
            bodies[sample.name] = sample
    return growth


def estimate_executables(run: Run, nodes: Mapping[str, int]) -> dict[str, float]:
    """Estimate the bytes of graphs by their ``nodes``, with the bytes per node of each family.

    Graphs without a family form one.
    """
    loop, ledger = run.loop, run.ledger
    chunks = find_capture_chunks(ledger)
    growth = {} if ledger is None else measure_growth(ledger)
    for cost in loop.graphs if loop is not None else ():
        if cost.driver_bytes is not None:
            growth[cost.graph] = cost.driver_bytes + chunks.get(cost.graph, 0)
    families = [
        {graph for member in family.members for graph in member.graphs}
        for family in (loop.families if loop is not None else ())
    ]
    remaining = set(nodes).difference(*families)
    estimates: dict[str, float] = {}
    for names in (*families, remaining):
        present = names & nodes.keys()
        node_bytes = measure_node_bytes(
            (growth[name], nodes[name]) for name in sorted(present & growth.keys())
        )
        estimates |= {name: nodes[name] * node_bytes.bytes for name in present}
    return estimates
