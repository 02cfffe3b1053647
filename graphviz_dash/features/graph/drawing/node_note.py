"""Names and short descriptions of nodes."""

from __future__ import annotations

from typing import Final

from graphviz_dash.analysis.nodes.node_table import NodeRow
from graphviz_dash.analysis.trace.kernel_names import short_name
from graphviz_dash.errors import printable
from graphviz_dash.model.graph import (
    BatchMemOpParams,
    ConditionalParams,
    GraphNode,
    HostParams,
    KernelParams,
    MemAllocParams,
    MemcpyParams,
    MemFreeParams,
    MemsetParams,
    SemaphoreParams,
)
from graphviz_dash.units import format_bytes

ATEN: Final = "aten::"
"""Default operator namespace, omitted in names."""


def node_lines(row: NodeRow, above: str = "") -> tuple[str, str]:
    """Build the name and the description of a node: operator or module, and kernel. A node with
    neither is named by its kernel and :func:`node_note`. A module equal to the title ``above`` is
    skipped."""
    work = work_name(row.node)
    module = row.origin.module
    title = operator_name(row) or (module.rpartition(".")[2] if module and module != above else "")
    if not title or title == work:
        return work, node_note(row.node)
    return printable(title), work


def operator_name(row: NodeRow) -> str:
    """Format the operator as PyTorch users write it, without the aten namespace; empty if
    unknown."""
    return (row.origin.op or "").removeprefix(ATEN)


def module_tail(module: str | None) -> str:
    """Return a module's path without the root class, which all nodes share; empty if unknown."""
    if module is None:
        return ""
    root, _, inner = printable(module).partition(".")
    return inner or root


def work_name(node: GraphNode) -> str:
    """Return the short kernel name, or the label of another kind of node."""
    label = printable(node.label)
    return short_name(label) if isinstance(node.params, KernelParams) else label


def node_note(node: GraphNode) -> str:
    """Describe size, partner or operations of a node; its kind if nothing else is known."""
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
