"""What a node does in a few words, for where its name alone says too little."""

from __future__ import annotations

from graphviz_dash.model.graph import (
    BatchMemOpParams,
    ConditionalParams,
    GraphNode,
    HostParams,
    MemAllocParams,
    MemcpyParams,
    MemFreeParams,
    MemsetParams,
    SemaphoreParams,
)
from graphviz_dash.units import format_bytes


def node_note(node: GraphNode) -> str:
    """The size, partner or operations of a node; its kind where nothing more is known."""
    match node.params:
        case MemcpyParams(bytes=size) | MemsetParams(bytes=size):
            note = f"{node.kind.value}, {format_bytes(size)}"
        case MemAllocParams(bytes=size, device=device):
            note = f"{format_bytes(size)} on device {device}"
        case MemFreeParams(allocated_by=int(by)):
            note = f"allocated by node {by}"
        case HostParams(library=str(library)):
            note = f"CPU, {library}"
        case SemaphoreParams(semaphores=numbers):
            note = f"semaphore {', '.join(map(str, numbers))}"
        case ConditionalParams(size=int(size)):
            note = f"Conditional, {size} {'body' if size == 1 else 'bodies'}"
        case BatchMemOpParams(operations=operations) if operations:
            note = ", ".join(operations)
        case _:
            note = node.kind.value
    return note
